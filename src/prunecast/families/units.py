"""Units: the channels, hidden units and attention heads that can be taken out of a network, with all their slices.

A unit consists of the rows that compute it, of what norms hold for it, and of the columns that read it. Without them
the network computes what it computed with these rows and columns set to zero.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by
from torch.nn.modules.batchnorm import _BatchNorm

from prunecast.families.network import Attention, Network
from prunecast.families.trial import multiply_adds

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class KeptWhole:
    """A layer whose outputs are never removed, and the operation that is the reason."""

    layer: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a network costs, whether stored or run."""

    parameters: int
    bytes: int
    """Of all parameters and buffers that its file holds."""
    multiply_adds: int | None
    """Per image, without norms and sums; None where it cannot be counted."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A multiplication: the elements of a tensor, or the channels with these numbers, times so many positions."""

    tensor: str | None = None
    channels: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    times: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """The removable units of one network; `kept` has a flag for each that says whether it is still there."""

    groups: Integers
    """The group of every unit. Units of a group have slices in the same tensors; groups count from 0."""
    names: tuple[str, ...]
    """By group, the layer that computes its units, the first of several."""
    owners: Mapping[str, Mapping[int, Integers]]
    """By tensor and axis, the unit that each position belongs to; -1 where it is never removed."""
    kept_whole: tuple[KeptWhole, ...]
    _shapes: Mapping[str, tuple[int, ...]]
    _bytes: Mapping[str, int]
    """Bytes of an element."""
    _parameters: frozenset[str]
    _products: tuple[Product, ...]
    _heads: Mapping[str, Integers]
    _multiply_adds: int
    """Of the whole network."""

    def __len__(self) -> int:
        return len(self.groups)

    def everything(self) -> Flags:
        """Flags that keep every unit."""
        return np.ones(len(self), dtype=bool)

    def counts(self, kept: Flags) -> dict[str, int]:
        """By the layer that computes them, how many units of each group are left."""
        left = np.bincount(self.groups[kept], minlength=len(self.names))
        return dict(zip(self.names, left.tolist(), strict=True))

    def first(self, counts: Mapping[str, int]) -> Flags:
        """Flags that keep the first units of each group: a network of the same shape as any with these counts."""
        kept = np.zeros(len(self), dtype=bool)
        for group, name in enumerate(self.names):
            kept[np.flatnonzero(self.groups == group)[: counts.get(name, 0)]] = True
        return kept

    def masks(self, kept: Flags, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Masks of these tensors, false where a removed unit has a row or a column."""
        masks = {name: torch.ones(tensor.shape, dtype=torch.bool) for name, tensor in like.items()}
        for name, mask in masks.items():
            for axis, places in self._positions(name, kept).items():
                mask &= torch.from_numpy(places).view([-1 if k == axis else 1 for k in range(mask.dim())])
        return masks

    def kept(self, masks: Mapping[str, Tensor]) -> Flags:
        """The units of which some weight is left."""
        kept = np.zeros(len(self), dtype=bool)
        for name, mask in masks.items():
            for axis, owners in self.owners.get(name, {}).items():
                left = mask.movedim(axis, 0).reshape(mask.shape[axis], -1).any(1).numpy()
                kept[owners[(owners >= 0) & left]] = True
        return kept

    def means(self, values: Mapping[str, Tensor], kept: Flags) -> NDArray[np.float64]:
        """By unit, the mean of its elements in these tensors that no removed unit shares; NaN where it has none."""
        total, count = np.zeros(len(self)), np.zeros(len(self))
        for name, tensor in values.items():
            positions = self._positions(name, kept)
            left = tensor.detach().double()
            for axis, places in positions.items():
                left = left.index_select(axis, torch.from_numpy(np.flatnonzero(places)))
            for axis, places in positions.items():
                owners = self.owners[name][axis][places]
                sums = left.movedim(axis, 0).reshape(left.shape[axis], -1).sum(1).numpy()
                own = owners >= 0
                np.add.at(total, owners[own], sums[own])
                np.add.at(count, owners[own], left.numel() // max(1, left.shape[axis]))
        with np.errstate(invalid="ignore"):
            return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def sizes(self, kept: Flags) -> Sizes:
        """The sizes of the network without the removed units."""
        left = self._counts(kept)
        return Sizes(
            parameters=sum(count for name, count in left.items() if name in self._parameters),
            bytes=sum(count * self._bytes[name] for name, count in left.items()),
            multiply_adds=self._known_products(left, kept) + self._other_products,
        )

    def _counts(self, kept: Flags) -> dict[str, int]:
        return {name: self._count(name, kept) for name in self._shapes}

    def _known_products(self, left: Mapping[str, int], kept: Flags) -> int:
        return sum(
            own.times * (left[own.tensor] if own.tensor else int(_present(own.channels, kept).sum()))
            for own in self._products
        )

    @cached_property
    def _other_products(self) -> int:
        """Multiply-adds that do not depend on the units, as far as is known."""
        whole = self.everything()
        return max(0, self._multiply_adds - self._known_products(self._counts(whole), whole))

    def weights(self, names: Iterable[str], kept: Flags) -> int:
        """The elements that these tensors have without the removed units."""
        return sum(self._count(name, kept) for name in names)

    def slice_tensor(self, name: str, tensor: Tensor, kept: Flags) -> Tensor:
        """One tensor of the network, or one of its shape, without the removed units."""
        for axis, places in self._positions(name, kept).items():
            tensor = tensor.index_select(axis, torch.from_numpy(np.flatnonzero(places)).to(tensor.device))
        return tensor

    def restore_tensor(self, name: str, small: Tensor, full: Tensor, kept: Flags) -> Tensor:
        """A copy of `full` with what `small` has of it: the opposite of `slice_tensor`."""
        positions = [torch.arange(size) for size in full.shape]
        for axis, places in self._positions(name, kept).items():
            positions[axis] = torch.from_numpy(np.flatnonzero(places))
        if not positions:
            return small.clone()
        whole = full.clone()
        whole[torch.meshgrid(*positions, indexing="ij")] = small
        return whole

    def sliced(self, model: nn.Module, kept: Flags) -> nn.Module:
        """A smaller copy of the network without the removed units: plain dense layers."""
        small = copy.deepcopy(model)
        for name in self.owners:
            path, _, key = name.rpartition(".")
            module = small.get_submodule(path)
            old = getattr(module, key)
            new = self.slice_tensor(name, old.detach(), kept).clone()
            if isinstance(old, nn.Parameter):
                setattr(module, key, nn.Parameter(new, requires_grad=old.requires_grad))
            else:
                setattr(module, key, new)
        for path in dict.fromkeys(name.rpartition(".")[0] for name in self.owners):
            _correct_sizes(small.get_submodule(path))
        for path, heads in self._heads.items():
            _set_heads(small.get_submodule(path), int(_present(heads, kept).sum()))
        return small

    def _positions(self, name: str, kept: Flags) -> dict[int, Flags]:
        """By axis, which positions of a tensor are left."""
        return {axis: _present(owners, kept) for axis, owners in self.owners.get(name, {}).items()}

    def _count(self, name: str, kept: Flags) -> int:
        sizes = list(self._shapes[name])
        for axis, places in self._positions(name, kept).items():
            sizes[axis] = int(places.sum())
        return prod(sizes)


def _present(owners: Integers, kept: Flags) -> Flags:
    return np.append(kept, True)[owners]  # -1 is the last


def _correct_sizes(module: nn.Module) -> None:
    """Make the numbers of channels in a module's attributes those of its tensors."""
    own: Any = module
    if isinstance(own, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        own.in_channels, own.out_channels = own.weight.shape[:2]
    elif isinstance(own, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        if own.groups > 1:  # depthwise
            own.groups = own.in_channels = own.weight.shape[0] // (own.out_channels // own.groups)
        else:
            own.in_channels = own.weight.shape[1]
        own.out_channels = own.weight.shape[0]
    elif isinstance(own, nn.Linear):
        own.out_features, own.in_features = own.weight.shape
    elif isinstance(own, _BatchNorm):
        own.num_features = len(own.running_mean if own.weight is None else own.weight)
    elif isinstance(own, nn.PReLU):
        own.num_parameters = len(own.weight)


def _set_heads(module: nn.Module, heads: int) -> None:
    """Make attention expect this many heads of the same size."""
    if isinstance(module, Attention):
        module.heads = heads
        return
    attention = cast("nn.MultiheadAttention", module)
    if heads < attention.num_heads:
        attention.num_heads = heads
        attention._qkv_same_embed_dim = (
            False  # torch's fused encoder layer knows heads of the usual size alone
        )
        attention.__class__ = SlicedAttention


class SlicedAttention(nn.MultiheadAttention):
    """Self-attention whose heads have the size they had before others were removed; it takes no masks."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> tuple[Tensor, None]:  # type: ignore[override]
        """Return what the heads compute, projected; the attention weights are not returned."""
        weights = self.in_proj_weight
        parts = (
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            if weights is None
            else weights.chunk(3)
        )
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        queries, keys, values = (
            self._heads(F.linear(tokens, weight, bias))
            for tokens, weight, bias in zip((query, key, value), parts, biases, strict=True)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
        mixed = mixed.transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(mixed if self.batch_first else mixed.transpose(0, 1))
        return output, None

    def _heads(self, tokens: Tensor) -> Tensor:
        tokens = tokens if self.batch_first else tokens.transpose(0, 1)
        return torch.unflatten(tokens, 2, (self.num_heads, self.head_dim)).transpose(1, 2)


def full_sizes(model: nn.Module, image_shape: Sequence[int]) -> Sizes:
    """The sizes of a whole network."""
    tensors = model.state_dict()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return Sizes(parameters=parameters, bytes=size, multiply_adds=all_multiply_adds(model, image_shape))


_PRODUCTS: WeakKeyDictionary[nn.Module, int | None] = WeakKeyDictionary()


def all_multiply_adds(model: nn.Module, image_shape: Sequence[int]) -> int | None:
    """Multiply-adds per image of a whole network, counted on a copy; None where that does not run."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if isinstance(model, Network) and parameters == model.architecture.parameters:  # not a sliced one
        return model.architecture.multiply_adds
    if model not in _PRODUCTS:
        try:
            _PRODUCTS[model] = multiply_adds(model, tuple(image_shape))
        except Exception:  # a user's own code
            _PRODUCTS[model] = None
    return _PRODUCTS[model]
