"""Class folders of images: train/<class>/ and test|val/<class>/, and TinyImageNet's own val layout."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunecast.data.halves import Labels
from prunecast.data.images import SUFFIXES, decode
from prunecast.errors import PrunecastError

ANNOTATIONS = "val_annotations.txt"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Image files of one half in a fixed order, and their labels."""

    files: tuple[Path, ...]
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class FoundFolders:
    """The image files of both halves; classes are numbered in the order of their names."""

    train: Listing
    test: Listing
    classes: tuple[str, ...]
    image_size: int | None

    @property
    def files(self) -> Sequence[Path]:
        """Training files, then test files."""
        return (*self.train.files, *self.test.files)

    def write(self, folder: Path) -> int:
        """Decode both halves."""
        for part, listing in (("train", self.train), ("test", self.test)):
            decode(listing.files, folder / f"{part}_images.npy", self.image_size)
            np.save(folder / f"{part}_labels.npy", listing.labels)
        _same_shape(folder, self.test.files[0], self.train.files[0])
        return len(self.classes)


def find_folders(tests: tuple[str, ...], image_size: int | None) -> Callable[[Path], FoundFolders]:
    """Return a function that finds class folders; `tests` are the names the test half may have."""

    def find(folder: Path) -> FoundFolders:
        top = _top(folder)
        classes = _folders(top / "train")
        if not classes:
            raise PrunecastError(f"{top / 'train'} has no class folders; images belong in train/<class>/.")
        train = _classified(top / "train", classes)
        return FoundFolders(
            train=train, test=_test(top, tests, classes), classes=tuple(classes), image_size=image_size
        )

    return find


def _top(folder: Path) -> Path:
    inner = [folder / name for name in _folders(folder)]
    for place in (folder, *inner[:1] * (len(inner) == 1)):
        if (place / "train").is_dir():
            return place
    raise PrunecastError(
        f"{folder} has no folder `train`; images belong in train/<class>/ and test/<class>/."
    )


def _test(top: Path, tests: tuple[str, ...], classes: list[str]) -> Listing:
    if (top / "val" / ANNOTATIONS).is_file():
        return _annotated(top / "val", classes)
    for name in tests:
        if not (top / name).is_dir():
            continue
        present = _folders(top / name)
        if not present:
            raise PrunecastError(f"{top / name} has no class folders; sort its images as train has them.")
        for found in present:
            if found not in classes:
                raise PrunecastError(f"{top / name / found} is a class that {top / 'train'} does not have.")
        return _classified(top / name, present, classes)
    raise PrunecastError(f"{top} has no folder {' or '.join(f'`{name}`' for name in tests)} to test on.")


def _classified(half: Path, present: list[str], classes: list[str] | None = None) -> Listing:
    """List the images below each class folder that is present."""
    number = {name: label for label, name in enumerate(classes or present)}
    files: list[Path] = []
    labels: list[int] = []
    for name in present:
        found = _images(half / name)
        if not found:
            raise PrunecastError(f"{half / name} has no images; add some or remove the folder.")
        files += found
        labels += [number[name]] * len(found)
    return Listing(files=tuple(files), labels=np.array(labels, np.int64))


def _annotated(val: Path, classes: list[str]) -> Listing:
    """List val/images by the lines `file <tab> class <tab> ...` of val_annotations.txt."""
    number = {name: label for label, name in enumerate(classes)}
    notes = val / ANNOTATIONS
    labels: dict[str, int] = {}
    for line, text in enumerate(notes.read_text().splitlines(), start=1):
        name, _, rest = text.partition("\t")
        label = number.get(rest.partition("\t")[0])
        if label is None or Path(name).name != name:
            raise PrunecastError(f"{notes} line {line} names no image and class of train: {text!r}.")
        labels[name] = label
    present = {file.name for file in _images(val / "images")}
    for name in sorted(present ^ set(labels)):
        missing = "has no file" if name in labels else f"has no label in {notes} though it has a file"
        raise PrunecastError(f"{val / 'images' / name} {missing}; unpack the whole archive.")
    if not labels:
        raise PrunecastError(f"{notes} names no images.")
    names = sorted(labels)
    files = tuple(val / "images" / name for name in names)
    return Listing(files=files, labels=np.array([labels[name] for name in names], np.int64))


def _folders(place: Path) -> list[str]:
    """Return the names of the visible subfolders, sorted."""
    with os.scandir(place) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[Path]:
    """Return the visible image files at any depth below a folder, sorted by their path."""
    found = [
        Path(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith(SUFFIXES) and not name.startswith(".")
    ]
    return sorted(found, key=lambda file: file.relative_to(folder).as_posix())


def _same_shape(folder: Path, test: Path, train: Path) -> None:
    shapes = [
        np.load(folder / f"{part}_images.npy", mmap_mode="r").shape[1:3][::-1] for part in ("train", "test")
    ]
    if shapes[0] != shapes[1]:
        (w, h), (other_w, other_h) = shapes
        sizes = f"{other_w}x{other_h} pixels, but {train} has {w}x{h}"
        raise PrunecastError(f"{test} has {sizes}; set image_size to bring all images to one size.")
