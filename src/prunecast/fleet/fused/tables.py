"""The table by which one kernel finds all tensors of a pack: see source/update.cu."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

COLUMNS = 16
STEP = 2048
"""Elements a block of the kernel `update` does."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A parameter, float, with tensors that lie in memory as it does."""

    parameter: Tensor
    momentum: Tensor
    mask: Tensor | None = None

    def addresses(self) -> list[int]:
        """The three addresses; 0 where there is no mask."""
        return [_address(self.parameter), _address(self.momentum), _address(self.mask)]


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """A parameter of a convolution or product."""

    trained: Trained
    gradient: Tensor
    copy: Tensor | None = None
    """In bfloat16."""
    clear: bool = True
    """Whether the gradient is to be zero afterwards."""

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.trained.parameter.numel()

    def numbers(self) -> list[int]:
        """The row."""
        addresses = [*self.trained.addresses(), _address(self.copy), _address(self.gradient)]
        return [0, self.count, int(self.clear), *addresses]


@dataclass(frozen=True, kw_only=True)
class NormRow:
    """A batch norm: scale, shift, running statistics, and the sums that they are made from."""

    scale: Trained
    shift: Trained
    running_mean: Tensor
    running_var: Tensor
    sums: Tensor
    """(4, channels): Σy, Σy², Σdz and Σdz·y."""
    values: int
    """The number of values that were added up in each channel."""
    eps: float
    momentum: float
    clear: bool = True
    """Whether the sums are to be zero afterwards."""

    @property
    def count(self) -> int:
        """The number of channels."""
        return self.scale.parameter.numel()

    def numbers(self) -> list[int]:
        """The row."""
        trained = [*self.scale.addresses(), *self.shift.addresses()]
        rest = [_address(each) for each in (self.running_mean, self.running_var, self.sums)]
        settings = [self.values, _bits(self.eps), _bits(self.momentum)]
        return [1, self.count, int(self.clear), *trained, *rest, *settings]


@dataclass(frozen=True, kw_only=True)
class Table:
    """What the kernels `update` and `still` read; it holds addresses, so `of` keeps the tensors alive."""

    rows: Tensor
    """(rows, 16), int64."""
    blocks: Tensor
    """(blocks, 2), int32: row and first element of every block."""
    step: int
    """Elements a block."""
    of: tuple[TensorRow | NormRow, ...]


def table_of(rows: Sequence[TensorRow | NormRow], *, device: torch.device | str, step: int = STEP) -> Table:
    """Lay out the table on a device."""
    numbers = [row.numbers() for row in rows]
    padded = [own + [0] * (COLUMNS - len(own)) for own in numbers]
    blocks = [(at, begin) for at, row in enumerate(rows) for begin in range(0, row.count, step)]
    return Table(
        rows=torch.tensor(padded, dtype=torch.int64).to(device),
        blocks=torch.tensor(blocks, dtype=torch.int32).to(device),
        step=step,
        of=tuple(rows),
    )


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")
