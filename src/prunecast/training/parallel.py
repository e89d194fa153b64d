"""A group: the processes that share every batch of one training; most trainings have a group of one.

Each member holds the whole network and a part of every batch. What is summed over the members is then what one
process would have computed from the whole batch, up to rounding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """This process's place among the processes of torch's default group."""

    rank: int = 0
    """The number of this process; 0 is the one that prunes, records and writes."""
    size: int = 1

    def part(self, count: int) -> slice:
        """This member's consecutive rows of `count`; parts differ by one row at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def share(self, count: int) -> float:
        """The weight of this member's mean over its part in the mean over all `count` rows."""
        return len(range(count)[self.part(count)]) / count

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the group, in place; every member gets bit for bit the same sum."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def gathered(self, values: Tensor) -> Tensor:
        """Every member's tensor, stacked in the order of ranks."""
        parts = [torch.empty_like(values) for _ in range(self.size)]
        distributed.all_gather(parts, values)
        return torch.stack(parts)

    @torch.no_grad()
    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Give all members the first one's values, in place."""
        for tensor in tensors if self.size > 1 else ():
            staged = tensor.contiguous()
            distributed.broadcast(staged, 0)
            tensor.copy_(staged)


ALONE = ProcessGroup()
"""The group of one that trains whatever fits on one device."""


def together(model: nn.Module, group: ProcessGroup, device: torch.device) -> nn.Module:
    """The network under DistributedDataParallel, which averages gradients while backward still runs.

    Looking for unused parameters costs little beside a network that needs several devices. It serves networks
    that do not use all of theirs, and it keeps the buckets as they are from the first step: sums then run in
    the same order after an interruption.
    """
    if group.size == 1:
        return model
    return nn.parallel.DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        find_unused_parameters=True,
        gradient_as_bucket_view=True,
    )


def gradients_of(
    loss: Tensor, parameters: Sequence[Tensor], group: ProcessGroup, batch: int
) -> Sequence[Tensor]:
    """Gradients of the mean loss of the whole batch, from the mean loss of this member's part.

    Σ_r (n_r / n) ∇ℓ_r for parts of n_r of n rows. DistributedDataParallel takes the mean over members, hence
    the factor of the group's size.
    """
    if group.size == 1:
        return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    for parameter in parameters:
        parameter.grad = None
    (loss * (group.size * group.share(batch))).backward()  # type: ignore[no-untyped-call]
    return [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
