"""How the work of a convolution is dealt to blocks of threads: variants of kernels, and tables they read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from prunecast.fleet.fused.program import Convolution, Unfused

WORKERS = 8
"""Warps of a block that compute."""
SLOPE_WORKERS = {3: 12, 1: 8}
"""The same where slopes are added up, by the size of the kernel: four or eight for each column of it."""
LOADERS = 4
"""Warps of a block that load the next image meanwhile."""
SLOPE_LOADERS = 12
"""The same where slopes are added up."""
ROWS = {32: 16, 16: 16, 8: 8}
"""Rows of an image that a block computes, by the image's size."""
TILES = {32: 1, 16: 2, 8: 4}
"""Tiles of 16 channels that a block computes at once: together with its rows they keep eight warps busy."""
BUNDLES = {32: (1,), 16: (1,), 8: (4, 2, 1)}
"""Images that are loaded at once where slopes are added up: several small ones if the memory holds them."""
PIXEL = 48
"""Bytes from one pixel to the next in shared memory."""
BLOCKS = {"forward": 2, "backward": 2, "slopes": 1}
"""Blocks that should fit a multiprocessor at once, which bounds the registers of a thread."""

LEAST_SHARE = 4
"""Images that a block takes at least: narrow packs leave room by that, which packs on other streams use."""
LEAST_SHARE_OF_FEW = 2
"""The same for convolutions where few packs train at once, who have room enough."""
FEW_PACKS = 2
"""So many packs or fewer leave a GPU room."""
FIXED_COSTS = 4
"""What a block does before its first image and after its last takes as long as some images."""

Range = tuple[int, int]
"""First and number of tiles."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a device has; the numbers are those of an H200."""

    multiprocessors: int = 132
    shared: int = 227 * 1024
    """Bytes of shared memory that a block can have."""


@cache
def limits(device: torch.device) -> Limits:
    """What the device at hand has."""
    if device.type != "cuda":
        return Limits()
    found = torch.cuda.get_device_properties(device)
    shared = getattr(found, "shared_memory_per_block_optin", Limits().shared)
    return Limits(multiprocessors=found.multi_processor_count, shared=shared)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One launch of a kernel that convolves or adds up slopes."""

    macros: dict[str, int]
    items: Tensor
    """Tiles for every block: int32, a row an item."""
    table: Tensor
    """What the items point to: int32."""
    most_reads: int
    shared: int
    threads: int = 32 * (WORKERS + LOADERS)

    @property
    def parts(self) -> int:
        """Blocks that an image is cut into."""
        return self.macros["OUT"] // self.macros["ROWS"]


def least_share(kernel: str, packs: int) -> int:
    """Images that a block of a kernel takes at least, where so many packs train at once."""
    return LEAST_SHARE_OF_FEW if kernel == "convolve" and packs <= FEW_PACKS else LEAST_SHARE


@cache
def images_a_block(batch: int, items: int, at_once: int, least: int) -> int:
    """The share of the images that ends soonest, where so many blocks run at once and each has its fixed costs."""

    def cost(parts: int) -> int:
        return -(-items * parts // at_once) * (-(-batch // parts) + FIXED_COSTS)

    parts = min(range(1, max(1, batch // least) + 1), key=cost)
    return -(-batch // parts)


def forward_work(convolution: Convolution, normed: bool, device: torch.device) -> Work:
    """Windows of what the convolution reads; a convolution of single pixels reads every `stride`-th."""
    macros = _reading(convolution, normed, back=0)
    return _convolving(convolution, macros, convolution.tiles, device)


def backward_work(convolution: Convolution, ends: Mapping[str, int], device: torch.device) -> Work:
    """Windows of the gradient, with results between its pixels where a convolution of more than single pixels hops.

    `ends` are macros that say what becomes of the result.
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
    """Pairs of tiles of outputs and inputs, as many in a block as a column of the kernel has warps."""
    macros = _reading(convolution, normed, back=None)
    del macros["TILES"], macros["SPREAD"]
    team = SLOPE_WORKERS[convolution.kernel] // convolution.kernel
    choices = [
        (room, pairs, bundle)
        for room in _halves(TILES[convolution.out_size])
        for pairs in _halves(team)
        for bundle in BUNDLES[convolution.out_size]
    ]
    for room, pairs, bundle in choices:
        items, table = _pairs(convolution, room, pairs)
        own = macros | {"BUNDLE": bundle}
        shared = _slopes_bytes(own, items, team)
        if shared <= limits(device).shared:
            break
    work = _fitting(convolution, own, items, table, 0, shared, device)
    return replace(work, threads=32 * (SLOPE_WORKERS[convolution.kernel] + SLOPE_LOADERS))


def _pairs(convolution: Convolution, room: int, most: int) -> tuple[list[tuple[int, ...]], list[Range]]:
    items: list[tuple[int, ...]] = []
    table: list[Range] = []
    for out, into in _pair_groups(convolution.tiles, room, most):
        pairs = [pair for pair in convolution.tiles if _has(out, pair[0]) and _has(into, pair[1])]
        items.append((*out, *into, len(table), len(pairs)))
        table += pairs
    return items, table


def _slopes_bytes(macros: Mapping[str, int], items: Sequence[Sequence[int]], team: int) -> int:
    """Shared memory for windows twice, and in their place at the end for the sums of half of the warps."""
    rows, columns = _window(macros)
    pixels, bundle = macros["ROWS"] * macros["OUT"], macros["BUNDLE"]
    gathered = 4 * (team // 2) * macros["KERNEL"] ** 2 * 256
    return max(
        4 * 48 * (outs + ins) + max(2 * PIXEL * bundle * (outs * pixels + ins * rows * columns), gathered)
        for _, outs, _, ins, _, _ in items
    )


def _halves(number: int) -> list[int]:
    """A power of two and all smaller ones."""
    return [number >> shift for shift in range(number.bit_length())]


def _convolving(
    convolution: Convolution, macros: dict[str, int], tiles: Sequence[Range], device: torch.device
) -> Work:
    reads = _reads(tiles)
    most = max(many for _, many in reads)
    for room in _halves(macros["TILES"]):
        items = _items(reads, room)
        shared = _convolving_bytes(macros, items, most)
        if shared <= limits(device).shared:
            break
    return _fitting(convolution, macros, items, reads, most, shared, device)


def _convolving_bytes(macros: Mapping[str, int], items: Sequence[Sequence[int]], most_reads: int) -> int:
    """Shared memory for lines, sums and weights, and for windows twice."""
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
    """Macros for windows of what a convolution reads."""
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
    """Rows and columns that a block loads; for results between pixels these and the next ones."""
    if macros.get("SPREAD") == 2:
        return macros["ROWS"] // 2 + 1, macros["OUT"] // 2 + 1
    hop, kernel = macros["HOP"], macros["KERNEL"]
    return (macros["ROWS"] - 1) * hop + kernel, (macros["OUT"] - 1) * hop + kernel


def _reads(tiles: Sequence[Range]) -> list[Range]:
    """For every tile of results the tiles it reads, from the first to the last."""
    of: dict[int, list[int]] = {}
    for result, source in tiles:
        of.setdefault(result, []).append(source)
    return [(min(of[tile]), max(of[tile]) - min(of[tile]) + 1) for tile in range(len(of))]


def _items(reads: Sequence[Range], room: int) -> list[tuple[int, int, int, int]]:
    """Neighbouring tiles of results together, as many as a block has room for, unless they read too much."""
    items: list[tuple[int, int, int, int]] = []
    for tile, (first, many) in enumerate(reads):
        if items:
            start, tiles, source, sources = items[-1]
            low, end = min(source, first), max(source + sources, first + many)
            if tiles < room and end - low <= max(room, sources, many):
                items[-1] = (start, tiles + 1, low, end - low)
                continue
        items.append((tile, 1, first, many))
    return items


def _pair_groups(tiles: Sequence[Range], room: int, most: int) -> list[tuple[Range, Range]]:
    """Ranges of outputs and inputs that hold all pairs, each a few tiles and not too many pairs."""
    reads = _reads(tiles)
    several = max(many for _, many in reads) > 1
    groups = []
    for start, many, source, sources in _items(reads, min(room, 2 if several else most)):
        pairs = sum(_has((start, many), out) for out, _ in tiles)
        step = sources if pairs <= most else max(1, most // many)
        for first in range(source, source + sources, step):
            group = (start, many), (first, min(step, source + sources - first))
            if any(_has(group[0], out) and _has(group[1], into) for out, into in tiles):
                groups.append(group)
    return groups


def _has(span: Range, tile: int) -> bool:
    return span[0] <= tile < span[0] + span[1]
