"""Connectivity: which kept weights lie on a path of kept weights from the image to a logit.

A network of zeros and ones runs in place of the real one. Convolutions and linear layers use their masks as weights.
Batch norms and activations pass values through. Poolings take means, which are positive where any value is, and whose
gradient reaches all values. Layer and group norms spread a value over everything that they normalise together. Every
result is set to zero or one. An output is then one exactly where a path reaches it from the image, and a gradient is
one exactly where a path leads on to a logit. A weight with both, at any position of the image, is alive. Padding is
zero. A bias, also that of a batch norm, makes a dead channel constant; a constant is not a path.

Only tracing takes the lock MODULE_CALLS: running the traced graph calls no module.
"""

import contextlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from prunecast import families


@dataclass(frozen=True, kw_only=True)
class Connectivity:
    """The paths that are left in a pruned network."""

    connected: bool | None
    """Whether any path is left; None if the network has an unknown operation."""
    alive: int | None
    """Kept weights with a path through them; None if the network has an unknown operation."""
    note: str = ""
    """The unknown operation, as a sentence."""


def connectivity(model: nn.Module, masks: Mapping[str, Tensor], image_shape: tuple[int, ...]) -> Connectivity:
    """Count the weights of a pruned network that are on a path."""
    numbers = {name: mask.double().requires_grad_() for name, mask in masks.items()}
    parameters = dict(model.named_parameters())
    try:
        paths = Paths(traced(model), {id(parameters[name]): number for name, number in numbers.items()})
        logits = paths.run(torch.ones(1, *image_shape, dtype=torch.float64))
    except UnknownOperationError as unknown:
        why = str(unknown).partition("\n")[0]
        return Connectivity(
            connected=None, alive=None, note=f"{why}, so it is not known which weights are on a path"
        )
    flows = torch.autograd.grad(logits.sum(), list(numbers.values()), allow_unused=True)
    alive = sum(
        int(((flow > 0) & (mask.detach() > 0)).sum())
        for flow, mask in zip(flows, numbers.values(), strict=True)
        if flow is not None
    )
    return Connectivity(connected=bool((logits > 0).any()), alive=alive)


_GRAPHS: WeakKeyDictionary[nn.Module, fx.GraphModule | str] = WeakKeyDictionary()
"""The graph of a network, or a sentence on why there is none."""


def traced(model: nn.Module) -> fx.GraphModule:
    """The model as a graph of torch's own modules and functions, traced on the first call."""

    def trace() -> fx.GraphModule:
        try:
            return fx.symbolic_trace(model)
        except Exception as failure:
            place = families.place_of(model, failure) or "the model"
            raise UnknownOperationError(f"{place} {families.UNFOLLOWED}") from failure

    return families.found_once(_GRAPHS, model, trace, UnknownOperationError)


def trace_ahead(model: nn.Module) -> None:
    """Trace a model ahead of time, because no other thread may call a module while torch.fx traces."""
    with contextlib.suppress(UnknownOperationError):
        traced(model)


CONVOLUTIONS: dict[type[nn.Module], Any] = {
    nn.Conv1d: functional.conv1d,
    nn.Conv2d: functional.conv2d,
    nn.Conv3d: functional.conv3d,
}
TRANSPOSED: dict[type[nn.Module], Any] = {
    nn.ConvTranspose1d: functional.conv_transpose1d,
    nn.ConvTranspose2d: functional.conv_transpose2d,
    nn.ConvTranspose3d: functional.conv_transpose3d,
}
ENLARGING = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "area")
"""Modes of interpolation without negative weights."""
PASSING = (
    *(nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.Identity),
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.GELU, nn.SiLU),
    *(nn.Tanh, nn.Hardtanh, nn.Hardswish),
)
PASSING_NAMES = {
    *("relu", "relu_", "relu6", "leaky_relu", "prelu", "elu", "gelu", "silu", "tanh", "hardtanh"),
    *("hardswish", "dropout", "dropout2d", "contiguous", "clone"),
}
SUMS = {operator.add, operator.iadd, torch.add, "add", "add_"}
JOINS = {torch.cat, torch.concat, torch.concatenate}
RESHAPES = {
    *("flatten", "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "mean", "sum"),
    *("size", "dim", "getattr", "getitem"),
}
POOLS = {"max_pool2d", "avg_pool2d"}
ADAPTIVE_POOLS = {"adaptive_avg_pool2d", "adaptive_max_pool2d"}


class UnknownOperationError(Exception):
    """An operation through which paths cannot be followed."""


class _ZeroOne(torch.autograd.Function):
    """Set positive values to one and others to zero; the same for gradients."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        return (values > 0).to(values)

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return (gradient > 0).to(gradient)


class Paths(fx.Interpreter):
    """Runs a traced model on zeros and ones, with masks (by the weights' ids) in place of the weights."""

    def __init__(self, model: fx.GraphModule, masks: Mapping[int, Tensor]) -> None:
        """Weights without a mask are never pruned, so all of them count as kept."""
        super().__init__(model)
        self._masks = masks

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Follow the paths through a module of torch."""
        module, values = self.fetch_attr(target), args[0]
        if isinstance(module, PASSING):
            return values
        if type(module) in CONVOLUTIONS and module.padding_mode == "zeros":
            geometry = (module.stride, module.padding, module.dilation, module.groups)
            return _cut(CONVOLUTIONS[type(module)](values, self._mask(module), None, *geometry))
        if type(module) in TRANSPOSED:
            spacing = (module.stride, module.padding, module.output_padding, module.groups, module.dilation)
            return _cut(TRANSPOSED[type(module)](values, self._mask(module), None, *spacing))
        if isinstance(module, nn.Linear):
            return _cut(functional.linear(values, self._mask(module)))
        if isinstance(module, nn.GroupNorm):
            return _spread(values, module.num_groups)
        if isinstance(module, nn.LayerNorm):
            return _cut(
                values.mean(tuple(range(-len(module.normalized_shape), 0)), keepdim=True).expand_as(values)
            )
        if isinstance(module, nn.Upsample) and module.mode in ENLARGING:
            return _cut(
                functional.interpolate(
                    values, module.size, module.scale_factor, module.mode, module.align_corners
                )
            )
        if isinstance(module, nn.MaxPool2d | nn.AvgPool2d) and getattr(module, "dilation", 1) == 1:
            geometry = (module.kernel_size, module.stride, module.padding, module.ceil_mode)
            return functional.avg_pool2d(values, *geometry)
        if isinstance(module, nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d):
            return functional.adaptive_avg_pool2d(values, module.output_size)
        if isinstance(module, nn.Flatten):
            return torch.flatten(values, module.start_dim, module.end_dim)
        raise UnknownOperationError(f"module {target!r} ({type(module).__name__}) is not understood")

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Follow the paths through a function."""
        if target in SUMS:
            return self._sum(target, args)
        name = getattr(target, "__name__", str(target))
        if target in JOINS or name in RESHAPES or not _any_tensor(args):
            return target(*args, **kwargs)
        if name in PASSING_NAMES:
            return args[0]
        if target is functional.interpolate and (len(args) < 4 or args[3] in ENLARGING):
            mode = kwargs.get("mode", "nearest")
            if mode in ENLARGING and not kwargs.get("antialias"):
                return _cut(target(*args, **kwargs))
        if name in ADAPTIVE_POOLS and len(args) == 2:
            return functional.adaptive_avg_pool2d(*args)
        if target in (functional.max_pool2d, functional.avg_pool2d) or name in POOLS:
            return self._pooled(name, args, kwargs)
        raise UnknownOperationError(f"function {name!r} is not understood")

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Follow the paths through a method of a tensor."""
        if target in SUMS:
            return self._sum(target, args)
        if target in PASSING_NAMES:
            return args[0]
        if target in RESHAPES:
            return super().call_method(target, args, kwargs)
        raise UnknownOperationError(f"method {target!r} is not understood")

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Refuse tensors that the model uses outside of a module: they may or may not cut a path."""
        raise UnknownOperationError(f"the model's own tensor {target!r} is not understood")

    def _mask(self, module: Any) -> Tensor:
        every = torch.ones(module.weight.shape, dtype=torch.float64)
        return self._masks.get(id(module.weight), every)

    def _sum(self, target: Any, args: tuple[Any, ...]) -> Any:
        if _any_tensor(args) and not all(isinstance(value, Tensor) for value in args[:2]):
            raise UnknownOperationError(f"{target!r} with a constant is not understood")
        return args[0] + args[1]

    def _pooled(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        known = {"kernel_size", "stride", "padding", "ceil_mode", "return_indices", "dilation"}
        if len(args) > 4 or not set(kwargs) <= known or kwargs.get("dilation", 1) != 1:
            raise UnknownOperationError(f"pooling {name!r} with these options is not understood")
        given = dict(zip(("kernel_size", "stride", "padding"), args[1:], strict=False)) | kwargs
        stride = given.get("stride") or given["kernel_size"]
        padding, ceil_mode = given.get("padding", 0), given.get("ceil_mode", False)
        return functional.avg_pool2d(args[0], given["kernel_size"], stride, padding, ceil_mode)


def _cut(values: Tensor) -> Tensor:
    cut: Tensor = _ZeroOne.apply(values)  # type: ignore[no-untyped-call]
    return cut


def _spread(values: Tensor, groups: int) -> Tensor:
    """One in a whole group of channels if any value of it is one: the group's mean and deviation depend on it."""
    mean = values.reshape(len(values), groups, -1).mean(2, keepdim=True)
    channels = mean.repeat_interleave(values.shape[1] // groups, 1).flatten(1)
    return _cut(channels.reshape(*channels.shape, *[1] * (values.dim() - 2)).expand_as(values))


def _any_tensor(values: tuple[Any, ...]) -> bool:
    flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    return any(isinstance(item, Tensor) for item in flat)
