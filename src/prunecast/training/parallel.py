"""Training one network in several processes, each with the whole network and a part of every batch.

Sums over the processes equal what one process would compute from the whole batch, up to rounding. Most networks are
trained by a group of one process.
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
        """Return this process's consecutive rows of `count`; parts differ by one row at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def share(self, count: int) -> float:
        """Return the weight of this process's mean in the mean over all `count` rows."""
        return len(range(count)[self.part(count)]) / count

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the group, in place; every process gets bit for bit the same sum."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    @torch.no_grad()
    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Copy the values of the first process to all others, in place."""
        for tensor in tensors if self.size > 1 else ():
            staged = tensor.contiguous()
            distributed.broadcast(staged, 0)
            tensor.copy_(staged)


ALONE = ProcessGroup()
"""The group of one process, which trains whatever fits on one device."""


def distribute(model: nn.Module, group: ProcessGroup, device: torch.device) -> nn.Module:
    """Wrap the network in DistributedDataParallel, which averages gradients while backward still runs.

    `find_unused_parameters` allows networks that do not use all their parameters. It also keeps the buckets of the
    first step, so a continued run sums in the same order. It costs little for a network that needs several devices.
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
    """Return the gradients of the whole batch's mean loss, given the mean loss of this process's part.

    They are Σ_r (n_r / n) ∇ℓ_r for parts of n_r of n rows. DistributedDataParallel takes the mean over processes,
    hence the factor of the group's size.
    """
    if group.size == 1:
        return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    for parameter in parameters:
        parameter.grad = None
    (loss * (group.size * group.share(batch))).backward()  # type: ignore[no-untyped-call]
    return [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
