"""The table in which the kernel `update` finds all tensors of a pack; see source/update.cu."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.fleet.kernels.program import Program
from prunecast.fleet.step import PackTrainer

COLUMNS = 16
STEP = 2048
"""Elements per block of the kernel `update`."""


@dataclass(frozen=True, kw_only=True)
class TrainedTensor:
    """A float parameter with its momentum and mask, which have the same memory layout."""

    parameter: Tensor
    momentum: Tensor
    mask: Tensor | None = None

    def addresses(self) -> list[int]:
        """Return the three addresses; 0 if there is no mask."""
        return [_address(self.parameter), _address(self.momentum), _address(self.mask)]


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """A parameter of a convolution or linear layer."""

    trained: TrainedTensor
    gradient: Tensor
    copy: Tensor | None = None
    """The copy in bfloat16."""
    clear: bool = True
    """Whether the kernel sets the gradient to zero afterwards."""

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.trained.parameter.numel()

    def numbers(self) -> list[int]:
        """Return the row."""
        addresses = [*self.trained.addresses(), _address(self.copy), _address(self.gradient)]
        return [0, self.count, int(self.clear), *addresses]


@dataclass(frozen=True, kw_only=True)
class NormRow:
    """A batch norm: scale, shift, running statistics, and the sums they are computed from."""

    scale: TrainedTensor
    shift: TrainedTensor
    running_mean: Tensor
    running_var: Tensor
    sums: Tensor
    """(4, channels): Σy, Σy², Σdz and Σdz·y."""
    values: int
    """The number of values summed in each channel."""
    eps: float
    momentum: float
    clear: bool = True
    """Whether the kernel sets the sums to zero afterwards."""

    @property
    def count(self) -> int:
        """The number of channels."""
        return self.scale.parameter.numel()

    def numbers(self) -> list[int]:
        """Return the row."""
        trained = [*self.scale.addresses(), *self.shift.addresses()]
        rest = [_address(each) for each in (self.running_mean, self.running_var, self.sums)]
        settings = [self.values, _bits(self.eps), _bits(self.momentum)]
        return [1, self.count, int(self.clear), *trained, *rest, *settings]


@dataclass(frozen=True, kw_only=True)
class PackTable:
    """The table that the kernels `update` and `still` read. It holds addresses, so `of` keeps the tensors alive."""

    rows: Tensor
    """(rows, 16), int64."""
    blocks: Tensor
    """(blocks, 2), int32: row and first element of every block."""
    step: int
    """Elements per block."""
    of: tuple[TensorRow | NormRow, ...]


def table_of(
    rows: Sequence[TensorRow | NormRow], *, device: torch.device | str, step: int = STEP
) -> PackTable:
    """Build the table on a device."""
    numbers = [row.numbers() for row in rows]
    padded = [row + [0] * (COLUMNS - len(row)) for row in numbers]
    blocks = [(at, begin) for at, row in enumerate(rows) for begin in range(0, row.count, step)]
    return PackTable(
        rows=torch.tensor(padded, dtype=torch.int64).to(device),
        blocks=torch.tensor(blocks, dtype=torch.int32).to(device),
        step=step,
        of=tuple(rows),
    )


def pack_table(
    trainer: PackTrainer, program: Program, sums: Mapping[str, Tensor], gradients: Mapping[str, Tensor]
) -> PackTable:
    """List all parameters of a pack: norms with their sums, everything else with its gradient."""
    names = list(trainer.pack.masks)
    momenta = dict(zip(names, trainer.optimizer_state["momentum"], strict=True))
    copies = dict(zip(names, trainer.trained, strict=True))
    parameters, buffers = trainer.pack.parameters(), dict(trainer.pack.module.named_buffers())

    def trained(name: str) -> TrainedTensor:
        return TrainedTensor(
            parameter=parameters[name], momentum=momenta[name], mask=trainer.pack.masks[name]
        )

    norms = {conv.norm for conv in program.convolutions}
    rows: list[TensorRow | NormRow] = [
        TensorRow(trained=trained(name), gradient=gradients[name], copy=copies[name])
        for name in names
        if name.rpartition(".")[0] not in norms
    ]
    rows += [
        NormRow(
            scale=trained(f"{conv.norm}.weight"),
            shift=trained(f"{conv.norm}.bias"),
            running_mean=buffers[f"{conv.norm}.running_mean"],
            running_var=buffers[f"{conv.norm}.running_var"],
            sums=sums[conv.norm],
            values=trainer.batch * conv.out_size**2,
            eps=conv.eps,
            momentum=conv.momentum,
        )
        for conv in program.convolutions
    ]
    return table_of(rows, device=trainer.cursor.device)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")
