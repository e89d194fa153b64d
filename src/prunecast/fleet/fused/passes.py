"""The forward and backward pass of a packed network as launches of kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from prunecast.fleet.fused.fork import beside, meet
from prunecast.fleet.fused.kernels import Argument, Kernels
from prunecast.fleet.fused.program import TILE, Convolution, Program, Value
from prunecast.fleet.fused.work import Work, images_a_block, least_share, limits

Compile = Callable[[str, Mapping[str, int]], Kernels]
"""Gives the kernels of a source file, compiled with macros."""
NO_END: tuple[Argument, ...] = (None, None, None, None, None, 1.0, None, None)
"""What a convolution is given whose results are written as they are."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A convolution on its device: parameters, what they are multiplied with, and where sums go."""

    convolution: Convolution
    weight: Tensor
    gamma: Tensor
    beta: Tensor
    sums: Tensor
    """(4, channels): sums of y, y², dz and dz·y."""
    gradient: Tensor
    """Of the weight, in the weight's layout in memory: (outputs, kernel, kernel, inputs of a group)."""
    y: Tensor


@dataclass(frozen=True, kw_only=True)
class Passes:
    """All launches of a pass; only the tensors' values change."""

    program: Program
    batch: int
    packs: int
    """That train at once, as far as is known."""
    layers: tuple[Layer, ...]
    images: Tensor
    joined: Mapping[int, Tensor]
    """Values that are written down: sums of a norm and a shortcut."""
    slopes: Mapping[int, Tensor]
    """dz of every value but the images: the gradient before its rectifier."""
    coarse: Mapping[int, Tensor]
    """Gradients that shortcuts of single pixels hand to the value they read, by convolution."""
    compile: Compile
    works: Mapping[tuple[str, int], Work]
    """By kind of launch and number of the convolution."""

    def forward(self, *, count: float | None = None, sums: bool = True) -> None:
        """From the images to the last value; for evaluation `count` is 1 and no sums are added up."""
        for number, value in enumerate(self.program.values):
            for made_by in (value.shortcut, value.convolution):
                if made_by is not None:
                    self._convolve(made_by, count, sums)
            if number in self.joined:
                self._join(number, value, count)

    def backward(self, slope: Tensor) -> None:
        """From the slope of the final value's mean, (batch, channels), to all gradients and sums.

        Gradients of weights are made beside the others, which do not wait for them.
        """
        device = self.images.device
        self._join_slope(slope)
        for number, value in reversed(list(enumerate(self.program.values))):
            for made_by in (value.shortcut, value.convolution):
                if made_by is not None:
                    with beside(device):
                        self._slopes(made_by, self.slopes[number])
                    if self.program.convolutions[made_by].source:
                        self._back(made_by, number)
        meet(device)

    def _convolve(self, number: int, count: float | None, sums: bool) -> None:
        layer = self.layers[number]
        own = layer.convolution
        work = self.works["forward", number]
        x, before = self._read(own.source)
        args: list[Argument] = [
            *(work.items, work.table, work.most_reads, layer.weight),
            *_group(own),
            *(x, None, own.in_channels // TILE, *self._norm(before, count), own.eps),
            *(layer.y, layer.sums if sums else None, own.out_channels // TILE),
            *NO_END,
        ]
        self._launch("convolve.cu", "convolve", work, args)

    def _back(self, number: int, value: int) -> None:
        """The gradient of what a convolution reads, up to before its rectifier where nothing else is added."""
        layer, own = self.layers[number], self.program.convolutions[number]
        work = self.works["backward", number]
        tiles = own.in_channels // TILE
        args: list[Argument] = [
            *(work.items, work.table, work.most_reads, layer.weight),
            *_group(own),
            *(self.slopes[value], layer.y, own.out_channels // TILE, *self._norm(number, None), own.eps),
        ]
        if number in self.coarse:
            args += [self.coarse[number], None, tiles, *NO_END]
        else:
            args += [self.slopes[own.source], *self._end(own.source, tiles)]
        self._launch("convolve.cu", "convolve", work, args)

    def _end(self, source: int, tiles: int) -> list[Argument]:
        value = self.program.values[source]
        assert value.convolution is not None
        maker = self.layers[value.convolution]
        shortcut = None if value.shortcut is None else self.layers[value.shortcut]
        return [
            *(maker.sums, tiles, self._added(source), self.joined.get(source), maker.y),
            *(maker.gamma, maker.beta, self._count(value.convolution)),
            *((None, None) if shortcut is None else (shortcut.y, shortcut.sums)),
        ]

    def _added(self, source: int) -> Tensor | None:
        """The gradient that a value gets besides that of its convolution."""
        for number, value in enumerate(self.program.values):
            if value.other == source:
                return self.slopes[number]
        for number, gradient in self.coarse.items():
            if self.program.convolutions[number].source == source:
                return gradient
        return None

    def _slopes(self, number: int, slope: Tensor) -> None:
        layer, own = self.layers[number], self.program.convolutions[number]
        work = self.works["slopes", number]
        x, before = self._read(own.source)
        args: list[Argument] = [
            *(work.items, work.table, slope, layer.y, own.out_channels // TILE, *self._norm(number, None)),
            *(x, own.in_channels // TILE, *self._norm(before, None), own.eps, layer.gradient, *_group(own)),
        ]
        self._launch("slopes.cu", "slopes", work, args)

    def _join(self, number: int, value: Value, count: float | None) -> None:
        assert value.convolution is not None
        layer = self.layers[value.convolution]
        other, before = (
            self._read(value.other)
            if value.other is not None
            else (self.layers[value.shortcut or 0].y, value.shortcut)
        )
        sums, gamma, beta, many = self._norm(value.convolution, count)
        own = layer.convolution
        tiles = own.out_channels // TILE
        args: list[Argument] = [
            *(self.joined[number], layer.y, sums, gamma, beta, other, *self._norm(before, count)[:3]),
            *(int(value.other is not None), many, own.eps, tiles),
        ]
        kernels = self.compile("join.cu", {"SIZE": own.out_size})
        kernels.launch("join", grid=(tiles, self.batch, 1), threads=256, shared=0, args=args)

    def _join_slope(self, slope: Tensor) -> None:
        value = self.program.values[self.program.final]
        assert value.convolution is not None
        layer = self.layers[value.convolution]
        shortcut = None if value.shortcut is None else self.layers[value.shortcut]
        tiles = layer.convolution.out_channels // TILE
        final = self.program.final
        args: list[Argument] = [self.slopes[final], self.joined[final], slope, layer.y, layer.sums]
        args += [None, None] if shortcut is None else [shortcut.y, shortcut.sums]
        kernels = self.compile("join.cu", {"SIZE": layer.convolution.out_size})
        kernels.launch("join_slope", grid=(tiles, self.batch, 1), threads=256, shared=0, args=[*args, tiles])

    def _read(self, value: int) -> tuple[Tensor, int | None]:
        """The tensor a value is read from, and the convolution whose norm makes it of that, if any."""
        made_by = self.program.values[value].convolution
        if made_by is None:
            return self.images, None
        return (self.joined[value], None) if value in self.joined else (self.layers[made_by].y, made_by)

    def _norm(self, number: int | None, count: float | None) -> list[Tensor | float | None]:
        if number is None:
            return [None, None, None, 1.0]
        layer = self.layers[number]
        return [layer.sums, layer.gamma, layer.beta, self._count(number) if count is None else count]

    def _count(self, number: int) -> float:
        return float(self.batch * self.program.convolutions[number].out_size ** 2)

    def _launch(self, source: str, name: str, work: Work, args: list[Argument]) -> None:
        """Blocks with a share of the images each."""
        at_once = limits(self.images.device).multiprocessors * work.macros["BLOCKS"]
        items, least = len(work.items) * work.parts, least_share(name, self.packs)
        share = images_a_block(self.batch, items, at_once, least)
        grid = (len(work.items), -(-self.batch // share), work.parts)
        kernels = self.compile(source, work.macros)
        kernels.launch(
            name,
            grid=grid,
            threads=work.threads,
            shared=work.shared,
            args=[*args, self.batch, share],
        )


def _group(own: Convolution) -> list[int]:
    return [own.in_channels // own.groups, own.out_channels // own.groups]
