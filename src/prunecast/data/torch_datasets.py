"""PyTorch datasets that a user's function returns: converted to bytes once, then read from the cache.

We cannot know which files such a dataset reads. Its cache entry is therefore named by the source of the function's
module, the number of images and a sample of them.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prunecast.data.cache import cached, reserve, save_classes
from prunecast.data.dataset import Bytes, Halves, Labels
from prunecast.data.folders import centred, require_bytes
from prunecast.errors import PrunecastError

SAMPLED = 16
"""Images of each half in the name of the cache entry; they are read twice, to refuse random transforms."""
MOST_CHANNELS = 4


def read_torch_datasets(name: str, function: object, root: Path | None, image_size: int | None) -> Halves:
    """Return the images of the two datasets that a function returns; it gets the root if it takes an argument."""
    assert callable(function)
    pair = _called(name, function, root)
    good = isinstance(pair, tuple | list) and len(pair) == 2
    if not good:
        raise PrunecastError(
            f"dataset {name!r} returned {type(pair).__name__}; it must return two datasets, to train and to test on."
        )
    halves = [_Half(f"dataset {name!r}, {half}", one, image_size) for half, one in _named(pair)]
    digest = hashlib.sha256(f"torch {name} {root} {image_size}\n{_source(function)}\n".encode())
    for half in halves:
        digest.update(half.sample())

    def write(folder: Path) -> int:
        labels = [
            half.write(folder / f"{part}_images.npy", halves[0])
            for part, half in _named(halves, "train", "test")
        ]
        for part, values in _named(labels, "train", "test"):
            np.save(folder / f"{part}_labels.npy", values)
        save_classes(folder, halves[0].class_names())
        return _count_classes(name, labels, len(halves[0].class_names()))

    return cached("torch", digest.hexdigest()[:24], write)


def _named(pair: Any, *names: str) -> Iterator[tuple[str, Any]]:
    return zip(names or ("training half", "test half"), pair, strict=True)


def _called(name: str, function: Callable[..., object], root: Path | None) -> object:
    try:
        takes_root = bool(inspect.signature(function).parameters)
        return function(root) if takes_root else function()
    except PrunecastError:
        raise
    except Exception as failure:
        kind = type(failure).__name__
        raise PrunecastError(
            f"dataset {name!r} cannot be read: the function raised {kind}: {failure}"
        ) from failure


def _source(function: object) -> str:
    try:
        module = inspect.getmodule(function)
        return inspect.getsource(module if module is not None else function)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


@dataclass(frozen=True)
class _Half:
    """One half, read item by item."""

    place: str
    dataset: Any
    image_size: int | None

    def __post_init__(self) -> None:
        if not (hasattr(self.dataset, "__len__") and hasattr(self.dataset, "__getitem__")):
            kind = type(self.dataset).__name__
            raise PrunecastError(
                f"{self.place} is {kind}; it must be a torch.utils.data.Dataset with a length and items by number."
            )
        if len(self.dataset) == 0:
            raise PrunecastError(f"{self.place} has no images.")

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, where the dataset has them as `classes`, like those of torchvision."""
        names = getattr(self.dataset, "classes", ())
        texts = isinstance(names, list | tuple) and all(isinstance(text, str) for text in names)
        return tuple(names) if texts else ()

    def sample(self) -> bytes:
        """A digest of the number of images and of some of them; images that change from call to call are refused."""
        digest = hashlib.sha256(f"{len(self.dataset)}".encode())
        places = np.linspace(0, len(self.dataset) - 1, min(SAMPLED, len(self.dataset))).astype(int)
        for number in map(int, places):
            image, label = self.item(number)
            again, _ = self.item(number)
            if not np.array_equal(image, again):
                raise PrunecastError(
                    f"{self.place}, item {number} is a different image each time; remove random transforms from the "
                    "dataset, and name an augmentation in the plan's recipe."
                )
            digest.update(f"{image.shape} {label}".encode() + image.tobytes())
        return digest.digest()

    def item(self, number: int) -> tuple[Bytes, int]:
        """One image as bytes H, W, C, and its class."""
        place = f"{self.place}, item {number}"
        try:
            found = self.dataset[number]
        except Exception as failure:
            raise PrunecastError(
                f"{place} cannot be read ({type(failure).__name__}: {failure})."
            ) from failure
        if not (isinstance(found, tuple | list) and len(found) == 2):
            what = f"{type(found).__name__}" + (f" of {len(found)}" if hasattr(found, "__len__") else "")
            raise PrunecastError(f"{place} is {what}; it must be an image and its class, as (image, label).")
        return self._resized(_image(found[0], place)), _label(found[1], place)

    def _resized(self, image: Bytes) -> Bytes:
        if self.image_size is None or image.shape[:2] == (self.image_size, self.image_size):
            return image
        from PIL import Image

        grey = image.shape[2] == 1
        scaled = centred(Image.fromarray(image[..., 0] if grey else image), self.image_size, self.image_size)
        return scaled[..., None] if grey else scaled

    def write(self, into: Path, model: "_Half") -> Labels:
        """Write all images as one .npy file and return the labels; all must have the shape of the model's first."""
        shape = model.item(0)[0].shape
        images = np.lib.format.open_memmap(into, mode="w+", dtype=np.uint8, shape=(len(self.dataset), *shape))
        reserve(into)
        labels = np.zeros(len(self.dataset), np.int64)
        for number in range(len(self.dataset)):
            image, labels[number] = self.item(number)
            if image.shape != shape:
                raise PrunecastError(
                    f"{self.place}, item {number} is {_words(image.shape)}, but the first image is {_words(shape)}; "
                    "set image_size to resize all images to one size, or convert them to the same channels."
                )
            images[number] = image
        images.flush()
        return labels


def _words(shape: tuple[int, ...]) -> str:
    height, width, channels = shape
    return f"{width}x{height} pixels with {channels} channel{'s' * (channels != 1)}"


def _image(image: object, place: str) -> Bytes:
    """Return an image of PIL, torch or NumPy as bytes H, W, C."""
    if hasattr(image, "convert") and hasattr(image, "mode"):
        require_bytes(image.mode, place)
        grey = image.mode in ("1", "L", "LA")
        return np.asarray(image.convert("L"))[..., None] if grey else np.asarray(image.convert("RGB"))
    if isinstance(image, torch.Tensor):
        values = image.detach().cpu()
        values = values[None] if values.ndim == 2 else values
        pixels: np.ndarray[Any, Any] = values.movedim(0, -1).numpy() if values.ndim == 3 else values.numpy()
    elif isinstance(image, np.ndarray):
        pixels = image[..., None] if image.ndim == 2 else image
    else:
        raise PrunecastError(
            f"{place} has an image of type {type(image).__name__}; it must be a PIL image, a tensor or an array."
        )
    if pixels.ndim != 3 or not 1 <= pixels.shape[2] <= MOST_CHANNELS or 0 in pixels.shape:
        wanted = "C, H, W as a tensor or H, W, C as an array, with at most 4 channels"
        given = tuple(image.shape)
        raise PrunecastError(f"{place} has an image of shape {given}; it must be {wanted}.")
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype.kind != "f":
        raise PrunecastError(
            f"{place} has pixels of type {pixels.dtype}; give bytes, or floats between 0 and 1."
        )
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0 and high <= 1):
        raise PrunecastError(
            f"{place} has pixels from {low:.3g} to {high:.3g}; give bytes, or floats between 0 and 1, and leave "
            "normalisation to prunecast."
        )
    return np.rint(255 * np.asarray(pixels, np.float64)).astype(np.uint8)


def _label(label: object, place: str) -> int:
    value = label.item() if isinstance(label, torch.Tensor | np.generic) and np.ndim(label) == 0 else label
    if not isinstance(value, int) or isinstance(value, bool):
        shown = f"{value!r}" if isinstance(value, float | str | bool) else type(value).__name__
        raise PrunecastError(f"{place} has the label {shown}; it must be a class number, counted from 0.")
    if value < 0:
        raise PrunecastError(f"{place} has the label {value}; classes are numbered from 0.")
    return value


def _count_classes(name: str, labels: list[Labels], named: int) -> int:
    train, test = ({int(label) for label in np.unique(part)} for part in labels)
    if test - train:
        raise PrunecastError(
            f"dataset {name!r} has test images of the class {min(test - train)}, but no training image of it."
        )
    if named and max(train) >= named:
        raise PrunecastError(f"dataset {name!r} has the label {max(train)}, but names for {named} classes.")
    if len(train) < 2:
        raise PrunecastError(f"dataset {name!r} has one class; classification needs at least two.")
    return max(max(train) + 1, named)
