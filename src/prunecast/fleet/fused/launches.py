"""How the kernels for images and for the end of a pack are cut into blocks."""

from collections.abc import Sequence
from itertools import pairwise

from prunecast.fleet.fused.kernels import Launch
from prunecast.fleet.fused.program import TILE

THREADS = 256
TILES_A_BLOCK = 16
"""Rows of one tile that a block of the kernel `images` writes, about: two for each warp."""
MOST_ROWS = 8
IMAGES = 4
"""Images a block of the kernel `head` takes, as in its source."""
CHANNELS_A_PART = 64

Ranges = Sequence[tuple[int, int]]
"""The first channel and the number of channels of every slot, ascending."""


def images_launch(*, batch: int, slots: int, height: int, width: int, colours: int, channels: int) -> Launch:
    """Blocks that write up to 16 rows of a tile each: several rows where there are few channels."""
    tiles = channels // TILE
    parts = -(-tiles // TILES_A_BLOCK)
    own = -(-tiles // parts)
    most = min(MOST_ROWS, height, TILES_A_BLOCK // own)
    rows = 1 << (most.bit_length() - 1)  # so that they divide the height of common images
    members = min(slots, (TILE * own - 1) // colours + 2)
    stride = ((width * colours + 3) // 4 | 1) * 4
    shared = members * (16 + rows * stride)
    return Launch(grid=(-(-height // rows), batch, parts), threads=THREADS, shared=shared)


def head_parts(ranges: Ranges) -> list[int]:
    """The first slot of every part of neighbouring slots with few enough channels, and the number of slots."""
    parts, begin = [0], 0
    for slot, (first, count) in enumerate(ranges):
        if slot > parts[-1] and first + count - begin > CHANNELS_A_PART:
            parts.append(slot)
            begin = first
    return [*parts, len(ranges)]


def head_launch(ranges: Ranges, parts: Sequence[int], *, batch: int, channels: int, classes: int) -> Launch:
    """Blocks of a few images and one part of the slots each; for both kernels of the source."""
    sizes = [_head_bytes(ranges, first, last, channels, classes) for first, last in pairwise(parts)]
    return Launch(grid=(-(-batch // IMAGES), len(parts) - 1, 1), threads=THREADS, shared=max(sizes))


def _head_bytes(ranges: Ranges, first: int, last: int, channels: int, classes: int) -> int:
    begin = 0 if first == 0 else ranges[first][0]
    end = channels if last == len(ranges) else ranges[last][0]
    width = -(-end // 8) * 8 - begin // 8 * 8
    slots = last - first
    partial = max(THREADS, IMAGES * width // 8) * 8
    return 4 * ((IMAGES + 1) * width + IMAGES * slots * (classes + 2) + partial)
