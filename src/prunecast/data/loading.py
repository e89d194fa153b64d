"""From the name of a dataset, through the cache, to its two sources on a device."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from prunecast.catalog import (
    DIGITS,
    IMAGENET,
    DatasetFacts,
    dataset_names,
    find_dataset,
    own_dataset,
    require_size,
)
from prunecast.data.arrays import checked, digits, find_arrays
from prunecast.data.cache import cached, key
from prunecast.data.dataset import (
    Dataset,
    Found,
    Half,
    Halves,
    Preprocessing,
    Split,
    chance_error,
    described,
)
from prunecast.data.files import SUFFIXES, Folder, Tree, is_archive, read_archive
from prunecast.data.folders import FoundFolders, Listing, find_folders, opened
from prunecast.data.official import find_cifar, find_svhn
from prunecast.data.sources import HostSource, MemorySource, StreamSource, scaled_side
from prunecast.data.torch_datasets import read_torch_datasets
from prunecast.errors import PrunecastError
from prunecast.plugins import load_attribute
from prunecast.spec import ChainSpec

Find = Callable[[Tree], Found | FoundFolders]

READERS: dict[str, Callable[[int | None, Split], Find]] = {
    "cifar10": lambda *_: find_cifar(10),
    "cifar100": lambda *_: find_cifar(100),
    "svhn": lambda *_: find_svhn,
    "tinyimagenet": lambda size, _: find_folders(("val",), size),
    "folder": lambda size, split: find_folders(("test", "val"), size, split),
    "arrays": lambda *_: find_arrays,
}
"""Functions of an image size and a split (used for image files only) that return how to find a dataset among files."""
DATASETS = (DIGITS.name, *READERS, IMAGENET.name)
FROM_IMAGE_FILES = ("tinyimagenet", "folder")
"""Readers that resize images to one size."""
DIGITS_HIGHEST = 16
"""The highest value of a pixel of the digits."""
SURVEYED = 100
"""How many images a survey opens to see their sizes."""
MOST_OF_DEVICE = 0.5
"""If one set needs more than this share of a GPU's free memory, it stays on the host."""


def load(
    name: str,
    *,
    root: Path | None = None,
    device: torch.device | str = "cpu",
    image_size: int | None = None,
    split: Split | None = None,
) -> Dataset:
    """Return a dataset by name, or one of your own as `package.module:attribute`.

    `root` is its folder or archive (none for digits). `image_size` brings the images of a folder to one size by
    scaling the shorter side and taking the centre; for imagenet it is the size of the crops. `split` says how class
    folders without a test half are split; one that is not the default is refused for other data.
    """
    place, split = torch.device(device), split or Split()
    dataset = _loaded(name, root, place, image_size, split)
    if dataset.split is None and split != Split():
        where = f"{root}" if root is not None else f"the dataset {name}"
        raise PrunecastError(f"{where} already has a test set; remove test_share and split_seed.")
    if image_size is not None:
        require_size(name, dataset.train.image_shape, image_size)
    return dataset


def load_for(spec: ChainSpec, *, root: Path | None, device: torch.device | str = "cpu") -> Dataset:
    """Return the dataset that a chain trains on."""
    split = Split(test_share=spec.test_share, seed=spec.split_seed)
    name = spec.loader or spec.dataset
    return load(name, root=root, device=device, image_size=spec.image_size, split=split)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the files of class folders show before they are decoded."""

    num_classes: int
    chance_error: float
    train_examples: int
    test_examples: int
    sizes: frozenset[tuple[int, int]]
    """Width and height of some of the images."""
    shorter_side: float
    """The median of the shorter sides of some of the images."""
    split: Split | None


def survey(root: Path) -> Survey:
    """Look at a folder or an archive of class folders, and into some of its images."""
    tree: Tree = read_archive(root) if is_archive(root) else Folder(base=root)
    found = find_folders(("test", "val"), None, Split())(tree)
    step = max(1, len(found.train.files) // SURVEYED)
    sizes, problems = list[tuple[int, int]](), list[PrunecastError]()
    for name in found.train.files[::step]:
        try:
            sizes.append(opened(tree, name).size)
        except PrunecastError as problem:  # all such images are refused together when they are decoded
            problems.append(problem)
    if not sizes:
        raise problems[0]
    return Survey(
        num_classes=len(found.classes),
        chance_error=chance_error(torch.from_numpy(found.test.labels)),
        train_examples=len(found.train.files),
        test_examples=len(found.test.files),
        sizes=frozenset(sizes),
        shorter_side=median(map(min, sizes)),
        split=found.split,
    )


def _loaded(
    name: str, root: Path | None, place: torch.device, image_size: int | None, split: Split
) -> Dataset:
    facts = own_dataset(name) if ":" in name else find_dataset(name)
    if facts is None and ":" in name:
        own_halves = read_torch_datasets(name, load_attribute(name, "dataset"), root, image_size)
        return _resident(name, own_halves, place, image_size)
    if facts is not None and facts.read is not None:
        found = from_arrays(facts.read(root), name=facts.name, device=place)
        return replace(found, class_names=_official_names(facts, found.num_classes))
    if name not in DATASETS:
        known = dict.fromkeys((*DATASETS, *dataset_names()))
        raise PrunecastError(f"unknown dataset {name!r}; choose one of {', '.join(known)}.")
    if name == DIGITS.name:
        return _resident(name, digits(), place, highest=DIGITS_HIGHEST)
    if root is None:
        raise PrunecastError(f"the dataset {name} needs a root: give the folder or archive that holds it.")
    if not Path(root).exists():
        raise PrunecastError(
            f"{root} does not exist, but the dataset {name} should be read from there; correct the path."
        )
    if facts is not None and facts.streamed:
        return _streamed(facts, Path(root), place, image_size or facts.image_shape[1])
    halves = read(name, Path(root), image_size, split)
    return _resident(name, halves, place, _scaled_side(name, image_size))


def training_examples(
    name: str, *, root: Path | None, image_size: int | None = None, split: Split | None = None
) -> int:
    """The number of training images of a dataset; images in a folder are counted without opening them."""
    if name == "folder" and root is not None and root.is_dir():
        found = find_folders(("test", "val"), image_size, split or Split())(Folder(base=root))
        return len(found.train.files)
    return len(load(name, root=root, image_size=image_size, split=split).train)


def _scaled_side(name: str, image_size: int | None) -> int | None:
    """The shorter side to which a reader scales images; None if it takes them as they are."""
    return image_size if name in FROM_IMAGE_FILES else None


def from_arrays(
    arrays: Mapping[str, Any], *, name: str = "arrays", device: torch.device | str = "cpu"
) -> Dataset:
    """Return a dataset of arrays in memory: train_images, train_labels, test_images, test_labels."""
    return _resident(name, described(*checked(arrays, name)), torch.device(device))


def _resident(
    name: str, halves: Halves, device: torch.device, shorter_side: int | None = None, highest: int = 255
) -> Dataset:
    """Return sources of bytes, normalised by mean and std of the whole training half."""
    mean, std = (torch.tensor(part, dtype=torch.float32, device=device) for part in (halves.mean, halves.std))

    def source(half: Half) -> MemorySource:
        labels = torch.from_numpy(half.labels).to(device)
        images = torch.from_numpy(half.images)
        if device.type == "cuda" and half.images.nbytes > MOST_OF_DEVICE * torch.cuda.mem_get_info(device)[0]:
            return HostSource(images, labels, mean=mean, std=std)
        return MemorySource(images.to(device), labels, mean=mean, std=std)

    height, width = halves.train.images.shape[1:3]
    preprocessing = Preprocessing(
        size=(height, width),
        shorter_side=shorter_side,
        mean=tuple(halves.mean),
        std=tuple(halves.std),
        value_range=(0, highest),
    )
    return Dataset(
        name=name,
        train=source(halves.train),
        test=source(halves.test),
        num_classes=halves.num_classes,
        chance_error=chance_error(torch.from_numpy(halves.test.labels)),
        digest=halves.digest,
        preprocessing=preprocessing,
        class_names=halves.class_names
        or _official_names(None if ":" in name else find_dataset(name), halves.num_classes),
        split=halves.split,
    )


def _official_names(facts: DatasetFacts | None, num_classes: int) -> tuple[str, ...]:
    """The names of a known dataset's classes, if these are its classes."""
    return facts.class_names if facts is not None and len(facts.class_names) == num_classes else ()


def _streamed(facts: DatasetFacts, root: Path, device: torch.device, image_size: int) -> Dataset:
    if not root.is_dir():
        raise PrunecastError(
            f"{root} is not a folder; {facts.name} is read from train/<class>/ and val/<class>/."
        )
    found = find_folders(("val",), image_size)(Folder(base=root))

    def source(listing: Listing) -> StreamSource:
        labels = torch.from_numpy(listing.labels).to(device)
        return StreamSource(found.tree, listing.files, labels, image_size)

    names = "\n".join(found.files)
    return Dataset(
        name=facts.name,
        train=source(found.train),
        test=source(found.test),
        num_classes=len(found.classes),
        chance_error=chance_error(torch.from_numpy(found.test.labels)),
        digest=hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest(),
        preprocessing=Preprocessing(
            size=(image_size, image_size),
            shorter_side=scaled_side(image_size),
            mean=tuple(255 * share for share in IMAGENET.mean),
            std=tuple(255 * share for share in IMAGENET.std),
        ),
        class_names=found.classes,
    )


def read(name: str, root: Path, image_size: int | None, split: Split) -> Halves:
    """Return the arrays of a dataset, decoded the first time and read from the cache afterwards."""
    how, find = f"{name} {image_size}", READERS[name](image_size, split)
    if split != Split():
        how += f" {split.test_share} {split.seed}"
    archive = _archive(root, name)
    if archive is not None:
        files = (archive.name,)
        return cached(
            name, key(how, archive.parent, files), lambda into: find(read_archive(archive)).write(into)
        )
    base = root if root.is_dir() else root.parent
    if root.is_dir():
        found = find(Folder(base=root))
    elif name == "arrays":
        found = find_arrays(Folder(base=base), root.name)
    else:
        raise PrunecastError(f"{root} is neither a folder nor an archive ({', '.join(SUFFIXES)}).")
    halves = cached(name, key(how, base, found.files), found.write)
    if isinstance(found, FoundFolders):
        return replace(halves, class_names=found.classes, split=found.split)
    return halves


def _archive(root: Path, dataset: str) -> Path | None:
    """Return the archive that the root is, or that it contains under its official name."""
    facts = find_dataset(dataset)
    held = (root, *(root / name for name in (facts.archives if facts else ())))
    return next((place for place in held if is_archive(place)), None)
