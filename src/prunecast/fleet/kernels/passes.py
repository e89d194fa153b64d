"""The forward and backward pass of a packed network as launches of kernels."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from prunecast.fleet.kernels.library import Argument, Compile
from prunecast.fleet.kernels.program import TILE, Convolution, Program, Unfused, Value
from prunecast.fleet.kernels.tiling import (
    Work,
    backward_work,
    forward_work,
    images_a_block,
    least_share,
    limits,
    slopes_work,
)
from prunecast.fleet.streams import ExclusiveStream, exclusive_stream

NO_END: tuple[Argument, ...] = (None, None, None, None, None, 1.0, None, None)
"""The last arguments of a convolution whose results are stored unchanged."""


@dataclass(frozen=True, kw_only=True)
class LayerBuffers:
    """A convolution and its norm on the device, with the tensors for its output, sums and gradient."""

    convolution: Convolution
    weight: Tensor
    gamma: Tensor
    beta: Tensor
    sums: Tensor
    """(4, channels): sums of y, y², dz and dz·y."""
    gradient: Tensor
    """The weight's gradient, in the weight's memory layout: (outputs, kernel, kernel, inputs of a group)."""
    y: Tensor


@dataclass(frozen=True, kw_only=True)
class Passes:
    """All launches of a forward and backward pass; only the values of tensors change."""

    program: Program
    batch: int
    packs: int
    """The number of packs expected to train at once."""
    layers: tuple[LayerBuffers, ...]
    images: Tensor
    joined: Mapping[int, Tensor]
    """Stored values: sums of a norm and a shortcut."""
    slopes: Mapping[int, Tensor]
    """The gradient of every value except the images, before its ReLU (dz)."""
    coarse: Mapping[int, Tensor]
    """The gradients that 1x1 shortcuts give to their inputs, by convolution."""
    compile: Compile
    works: Mapping[tuple[str, int], Work]
    """The plan of each launch, by kind and number of the convolution."""

    def forward(self, *, count: float | None = None, sums: bool = True) -> None:
        """Compute all values from the images; in evaluation, `count` is 1 and no sums are collected."""
        for number, value in enumerate(self.program.values):
            for made_by in (value.shortcut, value.convolution):
                if made_by is not None:
                    self._convolve(made_by, count, sums)
            if number in self.joined:
                self._join(number, value, count)

    def backward(self, slope: Tensor) -> None:
        """Compute all gradients and sums from the gradient of the final value's mean, (batch, channels).

        Weight gradients run on a side stream, because nothing waits for them until the end.
        """
        device = self.images.device
        self._join_slope(slope)
        for number, value in reversed(list(enumerate(self.program.values))):
            for made_by in (value.shortcut, value.convolution):
                if made_by is not None:
                    with side_stream(device):
                        self._slopes(made_by, self.slopes[number])
                    if self.program.convolutions[made_by].source:
                        self._back(made_by, number)
        wait_for_side_stream(device)

    def _convolve(self, number: int, count: float | None, sums: bool) -> None:
        layer = self.layers[number]
        conv = layer.convolution
        work = self.works["forward", number]
        x, before = self._read(conv.source)
        args: list[Argument] = [
            *(work.items, work.table, work.most_reads, layer.weight),
            *_group(conv),
            *(x, None, conv.in_channels // TILE, *self._norm(before, count), conv.eps),
            *(layer.y, layer.sums if sums else None, conv.out_channels // TILE),
            *NO_END,
        ]
        self._launch("convolve.cu", "convolve", work, args)

    def _back(self, number: int, value: int) -> None:
        """Compute the gradient of a convolution's input, before its ReLU if nothing else is added."""
        layer, conv = self.layers[number], self.program.convolutions[number]
        work = self.works["backward", number]
        tiles = conv.in_channels // TILE
        args: list[Argument] = [
            *(work.items, work.table, work.most_reads, layer.weight),
            *_group(conv),
            *(self.slopes[value], layer.y, conv.out_channels // TILE, *self._norm(number, None), conv.eps),
        ]
        if number in self.coarse:
            args += [self.coarse[number], None, tiles, *NO_END]
        else:
            args += [self.slopes[conv.source], *self._end(conv.source, tiles)]
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
        """Return the part of a value's gradient that does not come from its convolution, if any."""
        for number, value in enumerate(self.program.values):
            if value.other == source:
                return self.slopes[number]
        for number, gradient in self.coarse.items():
            if self.program.convolutions[number].source == source:
                return gradient
        return None

    def _slopes(self, number: int, slope: Tensor) -> None:
        layer, conv = self.layers[number], self.program.convolutions[number]
        work = self.works["slopes", number]
        x, before = self._read(conv.source)
        args: list[Argument] = [
            *(work.items, work.table, slope, layer.y, conv.out_channels // TILE, *self._norm(number, None)),
            *(
                x,
                conv.in_channels // TILE,
                *self._norm(before, None),
                conv.eps,
                layer.gradient,
                *_group(conv),
            ),
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
        conv = layer.convolution
        tiles = conv.out_channels // TILE
        args: list[Argument] = [
            *(self.joined[number], layer.y, sums, gamma, beta, other, *self._norm(before, count)[:3]),
            *(int(value.other is not None), many, conv.eps, tiles),
        ]
        kernels = self.compile("join.cu", {"SIZE": conv.out_size})
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
        """Return the tensor that a value is read from, and the convolution whose norm is applied to it, if any."""
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
        """Launch blocks that each take a share of the images."""
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


def _group(conv: Convolution) -> list[int]:
    return [conv.in_channels // conv.groups, conv.out_channels // conv.groups]


def prepare_passes(
    program: Program,
    *,
    batch: int,
    packs: int,
    parameters: Mapping[str, Tensor],
    sums: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    kernels_of: Compile,
) -> Passes:
    """Allocate all activations; sums and gradients are given by name of norm and weight.

    `packs` is the number of packs expected to train at once.
    """
    _refuse_other_readers(program)
    device = next(iter(parameters.values())).device

    def activation(channels: int, size: int) -> Tensor:
        shape = (batch, channels // TILE, size, size, TILE)
        return torch.zeros(shape, dtype=torch.bfloat16, device=device)

    layers = tuple(
        LayerBuffers(
            convolution=conv,
            weight=parameters[f"{conv.name}.weight"],
            gamma=parameters[f"{conv.norm}.weight"],
            beta=parameters[f"{conv.norm}.bias"],
            sums=sums[conv.norm],
            gradient=gradients[f"{conv.name}.weight"],
            y=activation(conv.out_channels, conv.out_size),
        )
        for conv in program.convolutions
    )
    sizes = [(program.channels(number), program.size(number)) for number in range(len(program.values))]
    joined = [n for n, value in enumerate(program.values) if (value.shortcut, value.other) != (None, None)]
    shortcuts = [value.shortcut for value in program.values if value.shortcut is not None]
    return Passes(
        program=program,
        batch=batch,
        packs=packs,
        layers=layers,
        images=activation(*sizes[0]),
        joined={number: activation(*sizes[number]) for number in joined},
        slopes={number: activation(*sizes[number]) for number in range(1, len(sizes))},
        coarse={
            number: activation(
                program.convolutions[number].in_channels, program.convolutions[number].out_size
            )
            for number in shortcuts
        },
        compile=kernels_of,
        works=_works(program, device),
    )


def _works(program: Program, device: torch.device) -> dict[tuple[str, int], Work]:
    works = {}
    for number, conv in enumerate(program.convolutions):
        value = program.values[conv.source]
        normed = value.convolution is not None and value.shortcut is None and value.other is None
        works["forward", number] = forward_work(conv, normed, device)
        works["slopes", number] = slopes_work(conv, normed, device)
        if conv.source:
            works["backward", number] = backward_work(conv, _ends(program, number), device)
    return works


def _ends(program: Program, number: int) -> dict[str, int]:
    """Return macros for what is done with the gradient of a convolution's input; a shortcut's is stored unchanged."""
    source = program.convolutions[number].source
    value = program.values[source]
    if any(other.shortcut == number for other in program.values):
        return {}
    strides = [
        conv.stride
        for other in program.values
        if other.shortcut is not None
        for conv in (program.convolutions[other.shortcut],)
        if conv.source == source
    ]
    same = any(other.other == source for other in program.values)
    return {
        "RECTIFIED": 1,
        "JOINED": int(value.shortcut is not None or value.other is not None),
        "ADDED": 1 if same else max(strides, default=0),
        "SHORTCUT": int(value.shortcut is not None),
    }


def variants(program: Program, device: torch.device) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the sources and macros of all kernels that the passes launch."""
    for (kind, _), work in _works(program, device).items():
        yield "slopes.cu" if kind == "slopes" else "convolve.cu", work.macros
    for conv in program.convolutions:
        yield "join.cu", {"SIZE": conv.out_size}


def _refuse_other_readers(program: Program) -> None:
    """Refuse values with other readers than in residual networks."""
    shortcuts = {value.shortcut for value in program.values}
    for number in range(1, len(program.values)):
        readers = [n for n, conv in enumerate(program.convolutions) if conv.source == number]
        main = [n for n in readers if n not in shortcuts]
        of_shortcuts = [n for n in readers if n in shortcuts]
        added = [value for value in program.values if value.other == number]
        if len(main) != (number != program.final) or len(of_shortcuts) + len(added) > 1:
            raise Unfused(f"Value {number} is not read in the way that residual networks do.")
        if any(program.convolutions[n].kernel != 1 for n in of_shortcuts):
            raise Unfused("A shortcut with a kernel larger than 1x1 is not fused.")
        if any(program.convolutions[n].kernel == 1 and program.convolutions[n].stride > 1 for n in main):
            raise Unfused("A 1x1 convolution with a stride outside a shortcut is not fused.")
    final = program.values[program.final]
    if final.shortcut is None and final.other is None:
        raise Unfused("The last value of the network is not a sum with a shortcut, so it is not fused.")


@contextlib.contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Launch kernels on a second stream: they wait for earlier launches; later launches do not wait for them."""
    if device.type != "cuda":
        yield
        return
    second = _second_stream(device).stream
    second.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(second):
        yield


def wait_for_side_stream(device: torch.device) -> None:
    """Let all later launches wait for the second stream."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).wait_stream(_second_stream(device).stream)


@cache
def _second_stream(device: torch.device) -> ExclusiveStream[torch.cuda.Stream]:
    """Return the second stream, one for all packs: one is captured at a time, and graphs do not keep streams."""
    return exclusive_stream(device)
