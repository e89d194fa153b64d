"""From the name of a dataset to its two sources on a device."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from prunecast.catalog import DIGITS, IMAGENET, DatasetFacts, dataset_names, find_dataset, own_dataset
from prunecast.data.arrays import checked
from prunecast.data.dataset import Dataset, chance_error
from prunecast.data.digits import digits
from prunecast.data.folders import Listing, find_folders
from prunecast.data.halves import Bytes, Half, Halves, described
from prunecast.data.memory import MemorySource
from prunecast.data.readers import READERS, read
from prunecast.data.stream import StreamSource
from prunecast.data.trees import Folder
from prunecast.errors import PrunecastError

DATASETS = (DIGITS.name, *READERS, IMAGENET.name)
MOST_OF_DEVICE = 0.5
"""The share of a GPU's free memory that the bytes of one half may take before they stay on the host."""


def load(
    name: str,
    *,
    root: Path | None = None,
    device: torch.device | str = "cpu",
    image_size: int | None = None,
) -> Dataset:
    """Return a dataset by name, or one of your own as `package.module:attribute`.

    root is its folder or archive (none for digits). image_size brings the images of a folder to one size
    by scaling the shorter side and taking the centre; for imagenet it is the size of the crops.
    """
    place = torch.device(device)
    facts = own_dataset(name) if ":" in name else find_dataset(name)
    if facts is not None and facts.read is not None:
        return from_arrays(facts.read(root), name=facts.name, device=device)
    if name not in DATASETS:
        known = dict.fromkeys((*DATASETS, *dataset_names()))
        raise PrunecastError(f"unknown dataset {name!r}; choose one of {', '.join(known)}.")
    if name == DIGITS.name:
        return _resident(name, digits(), place)
    if root is None:
        raise PrunecastError(f"the dataset {name} needs a root: the folder or archive where it lies.")
    if not Path(root).exists():
        raise PrunecastError(f"{root} does not exist; the dataset {name} was to be read from there.")
    if facts is not None and facts.streamed:
        return _streamed(facts, Path(root), place, image_size or facts.image_shape[1])
    return _resident(name, read(name, Path(root), image_size), place)


def from_arrays(
    arrays: Mapping[str, Any], *, name: str = "arrays", device: torch.device | str = "cpu"
) -> Dataset:
    """Return a dataset of arrays in memory: train_images, train_labels, test_images, test_labels."""
    return _resident(name, described(*checked(arrays, name)), torch.device(device))


def _resident(name: str, halves: Halves, device: torch.device) -> Dataset:
    """Return sources of bytes, normalised by mean and std of the whole training half."""
    mean, std = (torch.tensor(part, dtype=torch.float32, device=device) for part in (halves.mean, halves.std))

    def source(half: Half) -> MemorySource:
        labels = torch.from_numpy(half.labels).to(device)
        return MemorySource(_placed(half.images, device), labels, mean=mean, std=std)

    return Dataset(
        name=name,
        train=source(halves.train),
        test=source(halves.test),
        num_classes=halves.num_classes,
        chance_error=chance_error(torch.from_numpy(halves.test.labels)),
        digest=halves.digest,
    )


def _placed(images: Bytes, device: torch.device) -> torch.Tensor:
    """Return the bytes on the device, or on the host where they would crowd the device."""
    host = torch.from_numpy(images)
    if device.type == "cuda" and images.nbytes > MOST_OF_DEVICE * torch.cuda.mem_get_info(device)[0]:
        return host
    return host.to(device)


def _streamed(facts: DatasetFacts, root: Path, device: torch.device, image_size: int) -> Dataset:
    if not root.is_dir():
        raise PrunecastError(
            f"{root} is no folder; {facts.name} is read from train/<class>/ and val/<class>/."
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
        digest=hashlib.sha256(names.encode()).hexdigest(),
    )
