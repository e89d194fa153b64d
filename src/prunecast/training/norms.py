"""Batch norms in place of torch's: synchronised over processes, and fast for few channels on a CPU."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from prunecast.errors import PrunecastError
from prunecast.training.parallel import ProcessGroup

KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""The batch norms that can be synchronised."""
NARROW = 16
"""torch's batch norm is slow on a CPU with 2 to 15 channels: AVX-512 computes 16 floats at once."""
LARGE = 2**16
"""Values of a batch from which `NarrowBatchNorm` is faster than torch's batch norm."""


def use_narrow_norms(model: nn.Module, device: torch.device) -> None:
    """Let the batch norms of few channels compute as `NarrowBatchNorm` if the network is on a CPU."""
    for module in model.modules():
        if (
            type(module) is nn.BatchNorm2d
            and device.type == "cpu"
            and 1 < module.num_features < NARROW
            and module.affine
            and module.track_running_stats
            and module.momentum is not None
        ):
            module.__class__ = NarrowBatchNorm


class NarrowBatchNorm(nn.BatchNorm2d):
    """nn.BatchNorm2d that treats a row of pixels as one pixel with many channels, which vectorises well.

    Results differ from those of nn.BatchNorm2d by rounding.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Normalise by the batch's statistics in training, by the running ones otherwise."""
        channels_last = images.is_contiguous(memory_format=torch.channels_last)
        if images.numel() < LARGE or not channels_last or images.dtype != self.weight.dtype:
            return super().forward(images)
        count, channels, height, width = images.shape
        rows = images.permute(0, 2, 3, 1).reshape(count * height, width * channels)
        normalised: Tensor
        if self.training:
            self.num_batches_tracked.add_(1)
            running = self.running_mean, self.running_var, self.momentum
            normalised = _Normalised.apply(rows, self.weight, self.bias, *running, self.eps)  # type: ignore[no-untyped-call]
        else:
            kept = self.running_mean, self.running_var, self.weight, self.bias
            mean, variance, weight, bias = (values.repeat(width) for values in kept)
            normalised = functional.batch_norm(rows, mean, variance, weight, bias, eps=self.eps)
        return normalised.view(count, height, width, channels).permute(0, 3, 1, 2)


class _Normalised(torch.autograd.Function):
    """Batch norm of rows that hold the channels several times, in training; it updates the running statistics."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
    ) -> Tensor:
        columns_mean, columns_variance = torch.batch_norm_update_stats(rows, None, None, 0.0)
        means = columns_mean.view(-1, len(weight))
        mean = means.mean(0)
        variance = columns_variance.view_as(means).mean(0) + (means - mean).square().mean(0)
        count, repeats = rows.numel() // len(weight), len(means)
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (count / (count - 1)), momentum)
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(rows, weight, mean, inverse)
        scale = weight * inverse
        return torch.addcmul((bias - mean * scale).repeat(repeats), rows, scale.repeat(repeats))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        """Return w·i·(g − Σg/n − (x − m)·i²·Σg(x − m)/n) for slopes g, and the gradients of weight and bias."""
        rows, weight, mean, inverse = ctx.saved_tensors
        channels, count = len(weight), rows.numel() // len(weight)
        repeats = rows.shape[1] // channels
        of_bias = slopes.sum(0).view(repeats, channels).sum(0)
        products = (slopes * rows).sum(0).view(repeats, channels).sum(0)
        of_weight = (products - mean * of_bias) * inverse
        scale = weight * inverse
        slope = -scale * inverse * of_weight / count
        shift = -scale * of_bias / count - slope * mean
        of_rows = torch.addcmul(shift.repeat(repeats), slopes, scale.repeat(repeats))
        of_rows.addcmul_(rows, slope.repeat(repeats))
        return of_rows, of_weight, of_bias, None, None, None, None


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
        values = images.to(self.running_mean.dtype)
        others = [dimension for dimension in range(images.dim()) if dimension != 1]
        count = self._group.total(values.new_tensor(values.numel() / values.shape[1]))
        mean = self._total(values.sum(others)) / count
        centred = values - _wide(mean, images)
        variance = self._total(centred.square().sum(others)) / count
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            new = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean, new)
            self.running_var.lerp_(variance * (count / (count - 1)), new)
        normalised = centred * _wide((variance + self.eps).rsqrt(), images)
        if self.affine:
            normalised = normalised * _wide(self.weight, images) + _wide(self.bias, images)
        return normalised.to(images.dtype)

    def _total(self, values: Tensor) -> Tensor:
        total: Tensor = _Total.apply(values, self._group)  # type: ignore[no-untyped-call]
        return total


class _Total(torch.autograd.Function):
    """The sum over a group. Every process uses the sum, so its gradient is summed over the group, too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return group.total(values.clone())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return ctx.group.total(slopes[0].clone()), None


def _wide(values: Tensor, images: Tensor) -> Tensor:
    """Reshape one value per channel so that it broadcasts over images."""
    return values.view(1, -1, *[1] * (images.dim() - 2))
