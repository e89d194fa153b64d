"""The readers by dataset name, and the way from a folder or archive through the cache to arrays."""

from collections.abc import Callable
from pathlib import Path

from prunecast.catalog import find_dataset
from prunecast.data.arrays import find_arrays
from prunecast.data.cache import cached, key
from prunecast.data.cifar import find_cifar
from prunecast.data.folders import find_folders
from prunecast.data.halves import Found, Halves
from prunecast.data.svhn import find_svhn
from prunecast.data.trees import SUFFIXES, Folder, Tree, is_archive, read_archive
from prunecast.errors import PrunecastError

Find = Callable[[Tree], Found]


READERS: dict[str, Callable[[int | None], Find]] = {
    "cifar10": lambda _: find_cifar(10),
    "cifar100": lambda _: find_cifar(100),
    "svhn": lambda _: find_svhn,
    "tinyimagenet": lambda size: find_folders(("val",), size),
    "folder": lambda size: find_folders(("test", "val"), size),
    "arrays": lambda _: find_arrays,
}
"""From an image size, which only image files heed, to the function that finds the dataset among files."""


def read(name: str, root: Path, image_size: int | None) -> Halves:
    """Return the arrays of a set, decoded the first time and from the cache ever after."""
    how, find = f"{name} {image_size}", READERS[name](image_size)
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
    return cached(name, key(how, base, found.files), found.write)


def _archive(root: Path, dataset: str) -> Path | None:
    """Return the archive that the root is or, as the official download, holds."""
    facts = find_dataset(dataset)
    held = (root, *(root / name for name in (facts.archives if facts else ())))
    return next((place for place in held if is_archive(place)), None)
