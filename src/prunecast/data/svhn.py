"""SVHN's cropped digits in their official form: train_32x32.mat and test_32x32.mat."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunecast.data.cache import save
from prunecast.data.halves import Half, checked_labels
from prunecast.errors import PrunecastError


@dataclass(frozen=True, kw_only=True)
class FoundSvhn:
    """The two .mat files."""

    train: Path
    test: Path

    @property
    def files(self) -> Sequence[Path]:
        """Training file, then test file."""
        return (self.train, self.test)

    def write(self, folder: Path) -> int:
        """Write both halves, channels last; the label 10 stands for the digit 0."""
        save(folder, "train", read_mat(self.train))
        save(folder, "test", read_mat(self.test))
        return 10


def read_mat(file: Path) -> Half:
    """Read one file: X of height, width, 3, N bytes and y of N labels 1 to 10."""
    try:
        from scipy.io import loadmat
    except ImportError as missing:
        raise PrunecastError(f"{file} needs scipy to be read; install scipy.") from missing
    try:
        arrays = loadmat(file, variable_names=("X", "y"))
        images, labels = arrays["X"], arrays["y"].reshape(-1)
    except Exception as broken:  # scipy has no single error for a damaged file
        raise PrunecastError(f"{file} is not a readable SVHN file ({broken!r}); fetch it again.") from broken
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise PrunecastError(f"{file} has no X of height, width, 3, N bytes; fetch it again.")
    whole = checked_labels(labels.astype(np.int64), images.shape[3], 11, file)
    return Half(images=images.transpose(3, 0, 1, 2), labels=whole % 10)


def find_svhn(folder: Path) -> FoundSvhn:
    """Find the two files in a folder."""
    train, test = folder / "train_32x32.mat", folder / "test_32x32.mat"
    for file in (train, test):
        if not file.is_file():
            raise PrunecastError(f"{file} is missing; SVHN is read from train_32x32.mat and test_32x32.mat.")
    return FoundSvhn(train=train, test=test)
