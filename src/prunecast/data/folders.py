"""Image files in class folders: train/<class>/ and test|val/<class>/, TinyImageNet's own val layout, <class>/.

Class folders without a split are split class by class. In the order of SHA-256(seed, class, file name), the first
images of a class are its test images, so that the split depends on nothing but the names, and a new image moves at most
one other.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prunecast.data.cache import reserve, save_classes, save_split
from prunecast.data.dataset import Bytes, Labels, Split
from prunecast.data.files import Tree
from prunecast.errors import PrunecastError, require
from prunecast.text import listed

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
CHUNK = 256
"""Images that a thread decodes at a time."""
MOST_PIXELS = 89_478_485
"""Larger images are refused: a few kilobytes could fill the memory. It is the size from which Pillow warns."""
MOST_NAMED = 20
"""How many unreadable images an error names after the first."""
ANNOTATIONS = "val/val_annotations.txt"
ANNOTATED = "val/images/"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Image files of one half in a fixed order, and their labels."""

    files: tuple[str, ...]
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class FoundFolders:
    """The image files of the training and the test set; classes are numbered in the order of their names."""

    tree: Tree
    train: Listing
    test: Listing
    notes: tuple[str, ...]
    """The annotation file of the test set, if it has one."""
    classes: tuple[str, ...]
    image_size: int | None
    split: Split | None = None
    """How prunecast split the images; None if they came with a test set."""

    @property
    def files(self) -> Sequence[str]:
        """Training files, test files, annotations."""
        return (*self.train.files, *self.test.files, *self.notes)

    def write(self, folder: Path) -> int:
        """Decode both sets; without an image_size all images must have the size of the first.

        Images that cannot be read are refused together, so that nobody has to start again for each of them.
        """
        first, problems = self.train.files[0], dict[str, PrunecastError]()
        for part, listing in (("train", self.train), ("test", self.test)):
            place = folder / f"{part}_images.npy"
            problems |= decode(self.tree, listing.files, place, self.image_size, first)
            np.save(folder / f"{part}_labels.npy", listing.labels)
        if problems:
            raise _unreadable(self.tree, problems)
        save_classes(folder, self.classes)
        if self.split is not None:
            save_split(folder, self.split)
        return len(self.classes)


def find_folders(
    tests: tuple[str, ...], image_size: int | None, split: Split | None = None
) -> Callable[[Tree], FoundFolders]:
    """Return a function that finds class folders; `tests` are the names that the test set may have.

    With a `split`, class folders without a test set are split by it.
    """

    def find(tree: Tree) -> FoundFolders:
        names = [name for name in tree.names() if not any(part.startswith(".") for part in name.split("/"))]
        top = _top(names, ("train",))
        if top is None and split is not None and _top(names, tests) is None:
            return _split(tree, names, image_size, split)
        if top is None:
            raise PrunecastError(
                f"{tree.base} has no folder `train`; images belong in train/<class>/ and test/<class>/."
            )
        train = _by_class(tree, names, f"{top}train/")
        classes = tuple(train)
        numbers = {name: number for number, name in enumerate(classes)}
        notes = tuple(name for name in (f"{top}{ANNOTATIONS}",) if tree.has(name))
        if notes:
            test = _annotated(tree, names, top, numbers)
        else:
            test = _listing(_test(tree, names, top, tests, numbers), numbers)
        return FoundFolders(
            tree=tree,
            train=_listing(train, numbers),
            test=test,
            notes=notes,
            classes=classes,
            image_size=image_size,
        )

    return find


def _top(names: Sequence[str], halves: tuple[str, ...]) -> str | None:
    """Return the prefix of a half's names: none, or the one folder that contains everything; None without the half."""
    outer = {name.split("/")[0] for name in names}
    for top in ("", *(f"{name}/" for name in outer if len(outer) == 1)):
        if any(name.startswith(f"{top}{half}/") for half in halves for name in names):
            return top
    return None


def _split(tree: Tree, names: Sequence[str], image_size: int | None, split: Split) -> FoundFolders:
    """Class folders without a test set, split by a seed."""
    outer = {name.split("/")[0] for name in names if "/" in name}
    wrapped = len(outer) == 1 and any(name.count("/") > 1 for name in names)
    top = f"{outer.pop()}/" if wrapped else ""
    classes = _by_class(tree, names, top)
    if len(classes) == 1:
        raise PrunecastError(
            f"{tree.base / top} has only one class folder, {next(iter(classes))}; sort its images into at least two."
        )
    train, test = dict[str, list[str]](), dict[str, list[str]]()
    for name, images in classes.items():
        if len(images) == 1:
            raise PrunecastError(
                f"{tree.base / top / name} has only one image; add another one, because every class needs one image "
                "to train and one to test on."
            )
        drawn = _drawn(images, top, split.seed)
        count = min(max(1, round(split.test_share * len(images))), len(images) - 1)
        test[name], train[name] = sorted(drawn[:count]), sorted(drawn[count:])
    numbers = {name: number for number, name in enumerate(classes)}
    return FoundFolders(
        tree=tree,
        train=_listing(train, numbers),
        test=_listing(test, numbers),
        notes=(),
        classes=tuple(classes),
        image_size=image_size,
        split=split,
    )


def _drawn(images: Sequence[str], top: str, seed: int) -> list[str]:
    """The images of a class in an order that the seed and their names fix."""

    def key(file: str) -> bytes:
        words = f"prunecast/split/{seed}/{file[len(top) :]}"
        return hashlib.sha256(words.encode(errors="surrogateescape")).digest()

    return sorted(images, key=key)


def _by_class(tree: Tree, names: Sequence[str], half: str) -> dict[str, list[str]]:
    """Return the images of each class folder of a half, at any depth, sorted by name."""
    files = [name for name in names if name.startswith(half) and "/" in name[len(half) :]]
    classes: dict[str, list[str]] = {name[len(half) :].split("/")[0]: [] for name in files}
    if files:
        classes |= {name: [] for name in tree.folders(half) if not name.startswith(".")}
    for name in _images(files):
        classes[name[len(half) :].split("/")[0]].append(name)
    for name, images in classes.items():
        if not images:
            raise PrunecastError(f"{tree.base / half / name} has no images; add some or remove the folder.")
    _check_once(tree, [name for images in classes.values() for name in images])
    if not classes:
        raise PrunecastError(f"{tree.base / half} has no class folders; sort its images into <class>/.")
    return dict(sorted(classes.items()))


def _check_once(tree: Tree, images: Iterable[str]) -> None:
    """Refuse links that make one folder part of a half twice."""
    known: dict[str, str] = {}
    for place in dict.fromkeys(name.rpartition("/")[0] for name in images):
        first = known.setdefault(tree.real(place), place)
        if first != place:
            problem = f"{tree.base / place} and {tree.base / first} are the same folder"
            raise PrunecastError(f"{problem}, so its images would count twice; remove one link.")


def _test(
    tree: Tree, names: Sequence[str], top: str, tests: Iterable[str], numbers: dict[str, int]
) -> dict[str, list[str]]:
    for half in (f"{top}{test}/" for test in tests):
        if any(name.startswith(half) for name in names):
            classes = _by_class(tree, names, half)
            for name in classes.keys() - numbers.keys():
                train = tree.base / top / "train"
                raise PrunecastError(f"{tree.base / half / name} is a class that {train} does not have.")
            return classes
    wanted = " or ".join(f"`{test}`" for test in tests)
    raise PrunecastError(f"{tree.base / top} has no folder {wanted} with test images.")


def _listing(classes: dict[str, list[str]], numbers: dict[str, int]) -> Listing:
    labels = [numbers[name] for name, images in classes.items() for _ in images]
    files = tuple(file for images in classes.values() for file in images)
    return Listing(files=files, labels=np.array(labels, np.int64))


def _annotated(tree: Tree, names: Sequence[str], top: str, numbers: dict[str, int]) -> Listing:
    """List val/images by the lines `file <tab> class <tab> ...` of val_annotations.txt."""
    notes, prefix = f"{top}{ANNOTATIONS}", f"{top}{ANNOTATED}"
    with tree.open(notes) as file:
        lines = file.read().decode(errors="replace").splitlines()
    labels: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        name, label = [*line.split("\t"), ""][:2]
        if label not in numbers or "/" in name:
            raise PrunecastError(
                f"{tree.base / notes} line {number} does not name an image and a class: {line!r}."
            )
        labels[prefix + name] = numbers[label]
    present = set(_images(name for name in names if name.startswith(prefix)))
    for name in sorted(present ^ labels.keys()):
        what = "is missing" if name in labels else f"has no label in {tree.base / notes}"
        raise PrunecastError(f"{tree.base / name} {what}; unpack the whole archive.")
    if not labels:
        raise PrunecastError(f"{tree.base / notes} names no images.")
    files = tuple(sorted(labels))
    return Listing(files=files, labels=np.array([labels[name] for name in files], np.int64))


def _images(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().endswith(SUFFIXES)]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def decoding_threads() -> int:
    """Return how many threads decode: one for each core this process may use.

    Processes that train one network together share the cores; LOCAL_WORLD_SIZE, as torchrun sets it, counts them.
    """
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def opened(tree: Tree, name: str, spare: Callable[[int, int], float] | None = None) -> "Image":
    """Return an image as RGB, or raise naming the file.

    `spare` returns, from width and height, how many times smaller the image may be. A JPEG is then decoded at
    a half, a quarter or an eighth of its size, the smallest that is large enough, which is faster than
    decoding and scaling all pixels.
    """
    place = tree.base / name
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as missing:
        raise PrunecastError(f"{place} needs Pillow to be read; install pillow.") from missing
    try:
        with tree.open(name) as file, Image.open(file) as image:
            if image.width * image.height > MOST_PIXELS:
                size = f"{image.width}x{image.height} pixels, which is more than {MOST_PIXELS:,}"
                raise PrunecastError(f"{place} has {size}; make it smaller or remove it.")
            if spare is not None:
                times = max(1.0, spare(*image.size))
                image.draft(None, (ceil(image.width / times), ceil(image.height / times)))
            image.load()
            require_bytes(image.mode, str(place))
            return image if image.mode == "RGB" else image.convert("RGB")
    except PrunecastError:
        raise
    except UnidentifiedImageError as broken:  # its text names an object in memory
        raise PrunecastError(f"{place} is not a readable image; repair or remove it.") from broken
    except Exception as broken:  # damaged files make Pillow's decoders raise nearly anything
        raise PrunecastError(f"{place} is not a readable image ({broken}); repair or remove it.") from broken


def require_bytes(mode: str, place: str) -> None:
    """Refuse pixels of 16 or 32 bits (Pillow's modes I and F), which a conversion would cut off at 255."""
    require(
        not mode.startswith(("I", "F")),
        f"{place} has pixels of more than 8 bits (mode {mode}); save the image with 8 bits per channel.",
    )


def centred(image: "Image", scaled_size: int, size: int) -> Bytes:
    """Return the central size × size pixels after scaling the shorter side to scaled_size."""
    from PIL.Image import Resampling

    if image.size != (size, size) or scaled_size != size:
        share = size / scaled_size * min(image.size)
        left, top = ((side - share) / 2 for side in image.size)
        image = image.resize((size, size), Resampling.BILINEAR, (left, top, left + share, top + share))
    return np.asarray(image)


def decode(
    tree: Tree, names: Sequence[str], into: Path, image_size: int | None, model: str
) -> dict[str, PrunecastError]:
    """Write all images as one .npy file of bytes N, H, W, 3, filled in place, so it may exceed the memory.

    Without an image_size all images must have the size of the image `model`.

    Returns:
        Why an image cannot be read, by the names of those.
    """
    problems: dict[str, PrunecastError] = {}
    width, height = (image_size, image_size) if image_size is not None else opened(tree, model).size
    shape = (len(names), height, width, 3)
    images = np.lib.format.open_memmap(into, mode="w+", dtype=np.uint8, shape=shape)
    reserve(into)

    def fill(start: int) -> None:
        for row, name in enumerate(names[start : start + CHUNK], start):
            try:
                image = opened(tree, name)
            except PrunecastError as problem:
                problems[name] = problem
                continue
            if image_size is None and image.size != (width, height):
                sizes = f"{image.width}x{image.height} pixels, but {tree.base / model} has {width}x{height}"
                remedy = "set image_size to resize all images to one size"
                raise PrunecastError(f"{tree.base / name} has {sizes}; {remedy}.")
            images[row] = np.asarray(image) if image_size is None else centred(image, image_size, image_size)

    with ThreadPoolExecutor(decoding_threads()) as pool:
        for _ in pool.map(fill, range(0, len(names), CHUNK)):
            pass
    images.flush()
    return problems


def _unreadable(tree: Tree, problems: dict[str, PrunecastError]) -> PrunecastError:
    """One refusal of all images that cannot be read."""
    first, *others = sorted(problems)
    if not others:
        return problems[first]
    more = [f"{len(others) - MOST_NAMED:,} more"] if len(others) > MOST_NAMED else []
    names = [str(tree.base / name) for name in others[:MOST_NAMED]]
    return PrunecastError(
        f"{len(problems):,} images cannot be read. {problems[first]} The others are {listed([*names, *more])}."
    )
