"""How the work of a launch is divided among blocks of threads: variants of kernels, and the tables they read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from prunecast.fleet.kernels.library import Launch
from prunecast.fleet.kernels.program import TILE, Convolution, Unfused

WORKERS = 8
"""Warps of a block that compute, in convolutions."""
SLOPE_WORKERS = {3: 12, 1: 8}
"""Warps of a block that compute, in sums of weight gradients, by kernel size: four or eight per column."""
LOADERS = 4
"""Warps of a block that load the next image meanwhile, in convolutions."""
SLOPE_LOADERS = 12
"""Warps of a block that load the next images meanwhile, in sums of weight gradients."""
ROWS = {32: 16, 16: 16, 8: 8}
"""Rows of an image that a block computes, by image size."""
TILES = {32: 1, 16: 2, 8: 4}
"""Tiles of 16 channels that a block computes at once; with its rows they keep eight warps busy."""
BUNDLES = {32: (1,), 16: (1,), 8: (4, 2, 1)}
"""Images loaded at once in sums of weight gradients: several small ones if shared memory suffices."""
PIXEL = 48
"""Bytes from one pixel to the next in shared memory."""
BLOCKS = {"forward": 2, "backward": 2, "slopes": 1}
"""Blocks that should fit a multiprocessor at once, which limits the registers per thread."""

LEAST_SHARE = 4
"""The fewest images per block: narrow packs leave multiprocessors free for packs on other streams."""
LEAST_SHARE_OF_FEW = 2
"""The fewest images per block of a convolution when few packs train at once."""
FEW_PACKS = 2
"""Up to this many packs at once count as few."""
FIXED_COSTS = 4
"""The set-up and the end of a block take as long as this many images."""

Range = tuple[int, int]
"""First and number of tiles."""

THREADS = 256
TILES_A_BLOCK = 16
"""About how many rows of one tile a block of the kernel `images` writes: two per warp."""
MOST_ROWS = 8
IMAGES = 4
"""Images per block of the kernel `head`, as in its source."""
CHANNELS_A_PART = 64

Ranges = Sequence[tuple[int, int]]
"""The first channel and the number of channels of every slot, ascending."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a device; the defaults are those of an H200."""

    multiprocessors: int = 132
    shared: int = 227 * 1024
    """Bytes of shared memory per block."""


@cache
def limits(device: torch.device) -> Limits:
    """Return the limits of a device."""
    if device.type != "cuda":
        return Limits()
    found = torch.cuda.get_device_properties(device)
    shared = getattr(found, "shared_memory_per_block_optin", Limits().shared)
    return Limits(multiprocessors=found.multi_processor_count, shared=shared)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One launch of a kernel that convolves or sums weight gradients."""

    macros: dict[str, int]
    items: Tensor
    """Tiles for every block: int32, one row per item."""
    table: Tensor
    """What the items point to: int32."""
    most_reads: int
    shared: int
    threads: int = 32 * (WORKERS + LOADERS)

    @property
    def parts(self) -> int:
        """The number of blocks per image."""
        return self.macros["OUT"] // self.macros["ROWS"]


def least_share(kernel: str, packs: int) -> int:
    """Return the fewest images per block of a kernel when `packs` packs train at once."""
    return LEAST_SHARE_OF_FEW if kernel == "convolve" and packs <= FEW_PACKS else LEAST_SHARE


@cache
def images_a_block(batch: int, items: int, at_once: int, least: int) -> int:
    """Return the images per block that finish soonest if `at_once` blocks run at once, each with its fixed costs."""

    def cost(parts: int) -> int:
        return -(-items * parts // at_once) * (-(-batch // parts) + FIXED_COSTS)

    parts = min(range(1, max(1, batch // least) + 1), key=cost)
    return -(-batch // parts)


def forward_work(convolution: Convolution, normed: bool, device: torch.device) -> Work:
    """Plan a forward convolution: windows of its input; a 1x1 convolution reads every `stride`-th pixel."""
    macros = _reading(convolution, normed, back=0)
    return _convolving(convolution, macros, convolution.tiles, device)


def backward_work(convolution: Convolution, ends: Mapping[str, int], device: torch.device) -> Work:
    """Plan a backward convolution: windows of the gradient, spread out if a 3x3 convolution has a stride.

    `ends` are macros for what is done with the result.
    """
    wide = convolution.kernel > 1
    macros = _macros(
        convolution,
        convolution.in_size if wide else convolution.out_size,
        spread=convolution.stride if wide else 1,
        back=1,
    )
    turned = sorted((into, out) for out, into in convolution.tiles)
    return _convolving(convolution, {**macros, **ends}, turned, device)


def slopes_work(convolution: Convolution, normed: bool, device: torch.device) -> Work:
    """Plan the weight gradients: pairs of output and input tiles, per block as many as a kernel column has warps."""
    macros = _reading(convolution, normed, back=None)
    del macros["TILES"], macros["SPREAD"]
    warps = SLOPE_WORKERS[convolution.kernel] // convolution.kernel
    choices = [
        (most_tiles, pairs, bundle)
        for most_tiles in _halves(TILES[convolution.out_size])
        for pairs in _halves(warps)
        for bundle in BUNDLES[convolution.out_size]
    ]
    for most_tiles, pairs, bundle in choices:
        items, table = _pairs(convolution, most_tiles, pairs)
        bundled = macros | {"BUNDLE": bundle}
        shared = _slopes_bytes(bundled, items, warps)
        if shared <= limits(device).shared:
            break
    work = _fitting(convolution, bundled, items, table, 0, shared, device)
    return replace(work, threads=32 * (SLOPE_WORKERS[convolution.kernel] + SLOPE_LOADERS))


def _pairs(convolution: Convolution, most_tiles: int, most: int) -> tuple[list[tuple[int, ...]], list[Range]]:
    items: list[tuple[int, ...]] = []
    table: list[Range] = []
    for out, into in _pair_groups(convolution.tiles, most_tiles, most):
        pairs = [pair for pair in convolution.tiles if _has(out, pair[0]) and _has(into, pair[1])]
        items.append((*out, *into, len(table), len(pairs)))
        table += pairs
    return items, table


def _slopes_bytes(macros: Mapping[str, int], items: Sequence[Sequence[int]], warps: int) -> int:
    """Return shared memory for two windows, reused at the end for the sums of half of the warps."""
    rows, columns = _window(macros)
    pixels, bundle = macros["ROWS"] * macros["OUT"], macros["BUNDLE"]
    gathered = 4 * (warps // 2) * macros["KERNEL"] ** 2 * 256
    return max(
        4 * 48 * (outs + ins) + max(2 * PIXEL * bundle * (outs * pixels + ins * rows * columns), gathered)
        for _, outs, _, ins, _, _ in items
    )


def _halves(number: int) -> list[int]:
    """Return a power of two and all smaller ones."""
    return [number >> shift for shift in range(number.bit_length())]


def _convolving(
    convolution: Convolution, macros: dict[str, int], tiles: Sequence[Range], device: torch.device
) -> Work:
    reads = _reads(tiles)
    most = max(many for _, many in reads)
    for most_tiles in _halves(macros["TILES"]):
        items = _items(reads, most_tiles)
        shared = _convolving_bytes(macros, items, most)
        if shared <= limits(device).shared:
            break
    return _fitting(convolution, macros, items, reads, most, shared, device)


def _convolving_bytes(macros: Mapping[str, int], items: Sequence[Sequence[int]], most_reads: int) -> int:
    """Return shared memory for lines, sums and weights, and for two windows."""
    rows, columns = _window(macros)
    return max(
        4 * 48 * (sources + macros["TILES"] + WORKERS)
        + 512 * macros["KERNEL"] ** 2 * macros["TILES"] * most_reads
        + 2 * PIXEL * rows * columns * sources
        for *_, sources in items
    )


def _fitting(
    convolution: Convolution,
    macros: dict[str, int],
    items: Sequence[Sequence[int]],
    table: Sequence[Sequence[int]],
    most_reads: int,
    shared: int,
    device: torch.device,
) -> Work:
    if shared > limits(device).shared:
        raise Unfused(f"Module {convolution.name!r} is too wide for the memory of a multiprocessor.")
    return Work(
        macros=macros,
        items=torch.tensor(items, dtype=torch.int32, device=device),
        table=torch.tensor(table, dtype=torch.int32, device=device),
        most_reads=most_reads,
        shared=shared,
    )


def _reading(convolution: Convolution, normed: bool, *, back: int | None) -> dict[str, int]:
    """Return macros for windows of a convolution's input."""
    wide = convolution.kernel > 1
    return _macros(
        convolution,
        convolution.out_size,
        hop=convolution.stride if wide else 1,
        read=1 if wide else convolution.stride,
        back=back,
        normed=normed,
    )


def _macros(
    convolution: Convolution,
    out: int,
    *,
    hop: int = 1,
    read: int = 1,
    spread: int = 1,
    back: int | None = None,
    normed: bool = False,
) -> dict[str, int]:
    if out not in ROWS:
        raise Unfused(
            f"Module {convolution.name!r} has images of {out}x{out}; fused are sides in {set(ROWS)}."
        )
    macros = {"KERNEL": convolution.kernel, "HOP": hop, "READ": read, "SPREAD": spread}
    macros |= {"OUT": out, "ROWS": ROWS[out], "TILES": TILES[out], "NORMED_INPUT": int(normed)}
    if back is None:
        return macros | {"BLOCKS": BLOCKS["slopes"]}
    ends = {"RECTIFIED": 0, "JOINED": 0, "ADDED": 0, "SHORTCUT": 0}
    return macros | {"BACK": back, "BLOCKS": BLOCKS["backward" if back else "forward"]} | ends


def _window(macros: Mapping[str, int]) -> tuple[int, int]:
    """Return the rows and columns that a block loads."""
    if macros.get("SPREAD") == 2:
        return macros["ROWS"] // 2 + 1, macros["OUT"] // 2 + 1
    hop, kernel = macros["HOP"], macros["KERNEL"]
    return (macros["ROWS"] - 1) * hop + kernel, (macros["OUT"] - 1) * hop + kernel


def _reads(tiles: Sequence[Range]) -> list[Range]:
    """Return, for every output tile, the range of tiles that it reads."""
    of: dict[int, list[int]] = {}
    for result, source in tiles:
        of.setdefault(result, []).append(source)
    return [(min(of[tile]), max(of[tile]) - min(of[tile]) + 1) for tile in range(len(of))]


def _items(reads: Sequence[Range], most_tiles: int) -> list[tuple[int, int, int, int]]:
    """Group neighbouring output tiles, up to `most_tiles` per block, unless they would read too much."""
    items: list[tuple[int, int, int, int]] = []
    for tile, (first, many) in enumerate(reads):
        if items:
            start, tiles, source, sources = items[-1]
            low, end = min(source, first), max(source + sources, first + many)
            if tiles < most_tiles and end - low <= max(most_tiles, sources, many):
                items[-1] = (start, tiles + 1, low, end - low)
                continue
        items.append((tile, 1, first, many))
    return items


def _pair_groups(tiles: Sequence[Range], most_tiles: int, most: int) -> list[tuple[Range, Range]]:
    """Return ranges of outputs and inputs that cover all pairs, each with few tiles and at most `most` pairs."""
    reads = _reads(tiles)
    several = max(many for _, many in reads) > 1
    groups = []
    for start, many, source, sources in _items(reads, min(most_tiles, 2 if several else most)):
        pairs = sum(_has((start, many), out) for out, _ in tiles)
        step = sources if pairs <= most else max(1, most // many)
        for first in range(source, source + sources, step):
            group = (start, many), (first, min(step, source + sources - first))
            if any(_has(group[0], out) and _has(group[1], into) for out, into in tiles):
                groups.append(group)
    return groups


def _has(span: Range, tile: int) -> bool:
    return span[0] <= tile < span[0] + span[1]


def images_launch(*, batch: int, slots: int, height: int, width: int, colours: int, channels: int) -> Launch:
    """Plan the kernel `images`: blocks that write up to 16 rows of a tile, several if there are few channels."""
    tiles = channels // TILE
    parts = -(-tiles // TILES_A_BLOCK)
    tiles_of_part = -(-tiles // parts)
    most = min(MOST_ROWS, height, TILES_A_BLOCK // tiles_of_part)
    rows = 1 << (most.bit_length() - 1)  # so that they divide the height of common images
    members = min(slots, (TILE * tiles_of_part - 1) // colours + 2)
    stride = ((width * colours + 3) // 4 | 1) * 4
    shared = members * (16 + rows * stride)
    return Launch(grid=(-(-height // rows), batch, parts), threads=THREADS, shared=shared)


def head_parts(ranges: Ranges) -> list[int]:
    """Divide the slots into parts with few enough channels; return the first slot of each, and the slot count."""
    parts, begin = [0], 0
    for slot, (first, count) in enumerate(ranges):
        if slot > parts[-1] and first + count - begin > CHANNELS_A_PART:
            parts.append(slot)
            begin = first
    return [*parts, len(ranges)]


def head_launch(ranges: Ranges, parts: Sequence[int], *, batch: int, channels: int, classes: int) -> Launch:
    """Plan the kernels of head.cu: blocks of a few images and one part of the slots each."""
    sizes = [_head_bytes(ranges, first, last, channels, classes) for first, last in pairwise(parts)]
    return Launch(grid=(-(-batch // IMAGES), len(parts) - 1, 1), threads=THREADS, shared=max(sizes))


def _head_bytes(ranges: Ranges, first: int, last: int, channels: int, classes: int) -> int:
    begin = 0 if first == 0 else ranges[first][0]
    end = channels if last == len(ranges) else ranges[last][0]
    width = -(-end // 8) * 8 - begin // 8 * 8
    slots = last - first
    partial = max(THREADS, IMAGES * width // 8) * 8
    return 4 * ((IMAGES + 1) * width + IMAGES * slots * (classes + 2) + partial)
