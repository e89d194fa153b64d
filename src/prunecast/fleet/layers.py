"""How each type of layer with weights is packed: convolution, linear, batch norm."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import nn
from torch.nn import functional

from prunecast.fleet.layout import Blocks, Layout, Unpackable, side_by_side, vector_blocks, weight_blocks

M = TypeVar("M", bound=nn.Module)
PER_CHANNEL_MODULES: frozenset[type[nn.Module]] = frozenset(
    {
        *(nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Hardswish, nn.Hardtanh),
        *(nn.Sigmoid, nn.Tanh, nn.Softplus),
        *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
    }
)
"""Modules without weights that act on each channel separately."""


@dataclass(frozen=True, kw_only=True)
class PackedLayer:
    """A packed layer on the meta device, the layout of its outputs, and the blocks of its tensors."""

    module: nn.Module
    outputs: Layout
    blocks: dict[str, Blocks]


class Rule(Protocol):
    """Packs the members' versions of one layer, given the layout of its inputs."""

    def __call__(
        self, name: str, members: Sequence[Any], inputs: Layout, *, multiple: int, smallest_group: int | None
    ) -> PackedLayer:
        """Return the packed layer."""


@dataclass(frozen=True, kw_only=True)
class LayerPacker:
    """How one type of layer is packed, and the rank of its inputs."""

    pack: Rule
    rank: int


def pack_convolution(
    name: str, members: Sequence[nn.Conv2d], inputs: Layout, *, multiple: int, smallest_group: int | None
) -> PackedLayer:
    """One convolution with a block-diagonal weight; a member's own groups become blocks within its block."""
    first = _alike(name, members, ("kernel_size", "stride", "padding", "dilation", "padding_mode"))
    _expect(name, [m.in_channels for m in members], inputs.counts())
    outputs = side_by_side([m.out_channels for m in members], multiple=multiple)
    # Convolutions of one channel without groups are not depthwise: fused kernels treat them like all others.
    depthwise = outputs == inputs and any(m.groups > 1 for m in members)
    depthwise = depthwise and all(m.groups == m.in_channels == m.out_channels for m in members)
    # cuDNN is slow at other grouped convolutions: it loops over the groups.
    square = inputs.size == outputs.size and set(first.stride) == {1}
    if not square and all(m.groups == 1 for m in members):
        smallest_group = None
    weight = weight_blocks(
        inputs,
        outputs,
        kernel=first.kernel_size,
        member_groups=[m.groups for m in members],
        smallest_group=1 if depthwise else smallest_group,
        multiple=multiple,
    )
    module = (DepthwiseConvolution if depthwise else nn.Conv2d)(
        inputs.size,
        outputs.size,
        cast("tuple[int, int]", first.kernel_size),
        stride=cast("tuple[int, int]", first.stride),
        padding=cast("tuple[int, int]", first.padding),
        dilation=cast("tuple[int, int]", first.dilation),
        groups=weight.groups,
        bias=first.bias is not None,
        padding_mode=first.padding_mode,
        device="meta",
    )
    return PackedLayer(module=module, outputs=outputs, blocks=_with_bias(module, weight, outputs))


class DepthwiseConvolution(nn.Conv2d):
    """A depthwise convolution.

    When compiled, it is a sum of shifted images, which torch.compile fuses with other operations; cuDNN's kernels are
    slow, the backward ones most of all.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        if not torch.compiler.is_compiling() or isinstance(self.padding, str) or self.padding_mode != "zeros":
            return super().forward(input)
        tall, wide = self.padding[0], self.padding[1]
        padded = functional.pad(input, (wide, wide, tall, tall))
        if torch.is_autocast_enabled(input.device.type):
            padded = padded.to(torch.get_autocast_dtype(input.device.type))
        reach = [
            dilation * (kernel - 1) for dilation, kernel in zip(self.dilation, self.kernel_size, strict=True)
        ]
        ends = [size - far for size, far in zip(padded.shape[2:], reach, strict=True)]
        down, across = (range(0, far + 1, step) for far, step in zip(reach, self.dilation, strict=True))
        weight = self.weight.to(padded.dtype).view(-1, len(down) * len(across), 1, 1)
        shifts = [(y, x) for y in down for x in across]
        windows = (
            padded[:, :, y : y + ends[0] : self.stride[0], x : x + ends[1] : self.stride[1]]
            for y, x in shifts
        )
        products = [_upcast(window) * _upcast(weight[:, place]) for place, window in enumerate(windows)]
        total = functools.reduce(torch.add, products)
        if self.bias is not None:
            total = total + _upcast(self.bias).view(-1, 1, 1)
        return total.to(padded.dtype)


def _upcast(values: torch.Tensor) -> torch.Tensor:
    return values.float() if values.dtype == torch.bfloat16 else values


def pack_linear(
    name: str, members: Sequence[nn.Linear], inputs: Layout, *, multiple: int, smallest_group: int | None
) -> PackedLayer:
    """One matrix with a block per member; it is not padded, so that class scores are a view."""
    _alike(name, members, ())
    _expect(name, [m.in_features for m in members], inputs.counts())
    outputs = side_by_side([m.out_features for m in members])
    weight = weight_blocks(inputs, outputs)
    module = nn.Linear(inputs.size, outputs.size, bias=members[0].bias is not None, device="meta")
    return PackedLayer(module=module, outputs=outputs, blocks=_with_bias(module, weight, outputs))


def pack_normalisation(
    name: str,
    members: Sequence[nn.BatchNorm1d | nn.BatchNorm2d],
    inputs: Layout,
    *,
    multiple: int,
    smallest_group: int | None,
) -> PackedLayer:
    """One batch norm over all channels, without `num_batches_tracked`, which differs between members."""
    first = _alike(name, members, ("eps", "momentum", "affine", "track_running_stats"))
    _expect(name, [m.num_features for m in members], inputs.counts())
    if first.momentum is None:
        raise Unpackable(
            f"Module {name!r} averages over all batches it has seen, which differ between members."
        )
    module = type(first)(
        inputs.size,
        eps=first.eps,
        momentum=first.momentum,
        affine=first.affine,
        track_running_stats=first.track_running_stats,
        device="meta",
    )
    module.num_batches_tracked = None
    names = [key for key, tensor in module.state_dict().items() if tensor.ndim]
    return PackedLayer(module=module, outputs=inputs, blocks=dict.fromkeys(names, vector_blocks(inputs)))


LAYERS: Mapping[type[nn.Module], LayerPacker] = MappingProxyType(
    {
        nn.Conv2d: LayerPacker(pack=pack_convolution, rank=4),
        nn.Linear: LayerPacker(pack=pack_linear, rank=2),
        nn.BatchNorm2d: LayerPacker(pack=pack_normalisation, rank=4),
        nn.BatchNorm1d: LayerPacker(pack=pack_normalisation, rank=2),
    }
)


def _with_bias(module: nn.Conv2d | nn.Linear, weight: Blocks, outputs: Layout) -> dict[str, Blocks]:
    return {"weight": weight} | ({} if module.bias is None else {"bias": vector_blocks(outputs)})


def _alike(name: str, members: Sequence[M], settings: Sequence[str]) -> M:
    """The first member; refuse members that differ in these settings or in having a bias."""
    first = members[0]
    for setting in settings:
        if any(getattr(member, setting) != getattr(first, setting) for member in members):
            raise Unpackable(f"Module {name!r} has a different {setting} in the networks of a pack.")
    has_bias = {isinstance(getattr(member, "bias", None), torch.Tensor) for member in members}
    if len(has_bias) > 1:
        raise Unpackable(f"Module {name!r} has a bias in some networks of a pack only.")
    return first


def _expect(name: str, wanted: Sequence[int], counts: Sequence[int]) -> None:
    if tuple(wanted) != tuple(counts):
        raise Unpackable(
            f"Module {name!r} takes {tuple(wanted)} channels where its members have {tuple(counts)}."
        )
