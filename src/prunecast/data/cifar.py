"""CIFAR-10 and CIFAR-100 in their official python (pickled) and binary forms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunecast.data.cache import save
from prunecast.data.halves import Bytes, Half, checked_labels
from prunecast.data.pickles import unpickle
from prunecast.errors import PrunecastError

PIXELS = 3 * 32 * 32
Batch = tuple[Bytes, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Form:
    """One official form of a set: its folder, its files and how one file is read."""

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Callable[[Path], Batch]


@dataclass(frozen=True, kw_only=True)
class FoundCifar:
    """The files of one form in a folder."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    read: Callable[[Path], Batch]
    num_classes: int

    @property
    def files(self) -> Sequence[Path]:
        """Training files, then test files."""
        return (*self.train, *self.test)

    def write(self, folder: Path) -> int:
        """Write both halves, channels last."""
        for part, files in (("train", self.train), ("test", self.test)):
            halves = [self._half(file) for file in files]
            images = np.concatenate([half.images for half in halves])
            labels = np.concatenate([half.labels for half in halves])
            save(folder, part, Half(images=images, labels=labels))
        return self.num_classes

    def _half(self, file: Path) -> Half:
        planes, labels = self.read(file)
        whole = checked_labels(labels, len(planes), self.num_classes, file)
        return Half(images=planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels=whole)


def _pickled(label_key: bytes) -> Callable[[Path], Batch]:
    """Return a reader of pickled dictionaries with `data` of 3,072 bytes an image and a list of labels."""

    def read(file: Path) -> Batch:
        batch = unpickle(file)
        parts = {(key.encode() if isinstance(key, str) else key): batch[key] for key in _keys(batch, file)}
        data, labels = parts.get(b"data"), parts.get(label_key)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (PIXELS,):
            raise PrunecastError(f"{file} has no `data` of {PIXELS} bytes an image; fetch it again.")
        if labels is None:
            raise PrunecastError(f"{file} has no `{label_key.decode()}`; fetch it again.")
        return data, labels

    return read


def _keys(batch: object, file: Path) -> list[bytes | str]:
    if not isinstance(batch, dict):
        raise PrunecastError(f"{file} holds no dictionary of data and labels; fetch it again.")
    return list(batch)


def _binary(label_bytes: int) -> Callable[[Path], Batch]:
    """Return a reader of records of label bytes, the last of which counts, and 3,072 bytes of pixels."""

    def read(file: Path) -> Batch:
        raw, record = np.fromfile(file, np.uint8), label_bytes + PIXELS
        if len(raw) == 0 or len(raw) % record:
            raise PrunecastError(f"{file} is cut short: its size is no multiple of {record}; fetch it again.")
        records = raw.reshape(-1, record)
        return records[:, label_bytes:], records[:, label_bytes - 1]  # type: ignore[return-value]

    return read


BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
FORMS = {
    10: (
        Form(folder="cifar-10-batches-py", train=BATCHES, test=("test_batch",), read=_pickled(b"labels")),
        Form(
            folder="cifar-10-batches-bin",
            train=tuple(f"{name}.bin" for name in BATCHES),
            test=("test_batch.bin",),
            read=_binary(1),
        ),
    ),
    100: (
        Form(folder="cifar-100-python", train=("train",), test=("test",), read=_pickled(b"fine_labels")),
        Form(folder="cifar-100-binary", train=("train.bin",), test=("test.bin",), read=_binary(2)),
    ),
}


def find_cifar(num_classes: int) -> Callable[[Path], FoundCifar]:
    """Return a function that finds CIFAR-10 or CIFAR-100 in a folder or in its official subfolder."""

    def find(folder: Path) -> FoundCifar:
        for form in FORMS[num_classes]:
            for place in (folder, folder / form.folder):
                if (place / form.train[0]).is_file():
                    return _complete(place, form, num_classes)
        wanted = " or ".join(form.train[0] for form in FORMS[num_classes])
        raise PrunecastError(f"{folder} holds no CIFAR-{num_classes}: it has no file {wanted}.")

    return find


def _complete(place: Path, form: Form, num_classes: int) -> FoundCifar:
    for name in (*form.train, *form.test):
        if not (place / name).is_file():
            raise PrunecastError(f"{place / name} is missing; unpack the whole archive.")
    train, test = (tuple(place / name for name in part) for part in (form.train, form.test))
    return FoundCifar(train=train, test=test, read=form.read, num_classes=num_classes)
