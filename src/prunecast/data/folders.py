"""Class folders of images: train/<class>/ and test|val/<class>/, and TinyImageNet's own val layout."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunecast.data.halves import Labels
from prunecast.data.images import SUFFIXES, decode
from prunecast.data.trees import Tree
from prunecast.errors import PrunecastError

ANNOTATIONS = "val/val_annotations.txt"
ANNOTATED = "val/images/"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Image files of one half in a fixed order, and their labels."""

    files: tuple[str, ...]
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class FoundFolders:
    """The image files of both halves; classes are numbered in the order of their names."""

    tree: Tree
    train: Listing
    test: Listing
    notes: tuple[str, ...]
    """The file of annotations, where the test half has one."""
    classes: tuple[str, ...]
    image_size: int | None

    @property
    def files(self) -> Sequence[str]:
        """Training files, test files, annotations."""
        return (*self.train.files, *self.test.files, *self.notes)

    def write(self, folder: Path) -> int:
        """Decode both halves; without an image_size all images must be as large as the first."""
        first = self.train.files[0]
        for part, listing in (("train", self.train), ("test", self.test)):
            decode(self.tree, listing.files, folder / f"{part}_images.npy", self.image_size, first)
            np.save(folder / f"{part}_labels.npy", listing.labels)
        return len(self.classes)


def find_folders(tests: tuple[str, ...], image_size: int | None) -> Callable[[Tree], FoundFolders]:
    """Return a function that finds class folders; `tests` are the names the test half may have."""

    def find(tree: Tree) -> FoundFolders:
        names = [name for name in tree.names() if not any(part.startswith(".") for part in name.split("/"))]
        top = _top(tree, names)
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


def _top(tree: Tree, names: Sequence[str]) -> str:
    """Return the prefix of everything: none, or the one folder all files lie in."""
    outer = {name.split("/")[0] for name in names}
    for top in ("", *(f"{name}/" for name in outer if len(outer) == 1)):
        if any(name.startswith(f"{top}train/") for name in names):
            return top
    raise PrunecastError(
        f"{tree.base} has no folder `train`; images belong in train/<class>/ and test/<class>/."
    )


def _by_class(tree: Tree, names: Sequence[str], half: str) -> dict[str, list[str]]:
    """Return the images of each class folder of a half, at any depth below it, both in the order of names."""
    files = [name for name in names if name.startswith(half) and "/" in name[len(half) :]]
    classes: dict[str, list[str]] = {name[len(half) :].split("/")[0]: [] for name in files}
    for name in _images(files):
        classes[name[len(half) :].split("/")[0]].append(name)
    for name, images in classes.items():
        if not images:
            raise PrunecastError(f"{tree.base / half / name} has no images; add some or remove the folder.")
    if not classes:
        raise PrunecastError(f"{tree.base / half} has no class folders; sort its images into <class>/.")
    return dict(sorted(classes.items()))


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
    raise PrunecastError(f"{tree.base / top} has no folder {wanted} to test on.")


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
            raise PrunecastError(f"{tree.base / notes} line {number} names no image and class: {line!r}.")
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
