"""ImageNet from class folders: images a second through the real input path, and what limits them.

    python benchmarks/streaming.py        # half a minute on a quiet machine with two cores

Files are real JPEG of ImageNet's usual size (500x375, quality 90) whose pictures have the spectrum of photographs,
so that a file is about as large as ImageNet's are. The path is the one that training uses: read, decode, random crop
scaled to 224x224, mirror, batch, normalise. Rates are the best of several runs, because other work on the machine can
only lower them; CPU time bears it better and stands beside. Files come from the page cache, not from a disk.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from prunecast.data import Draws, batches, draw
from prunecast.data.dataset import Bytes
from prunecast.data.files import Folder
from prunecast.data.folders import FoundFolders, find_folders, opened
from prunecast.data.sources import StreamSource, cropped

SIZE = 224
SLOPE = 1.15
"""Amplitudes fall with frequency to this power, which gives files of about 110 kB; photographs have about 1."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One way of handling all images once."""

    rate: float
    """Images a second."""
    cpu: float
    """CPU milliseconds an image."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, {given.images} images")
    for width, height in ((500, 375), (1600, 1200)):
        count = given.images if width == 500 else given.images // 8
        with tempfile.TemporaryDirectory() as folder:
            report(made(Path(folder), count, width, height), given.batch, given.repeats)


def picture(rng: np.random.Generator, width: int, height: int) -> Bytes:
    """A picture with a photograph's spectrum and correlated colours."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1

    def field() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        waves = rng.standard_normal((2, *frequency.shape))
        return np.fft.irfft2((waves[0] + 1j * waves[1]) / frequency**SLOPE, s=(height, width))

    grey = field()
    colours = np.stack([grey + 0.3 * field() for _ in range(3)], axis=-1)
    pixels: Bytes = (128 + 60 * colours / colours.std()).clip(0, 255).astype(np.uint8)
    return pixels


def made(folder: Path, count: int, width: int, height: int) -> FoundFolders:
    """Write a tree of class folders and find it as training does."""
    rng = np.random.default_rng(0)
    for number in range(count + 1):
        half = "train" if number < count else "val"
        place = folder / half / f"n{number % 8 if half == 'train' else 0:08d}" / f"{number}.JPEG"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(rng, width, height)).save(place, quality=90)
    return find_folders(("val",), SIZE)(Folder(base=folder))


def report(found: FoundFolders, batch: int, repeats: int) -> None:
    """Print the speed of each part and of the whole path."""
    names, count = found.train.files, len(found.train.files)
    draws = draw("resized-crop", count, (3, SIZE, SIZE), np.random.default_rng(1))
    assert draws is not None
    assert draws.crop is not None
    crops, flips = draws.crop.tolist(), draws.flip.tolist()
    sizes = [(found.tree.base / name).stat().st_size for name in names]
    with Image.open(found.tree.base / names[0]) as first:
        print(f"\n{first.width}x{first.height}, {np.mean(sizes) / 1000:.0f} kB a file")

    def crop(row: int) -> object:
        return cropped(found.tree, names[row], crops[row], flips[row], SIZE)

    ways: dict[str, Callable[[], object]] = {
        "plain read": lambda: [(found.tree.base / name).read_bytes() for name in names],
        "decode in full": lambda: [opened(found.tree, name) for name in names],
        "decode, crop, scale, mirror": lambda: [crop(row) for row in range(count)],
        "the same, 2 threads": lambda: list(ThreadPoolExecutor(2).map(crop, range(count))),
        "input path, 1 thread decodes": lambda: consumed(found, draws, batch, 1),
        "input path, 2 threads decode": lambda: consumed(found, draws, batch, 2),
    }
    speeds = {name: measured(way, count, repeats) for name, way in ways.items()}
    bare = speeds["decode in full"].rate
    for name, speed in speeds.items():
        ratio = f"{speed.rate / bare:5.2f} x decoding"
        print(f"{name:30s} {speed.rate:8.0f} images/s  {speed.cpu:6.2f} ms CPU  {ratio}")


def consumed(found: FoundFolders, draws: Draws, batch: int, threads: int) -> None:
    """Take every batch of an epoch, as training does, and do nothing with it."""
    labels = torch.from_numpy(found.train.labels)
    source = StreamSource(found.tree, found.train.files, labels, SIZE, threads)
    for _ in batches(source, list(planned(draws, len(source), batch))):
        pass


def planned(draws: Draws, count: int, batch: int) -> Iterator[tuple[torch.Tensor, Draws]]:
    """The batches of an epoch."""
    for start in range(0, count, batch):
        rows = slice(start, min(start + batch, count))
        yield torch.arange(rows.start, rows.stop), draws[rows]


def measured(way: Callable[[], object], count: int, repeats: int) -> Speed:
    """The best of several runs."""
    runs: Sequence[tuple[float, float]] = [timed(way) for _ in range(repeats)]
    wall, cpu = (min(part) for part in zip(*runs, strict=True))
    return Speed(rate=count / wall, cpu=cpu / count * 1000)


def timed(way: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
