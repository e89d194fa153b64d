"""Image files to bytes, by a pool of threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prunecast.data.halves import Bytes
from prunecast.data.trees import Tree
from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
CHUNK = 256


def workers() -> int:
    """Return how many threads decode: one for each core this process may use.

    Processes that share a training share the cores too; LOCAL_WORLD_SIZE, as torchrun sets it, counts them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def opened(tree: Tree, name: str, spare: Callable[[int, int], float] | None = None) -> "Image":
    """Return an image as RGB, or raise naming the file.

    `spare` says from width and height how many times smaller an image is good enough. JPEG is then decoded at
    a half, a quarter or an eighth of its size, whichever is the least that is not smaller; that is quicker
    than decoding and scaling all pixels.
    """
    place = tree.base / name
    try:
        from PIL import Image
    except ImportError as missing:
        raise PrunecastError(f"{place} needs Pillow to be read; install pillow.") from missing
    try:
        with tree.open(name) as file, Image.open(file) as image:
            if spare is not None:
                times = max(1.0, spare(*image.size))
                image.draft(None, (ceil(image.width / times), ceil(image.height / times)))
            image.load()
            return image if image.mode == "RGB" else image.convert("RGB")
    except PrunecastError:
        raise
    except Exception as broken:  # damaged files make Pillow's decoders raise nearly anything
        raise PrunecastError(f"{place} is not a readable image ({broken}); mend or remove it.") from broken


def centred(image: "Image", scaled_size: int, size: int) -> Bytes:
    """Return the central size × size pixels after scaling the shorter side to scaled_size."""
    from PIL.Image import Resampling

    if image.size != (size, size) or scaled_size != size:
        share = size / scaled_size * min(image.size)
        left, top = ((side - share) / 2 for side in image.size)
        image = image.resize((size, size), Resampling.BILINEAR, (left, top, left + share, top + share))
    return np.asarray(image)


def decode(tree: Tree, names: Sequence[str], into: Path, image_size: int | None, model: str) -> None:
    """Write all images as one .npy file of bytes N, H, W, 3, filled in place, so of any size.

    Without an image_size all images must have the size of the model.
    """
    width, height = (image_size, image_size) if image_size is not None else opened(tree, model).size
    shape = (len(names), height, width, 3)
    images = np.lib.format.open_memmap(into, mode="w+", dtype=np.uint8, shape=shape)

    def fill(start: int) -> None:
        for row, name in enumerate(names[start : start + CHUNK], start):
            image = opened(tree, name)
            if image_size is None and image.size != (width, height):
                sizes = f"{image.width}x{image.height} pixels, but {tree.base / model} has {width}x{height}"
                remedy = "set image_size to bring all images to one size"
                raise PrunecastError(f"{tree.base / name} has {sizes}; {remedy}.")
            images[row] = np.asarray(image) if image_size is None else centred(image, image_size, image_size)

    with ThreadPoolExecutor(workers()) as pool:
        for _ in pool.map(fill, range(0, len(names), CHUNK)):
            pass
    images.flush()
