"""The readers by dataset name, and the way from a folder or archive through the cache to arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prunecast.data.arrays import find_arrays
from prunecast.data.cache import cached, key
from prunecast.data.cifar import find_cifar
from prunecast.data.folders import find_folders
from prunecast.data.halves import Found, Halves
from prunecast.data.svhn import find_svhn
from prunecast.data.trees import SUFFIXES, Folder, Tree, is_archive, read_archive
from prunecast.errors import PrunecastError

Find = Callable[[Tree], Found]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How a set is found among files, and the official archives a folder may hold instead."""

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
    how, find = f"{name} {image_size}", READERS[name].find(image_size)
    archive = _archive(root, READERS[name])
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
    return cached(name, key(how, base, found.files), found.write)


def _archive(root: Path, reader: Reader) -> Path | None:
    """Return the archive that the root is or, as the official download, holds."""
    held = (root, *(root / name for name in reader.archives))
    return next((place for place in held if is_archive(place)), None)
