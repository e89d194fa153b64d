"""What passes need before the first launch: activations, work dealt to blocks, and kernels."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from prunecast.fleet.fused.passes import Compile, Layer, Passes
from prunecast.fleet.fused.program import TILE, Program, Unfused
from prunecast.fleet.fused.work import Work, backward_work, forward_work, slopes_work


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
    """Lay out all activations; sums and gradients are given by name of norm and of weight.

    `packs` is how many are expected to train at once.
    """
    _refuse_other_readers(program)
    device = next(iter(parameters.values())).device

    def activation(channels: int, size: int) -> Tensor:
        shape = (batch, channels // TILE, size, size, TILE)
        return torch.zeros(shape, dtype=torch.bfloat16, device=device)

    layers = tuple(
        Layer(
            convolution=own,
            weight=parameters[f"{own.name}.weight"],
            gamma=parameters[f"{own.norm}.weight"],
            beta=parameters[f"{own.norm}.bias"],
            sums=sums[own.norm],
            gradient=gradients[f"{own.name}.weight"],
            y=activation(own.out_channels, own.out_size),
        )
        for own in program.convolutions
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
    for number, own in enumerate(program.convolutions):
        value = program.values[own.source]
        normed = value.convolution is not None and value.shortcut is None and value.other is None
        works["forward", number] = forward_work(own, normed, device)
        works["slopes", number] = slopes_work(own, normed, device)
        if own.source:
            works["backward", number] = backward_work(own, _ends(program, number), device)
    return works


def _ends(program: Program, number: int) -> dict[str, int]:
    """What becomes of the gradient that a convolution hands back; a shortcut's is taken as it is."""
    source = program.convolutions[number].source
    value = program.values[source]
    if any(other.shortcut == number for other in program.values):
        return {}
    beside = [
        own.stride
        for other in program.values
        if other.shortcut is not None
        for own in (program.convolutions[other.shortcut],)
        if own.source == source
    ]
    same = any(other.other == source for other in program.values)
    return {
        "RECTIFIED": 1,
        "JOINED": int(value.shortcut is not None or value.other is not None),
        "ADDED": 1 if same else max(beside, default=0),
        "SHORTCUT": int(value.shortcut is not None),
    }


def variants(program: Program, device: torch.device) -> Iterator[tuple[str, dict[str, int]]]:
    """The sources and macros of all kernels that passes launch."""
    for (kind, _), work in _works(program, device).items():
        yield "slopes.cu" if kind == "slopes" else "convolve.cu", work.macros
    for own in program.convolutions:
        yield "join.cu", {"SIZE": own.out_size}


def _refuse_other_readers(program: Program) -> None:
    """A value's gradient ends with that of the one 3x3 convolution that reads it."""
    shortcuts = {value.shortcut for value in program.values}
    for number in range(1, len(program.values)):
        readers = [n for n, own in enumerate(program.convolutions) if own.source == number]
        main = [n for n in readers if n not in shortcuts]
        beside = [n for n in readers if n in shortcuts]
        added = [value for value in program.values if value.other == number]
        if len(main) != (number != program.final) or len(beside) + len(added) > 1:
            raise Unfused(f"Value {number} is read in another way than those of residual networks.")
        if any(program.convolutions[n].kernel != 1 for n in beside):
            raise Unfused("A shortcut with a kernel larger than 1x1 is not fused.")
        if any(program.convolutions[n].kernel == 1 and program.convolutions[n].stride > 1 for n in main):
            raise Unfused("A 1x1 convolution with a stride outside a shortcut is not fused.")
    final = program.values[program.final]
    if final.shortcut is None and final.other is None:
        raise Unfused("The last value of the network is no sum with a shortcut, so it is not fused.")
