"""CIFAR-10, CIFAR-100 and SVHN as their authors publish them.

CIFAR comes as pickles or in a binary form, SVHN as train_32x32.mat and test_32x32.mat.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from prunecast.data.cache import save
from prunecast.data.dataset import Bytes, Found, Half, checked_labels
from prunecast.data.files import HARMLESS_BYTES, MOST_EXPANSION, Tree
from prunecast.data.pickles import unpickle
from prunecast.errors import PrunecastError

PIXELS = 3 * 32 * 32
Batch = tuple[Bytes, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """One official form of a set: its folder, its files and how one file is read."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Callable[[IO[bytes], Path], Batch]


def _pickled(label_key: bytes) -> Callable[[IO[bytes], Path], Batch]:
    """Return a reader of pickled dictionaries with `data` of 3,072 bytes per image and a list of labels."""

    def read(file: IO[bytes], place: Path) -> Batch:
        batch = unpickle(file, place)
        if not isinstance(batch, dict):
            raise PrunecastError(f"{place} holds no dictionary of data and labels; download it again.")
        parts = {
            (key.encode(errors="replace") if isinstance(key, str) else key): value
            for key, value in batch.items()
        }
        data, labels = parts.get(b"data"), parts.get(label_key)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (PIXELS,):
            raise PrunecastError(f"{place} has no `data` with {PIXELS} bytes per image; download it again.")
        if labels is None:
            raise PrunecastError(f"{place} has no `{label_key.decode()}`; download it again.")
        if not isinstance(labels, np.ndarray) and not _are_numbers(labels):
            raise PrunecastError(
                f"{place} has `{label_key.decode()}` that are not whole numbers; download it again."
            )
        return data, labels

    return read


def _are_numbers(labels: object) -> bool:
    """Say whether labels are a flat list; nested ones could make an array larger than any memory."""
    return isinstance(labels, list | tuple) and all(type(label) is int for label in labels)


def _binary(label_bytes: int) -> Callable[[IO[bytes], Path], Batch]:
    """Return a reader of records: some label bytes (the last is used), then 3,072 bytes of pixels."""

    def read(file: IO[bytes], place: Path) -> Batch:
        raw, record = np.frombuffer(file.read(), np.uint8), label_bytes + PIXELS
        if len(raw) == 0 or len(raw) % record:
            raise PrunecastError(
                f"{place} is truncated: its size is not a multiple of {record}; download it again."
            )
        records = raw.reshape(-1, record)
        return records[:, label_bytes:], records[:, label_bytes - 1]  # type: ignore[return-value]

    return read


BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
FORMATS = {
    10: (
        FileFormat(
            folder="cifar-10-batches-py", train=BATCHES, test=("test_batch",), read=_pickled(b"labels")
        ),
        FileFormat(
            folder="cifar-10-batches-bin",
            train=tuple(f"{name}.bin" for name in BATCHES),
            test=("test_batch.bin",),
            read=_binary(1),
        ),
    ),
    100: (
        FileFormat(
            folder="cifar-100-python", train=("train",), test=("test",), read=_pickled(b"fine_labels")
        ),
        FileFormat(folder="cifar-100-binary", train=("train.bin",), test=("test.bin",), read=_binary(2)),
    ),
}


def find_cifar(num_classes: int) -> Callable[[Tree], Found]:
    """Return a function that finds CIFAR-10 or CIFAR-100 at the top or in its official subfolder."""

    def find(tree: Tree) -> Found:
        for form in FORMATS[num_classes]:
            for prefix in ("", f"{form.folder}/"):
                if tree.has(prefix + form.train[0]):
                    return _cifar(tree, prefix, form, num_classes)
        wanted = " or ".join(form.train[0] for form in FORMATS[num_classes])
        raise PrunecastError(f"{tree.base} does not hold CIFAR-{num_classes}: it has no file {wanted}.")

    return find


def _cifar(tree: Tree, prefix: str, form: FileFormat, num_classes: int) -> Found:
    train, test = (tuple(prefix + name for name in part) for part in (form.train, form.test))
    for name in (*train, *test):
        if not tree.has(name):
            raise PrunecastError(f"{tree.base / name} is missing; unpack the whole archive.")

    def half(name: str) -> Half:
        place = tree.base / name
        with tree.open(name) as file:
            planes, labels = form.read(file, place)
        whole = checked_labels(labels, len(planes), num_classes, place)
        return Half(images=planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels=whole)

    def write(folder: Path) -> int:
        """Write both sets, channels last."""
        for part, files in (("train", train), ("test", test)):
            halves = [half(file) for file in files]
            images = np.concatenate([own.images for own in halves])
            labels = np.concatenate([own.labels for own in halves])
            save(folder, part, Half(images=images, labels=labels))
        return num_classes

    return Found(files=(*train, *test), write=write)


SVHN_FILES = ("train_32x32.mat", "test_32x32.mat")


def find_svhn(tree: Tree) -> Found:
    """Find the two files."""
    for name in SVHN_FILES:
        if not tree.has(name):
            wanted = "SVHN is read from train_32x32.mat and test_32x32.mat"
            raise PrunecastError(f"{tree.base / name} is missing; {wanted}.")

    def write(folder: Path) -> int:
        """Write both sets, channels last."""
        for part, name in zip(("train", "test"), SVHN_FILES, strict=True):
            save(folder, part, read_mat(tree, name))
        return 10

    return Found(files=SVHN_FILES, write=write)


def read_mat(tree: Tree, name: str) -> Half:
    """Read one file: X of height, width, 3, N bytes and y of N labels 1 to 10, where 10 is the digit 0."""
    place = tree.base / name
    try:
        from scipy.io import loadmat, whosmat
    except ImportError as missing:
        raise PrunecastError(f"{place} needs scipy to be read; install scipy.") from missing
    try:
        with tree.open(name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            shapes: list[tuple[int, ...]] = [shape for _, shape, _ in whosmat(file)]  # type: ignore[arg-type]
            stated = sum(map(math.prod, shapes))
            if stated > max(HARMLESS_BYTES, MOST_EXPANSION * size):
                raise ValueError(f"it expands to more than {MOST_EXPANSION} times its size")
            file.seek(0)
            arrays = loadmat(file, variable_names=("X", "y"))  # type: ignore[arg-type]
        images, labels = arrays["X"], arrays["y"].reshape(-1)
    except Exception as broken:  # scipy has no single error for a damaged file
        raise PrunecastError(
            f"{place} is not a readable SVHN file ({broken!r}); download it again."
        ) from broken
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise PrunecastError(f"{place} has no X of height, width, 3, N bytes; download it again.")
    if labels.dtype.kind == "f" and np.array_equal(labels, np.floor(labels)):
        labels = labels.astype(np.int64)
    whole = checked_labels(labels, images.shape[3], 11, place)
    return Half(images=images.transpose(3, 0, 1, 2), labels=whole % 10)
