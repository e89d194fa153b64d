"""SVHN's cropped digits in their official form: train_32x32.mat and test_32x32.mat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunecast.data.cache import save
from prunecast.data.halves import Half, checked_labels
from prunecast.data.trees import Tree
from prunecast.errors import PrunecastError

FILES = ("train_32x32.mat", "test_32x32.mat")


@dataclass(frozen=True, kw_only=True)
class FoundSvhn:
    """The two .mat files."""

    tree: Tree
    files: Sequence[str]

    def write(self, folder: Path) -> int:
        """Write both halves, channels last; the label 10 stands for the digit 0."""
        for part, name in zip(("train", "test"), self.files, strict=True):
            save(folder, part, read_mat(self.tree, name))
        return 10


def read_mat(tree: Tree, name: str) -> Half:
    """Read one file: X of height, width, 3, N bytes and y of N labels 1 to 10."""
    place = tree.base / name
    try:
        from scipy.io import loadmat
    except ImportError as missing:
        raise PrunecastError(f"{place} needs scipy to be read; install scipy.") from missing
    try:
        with tree.open(name) as file:
            arrays = loadmat(file, variable_names=("X", "y"))  # type: ignore[arg-type]
        images, labels = arrays["X"], arrays["y"].reshape(-1)
    except Exception as broken:  # scipy has no single error for a damaged file
        raise PrunecastError(f"{place} is not a readable SVHN file ({broken!r}); fetch it again.") from broken
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise PrunecastError(f"{place} has no X of height, width, 3, N bytes; fetch it again.")
    whole = checked_labels(labels.astype(np.int64), images.shape[3], 11, place)
    return Half(images=images.transpose(3, 0, 1, 2), labels=whole % 10)


def find_svhn(tree: Tree) -> FoundSvhn:
    """Find the two files."""
    for name in FILES:
        if not tree.has(name):
            wanted = "SVHN is read from train_32x32.mat and test_32x32.mat"
            raise PrunecastError(f"{tree.base / name} is missing; {wanted}.")
    return FoundSvhn(tree=tree, files=FILES)
