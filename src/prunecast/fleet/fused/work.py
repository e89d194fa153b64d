"""How the work of a convolution is dealt to blocks of threads: variants of kernels, and tables they read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.fleet.fused.program import Convolution, Unfused

ROWS = {32: 16, 16: 16, 8: 8}
"""Rows of an image that a block computes, by the image's size."""
TILES = {32: 1, 16: 2, 8: 4}
"""Tiles of 16 channels that a block computes at once: together with its rows they keep eight warps busy."""
MOST_SHARED = 227 * 1024
"""Bytes of shared memory that a block can have."""
WARPS = 8

Range = tuple[int, int]
"""First and number of tiles."""


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

    @property
    def parts(self) -> int:
        """Blocks that an image is cut into."""
        return self.macros["OUT"] // self.macros["ROWS"]


def forward_work(convolution: Convolution, device: torch.device) -> Work:
    """Windows of what the convolution reads; a convolution of single pixels reads every `stride`-th."""
    wide = convolution.kernel > 1
    macros = _macros(
        convolution,
        convolution.out_size,
        hop=convolution.stride if wide else 1,
        read=1 if wide else convolution.stride,
        back=0,
    )
    return _convolving(convolution, macros, convolution.tiles, device)


def backward_work(convolution: Convolution, device: torch.device) -> Work:
    """Windows of the gradient, spread where the convolution hops; for single pixels it stays as small as it is."""
    wide = convolution.kernel > 1
    macros = _macros(
        convolution,
        convolution.in_size if wide else convolution.out_size,
        spread=convolution.stride if wide else 1,
        back=1,
    )
    turned = sorted((into, out) for out, into in convolution.tiles)
    return _convolving(convolution, macros, turned, device)


def slopes_work(convolution: Convolution, device: torch.device) -> Work:
    """Pairs of tiles of outputs and inputs, up to eight in a block."""
    wide = convolution.kernel > 1
    macros = _macros(
        convolution,
        convolution.out_size,
        hop=convolution.stride if wide else 1,
        read=1 if wide else convolution.stride,
    )
    del macros["TILES"], macros["SPREAD"]
    room = TILES[convolution.out_size]
    items, table = [], []
    for out, into in _pair_groups(convolution.tiles, room):
        pairs = [pair for pair in convolution.tiles if _has(out, pair[0]) and _has(into, pair[1])]
        items.append((*out, *into, len(table), len(pairs)))
        table += pairs
    rows, columns = _window(macros)
    pixels = macros["ROWS"] * macros["OUT"]
    taps = convolution.kernel**2
    shared = 0
    for item in items:
        shares = WARPS // _wide(item[5])
        planes = 32 * (item[1] * pixels + item[3] * rows * columns)
        gathered = 4 * (shares // 2) * _wide(item[5]) * taps * 256
        shared = max(shared, 4 * 48 * (item[1] + item[3]) + max(planes, gathered))
    return _fitting(convolution, macros, items, table, 0, shared, device)


def _convolving(
    convolution: Convolution, macros: dict[str, int], tiles: Sequence[Range], device: torch.device
) -> Work:
    reads = _reads(tiles)
    items = _items(reads, macros["TILES"])
    most = max(many for _, many in reads)
    rows, columns = _window(macros)
    shared = max(
        4 * 48 * (sources + WARPS)
        + 512 * convolution.kernel**2 * macros["TILES"] * most
        + 32 * rows * columns * sources
        for *_, sources in items
    )
    return _fitting(convolution, macros, items, reads, most, shared, device)


def _fitting(
    convolution: Convolution,
    macros: dict[str, int],
    items: Sequence[Sequence[int]],
    table: Sequence[Sequence[int]],
    most_reads: int,
    shared: int,
    device: torch.device,
) -> Work:
    if shared > MOST_SHARED:
        raise Unfused(f"Module {convolution.name!r} is too wide for the memory of a multiprocessor.")
    return Work(
        macros=macros,
        items=torch.tensor(items, dtype=torch.int32, device=device),
        table=torch.tensor(table, dtype=torch.int32, device=device),
        most_reads=most_reads,
        shared=shared,
    )


def _macros(
    convolution: Convolution,
    out: int,
    *,
    hop: int = 1,
    read: int = 1,
    spread: int = 1,
    back: int | None = None,
) -> dict[str, int]:
    if out not in ROWS:
        raise Unfused(
            f"Module {convolution.name!r} has images of {out}x{out}; fused are sides in {set(ROWS)}."
        )
    macros = {"KERNEL": convolution.kernel, "HOP": hop, "READ": read, "SPREAD": spread}
    macros |= {"OUT": out, "ROWS": ROWS[out], "TILES": TILES[out]}
    return macros | ({} if back is None else {"BACK": back})


def _window(macros: dict[str, int]) -> tuple[int, int]:
    """Rows and columns that a block loads."""
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


def _pair_groups(tiles: Sequence[Range], room: int) -> list[tuple[Range, Range]]:
    """Ranges of outputs and inputs that hold all pairs, each up to eight pairs and a few tiles."""
    groups = []
    for start, tiles_here, source, sources in _items(_reads(tiles), room):
        step = max(1, min(sources, max(WARPS // tiles_here, 1)))
        diagonal = sum(_has((start, tiles_here), out) for out, _ in tiles) <= WARPS
        step = sources if diagonal else step
        for first in range(source, source + sources, step):
            groups.append(((start, tiles_here), (first, min(step, source + sources - first))))
    return groups


def _has(span: Range, tile: int) -> bool:
    return span[0] <= tile < span[0] + span[1]


def _wide(pairs: int) -> int:
    """Pairs rounded up to a power of two."""
    return 1 << (pairs - 1).bit_length()
