"""Training one network in several processes, each with the whole network and a part of every batch.

Sums over the processes equal what one process would compute from the whole batch, up to rounding. Batch norms use
the statistics of the whole batch. Most networks are trained by a group of one process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunecast.errors import PrunecastError

KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""The batch norms that can be synchronised."""


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

    def gathered(self, values: Tensor) -> Tensor:
        """Return the tensors of all processes, stacked in the order of ranks."""
        parts = [torch.empty_like(values) for _ in range(self.size)]
        distributed.all_gather(parts, values)
        return torch.stack(parts)

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

    Looking for unused parameters costs little for a network that needs several devices. It admits networks that
    do not use all of their parameters, and it keeps the buckets as they are from the first step, so sums run in
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


def synchronise_norms(model: nn.Module, group: ProcessGroup, device: torch.device) -> None:
    """Replace the batch norms of a network by synchronised ones with the same tensors and names.

    torch has such a batch norm for GPUs only; `SharedBatchNorm` is the one for CPU.
    """
    if group.size == 1:
        return
    new: dict[nn.Module, nn.Module] = {}
    for path, module in list(model.named_modules()):
        for name, child in module._modules.items():
            if isinstance(child, _BatchNorm):
                if child not in new:
                    new[child] = _synchronised(child, f"{path}.{name}".lstrip("."), group, device)
                module._modules[name] = new[child]


def _synchronised(norm: _BatchNorm, name: str, group: ProcessGroup, device: torch.device) -> nn.Module:
    """Return the synchronised version of a batch norm, or raise an error that names the layer."""
    if type(norm) not in KNOWN or norm.running_mean is None:
        what = type(norm).__name__ if type(norm) not in KNOWN else "batch norm without running statistics"
        raise PrunecastError(
            f"The layer {name} is a {what}, which cannot be synchronised over devices; "
            "use torch's own batch norm, or remove devices from the plan."
        )
    options = (norm.num_features, norm.eps, norm.momentum, norm.affine)
    made = nn.SyncBatchNorm(*options) if device.type == "cuda" else SharedBatchNorm(*options, group=group)
    made.weight, made.bias = norm.weight, norm.bias
    made.running_mean, made.running_var = norm.running_mean, norm.running_var
    made.num_batches_tracked = norm.num_batches_tracked
    return made.train(norm.training)


class SharedBatchNorm(_BatchNorm):
    """Batch norm over the parts of a batch that the processes of a group hold."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, *, group: ProcessGroup
    ) -> None:
        super().__init__(num_features, eps, momentum, affine)
        self._group = group

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        """Accept any input with channels in its second dimension."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalise by the whole batch's statistics in training, by the running ones otherwise."""
        if not self.training:
            return super().forward(images)
        mean, variance, count = _statistics(images.detach().to(self.running_mean.dtype), self._group)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            new = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean, new)
            self.running_var.lerp_(variance * (count / (count - 1)), new)
        scale = (variance + self.eps).rsqrt()
        normalised: Tensor = _Normalise.apply(images, self.weight, self.bias, mean, scale, count, self._group)  # type: ignore[no-untyped-call]
        return normalised


def _statistics(images: Tensor, group: ProcessGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance of each channel over the whole batch, and the number of values per channel.

    The squared deviations from the common mean are Σ_r (M_r + n_r (μ_r − μ)²) for processes with n_r values of
    mean μ_r and squared deviations M_r; no difference of large sums is taken.
    """
    dimensions = _but_channels(images)
    variance, mean = torch.var_mean(images, dimensions, correction=0)
    count = images.numel() / images.shape[1]
    moments = torch.stack([mean, variance, torch.full_like(mean, count)])
    means, variances, counts = group.gathered(moments).unbind(1)
    total = counts.sum(0)
    common = (counts * means).sum(0) / total
    deviations = (counts * (variances + (means - common) ** 2)).sum(0)
    return common, deviations / total, total[0]


class _Normalise(torch.autograd.Function):
    """y = γ (x − μ) s + β with μ and s = 1 / √(σ² + ε) of the whole batch, and the gradient through them."""

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        scale: Tensor,
        count: Tensor,
        group: ProcessGroup,
    ) -> Tensor:
        ctx.save_for_backward(images, weight, mean, scale, count)
        ctx.group = group
        slope = scale if weight is None else scale * weight
        shift = -mean * slope if bias is None else bias - mean * slope
        return (images * _wide(slope, images) + _wide(shift, images)).to(images.dtype)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return γ s (g − Σg / n − z Σgz / n) with z = (x − μ) s and sums over the whole batch.

        The gradients of γ and β are those of this process's part; DistributedDataParallel sums them.
        """
        images, weight, mean, scale, count = ctx.saved_tensors
        dimensions = _but_channels(images)
        slope = slopes[0].to(mean.dtype)
        z = (images - _wide(mean, images)) * _wide(scale, images)
        sums = torch.stack([slope.sum(dimensions), (slope * z).sum(dimensions)])
        own_bias, own_weight = (None, None) if weight is None else sums.clone().unbind(0)
        mean_slope, mean_product = (ctx.group.total(sums) / count).unbind(0)
        factor = scale if weight is None else scale * weight
        inner = slope - _wide(mean_slope, images) - z * _wide(mean_product, images)
        return (inner * _wide(factor, images)).to(images.dtype), own_weight, own_bias, None, None, None, None


def _but_channels(images: Tensor) -> list[int]:
    return [dimension for dimension in range(images.dim()) if dimension != 1]


def _wide(values: Tensor, images: Tensor) -> Tensor:
    """Reshape one value per channel so that it broadcasts over images."""
    return values.view(1, -1, *[1] * (images.dim() - 2))
