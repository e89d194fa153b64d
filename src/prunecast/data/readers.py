"""The readers by dataset name, and the way from a folder or archive through the cache to arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prunecast.data.archives import SUFFIXES, is_archive, unpacked
from prunecast.data.arrays import find_arrays
from prunecast.data.cache import cache_folder, cached, key
from prunecast.data.cifar import find_cifar
from prunecast.data.folders import find_folders
from prunecast.data.halves import Found, Halves
from prunecast.data.svhn import find_svhn
from prunecast.errors import PrunecastError

Find = Callable[[Path], Found]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a set is found in a folder, and the official archives a folder may hold instead."""

    find: Callable[[int | None], Find]
    """From an image size, which only image files heed, to the function that finds the set."""
    archives: tuple[str, ...] = ()


READERS = {
    "cifar10": Reader(
        find=lambda _: find_cifar(10), archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz")
    ),
    "cifar100": Reader(
        find=lambda _: find_cifar(100), archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz")
    ),
    "svhn": Reader(find=lambda _: find_svhn),
    "tinyimagenet": Reader(
        find=lambda size: find_folders(("val",), size), archives=("tiny-imagenet-200.zip",)
    ),
    "folder": Reader(find=lambda size: find_folders(("test", "val"), size)),
    "arrays": Reader(find=lambda _: find_arrays),
}


def read(name: str, root: Path, image_size: int | None) -> Halves:
    """Return the arrays of a set, decoded the first time and from the cache ever after."""
    how = f"{name} {image_size}"
    find = READERS[name].find(image_size)
    place = _archive_or_folder(name, root)
    if place is None:
        found = find(root)
        return cached(name, key(how, root if root.is_dir() else root.parent, found.files), found.write)
    archive = place
    return cached(name, key(how, archive.parent, (archive,)), lambda into: _from_archive(archive, find, into))


def _archive_or_folder(name: str, root: Path) -> Path | None:
    """Return the archive to unpack, or None where the root is read as it stands."""
    if root.is_file() and is_archive(root):
        return root
    if root.is_file() and name != "arrays":
        raise PrunecastError(f"{root} is neither a folder nor an archive ({', '.join(SUFFIXES)}).")
    if root.is_dir():
        held = (root / archive for archive in READERS[name].archives)
        return next((archive for archive in held if archive.is_file()), None)
    return None


def _from_archive(archive: Path, find: Find, into: Path) -> int:
    with unpacked(archive, cache_folder()) as folder:
        try:
            return find(folder).write(into)
        except PrunecastError as wrong:  # the user knows the archive, not the folder it was unpacked to
            raise PrunecastError(str(wrong).replace(str(folder), str(archive))) from wrong
