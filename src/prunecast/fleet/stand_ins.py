"""Layers that take the place of torch's own in a stack: the same numbers, in operations that many networks share well.

A stand-in is a subclass that an instance is turned into, so its tensors and settings stay as they are.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast import families
from prunecast.fleet.layout import Unpackable

NOISE = "noise_"
"""How the buffers are named in which a layer finds its noise, one for each time that it is called."""


class Noisy(nn.Module):
    """A layer whose noise is drawn before the forward pass, by every member's own generator."""

    calls: list[tuple["Noisy", Tensor, float]] | None
    """Takes down who asks for noise, like which tensor and with which share of zeros, where that is to be found out."""
    uses: int
    turn: int

    def dropped(self, values: Tensor, p: float, like: Tensor | None = None) -> Tensor:
        """Values with a share `p` of them set to zero and the others made larger, as dropout does."""
        if self.calls is not None:
            self.calls.append((self, torch.empty_like(values if like is None else like), p))
            return values
        noise: Tensor = getattr(self, f"{NOISE}{self.turn}")
        self.turn = (self.turn + 1) % self.uses
        return values * noise * (0.0 if p == 1 else 1 / (1 - p))


class Mixed(nn.Module):
    """A layer that does what autocast would do for it: torch.func.vmap hides most operations from autocast."""

    low: torch.dtype | None = None
    """The format of products under mixed precision."""

    def lowered(self, *values: Tensor | None) -> tuple[Any, ...]:
        """Values in the format of products."""
        return tuple(own if own is None or self.low is None else own.to(self.low) for own in values)


def precise(values: Tensor) -> Tensor:
    """Values in a format that sums of many are made in."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


class MemberDropout(nn.Dropout, Noisy):
    """Dropout of single values."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return the values with noise, in training."""
        if not self.training or self.p == 0:
            return input
        return self.dropped(input, self.p)


class MemberFeatureDropout(nn.Dropout2d, Noisy):
    """Dropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return the channels with noise, in training."""
        if not self.training or self.p == 0:
            return input
        of_channels = input.new_empty((*input.shape[:2], *[1] * (input.dim() - 2)))
        return self.dropped(input, self.p, of_channels)


class MemberAttention(nn.MultiheadAttention, Noisy, Mixed):
    """Attention between queries, keys and values, with dropout of its weights."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what torch's own gives, with the noise of this layer."""
        p = self.dropout if self.training else 0.0
        usual = (
            self._qkv_same_embed_dim and self.bias_k is None and not self.add_zero_attn and query.dim() == 3
        )
        if not usual or key_padding_mask is not None or attn_mask is not None:
            if p:
                raise Unpackable(
                    "Attention with dropout and masks or other sizes of its own cannot be packed."
                )
            return super().forward(
                *(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights),
                is_causal=is_causal,
            )
        if self.calls is not None:
            return self._noted(query, key, value)
        weights = self.in_proj_weight.chunk(3)
        biases = 3 * (None,) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        given = (
            (query, key, value) if self.batch_first else (own.transpose(0, 1) for own in (query, key, value))
        )
        q, k, v = (
            torch.unflatten(F.linear(*self.lowered(own, weight, bias)), 2, (self.num_heads, -1)).transpose(
                1, 2
            )
            for own, weight, bias in zip(given, weights, biases, strict=True)
        )
        shares: Tensor | None = None
        if need_weights or p:
            shares = precise((q * self.head_dim**-0.5) @ k.transpose(2, 3)).softmax(3)
            shares = self.dropped(shares, p) if p else shares
            mixed = shares.to(v.dtype) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        joined = mixed.transpose(1, 2).flatten(2)
        outputs = F.linear(*self.lowered(joined, self.out_proj.weight, self.out_proj.bias))
        mean_weights = (
            shares.mean(1)
            if average_attn_weights and shares is not None
            else shares
            if need_weights
            else None
        )
        return (
            outputs if self.batch_first else outputs.transpose(0, 1)
        ), mean_weights if need_weights else None

    def _noted(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take down the noise of the weights, and give what has the shape and order in memory of torch's own."""
        batch, length = (0, 1) if self.batch_first else (1, 0)
        shape = query.shape[batch], self.num_heads, query.shape[length], key.shape[length]
        p, self.dropout = self.dropout, 0.0
        self.dropped(query.new_empty(shape), p)
        found = super().forward(query, key, value)
        self.dropout = p
        return found


class MemberLinear(nn.Linear, Mixed):
    """A linear layer."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        return F.linear(*self.lowered(input, self.weight, self.bias))


class MemberConvolution(nn.Conv2d, Mixed):
    """A convolution, for which there is a group for every member."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        values, weight, bias = self.lowered(input, self.weight, self.bias)
        found: Tensor = self._conv_forward(values, weight, bias)
        return found


class PatchConvolution(nn.Conv2d, Mixed):
    """A convolution whose windows touch without overlapping: one product for all members instead of groups."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        batch, channels, height, width = input.shape
        tall, wide = self.kernel_size
        rows, columns = height // tall, width // wide
        patches = input[:, :, : rows * tall, : columns * wide]
        patches = patches.reshape(batch, channels, rows, tall, columns, wide).permute(0, 2, 4, 1, 3, 5)
        patches = patches.reshape(batch, rows * columns, -1)
        products = F.linear(*self.lowered(patches, self.weight.flatten(1), self.bias))
        return torch.unflatten(products, 1, (rows, columns)).permute(0, 3, 1, 2)


class MemberLayerNorm(nn.LayerNorm, Mixed):
    """Normalisation of the last axes."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        values = F.layer_norm(precise(input), self.normalized_shape, eps=self.eps)
        if self.weight is None:
            return values
        return values * self.weight if self.bias is None else torch.addcmul(self.bias, values, self.weight)


class MemberGroupNorm(nn.GroupNorm, Mixed):
    """Normalisation of groups of channels."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        return super().forward(precise(input))


class MemberBatchNorm(nn.BatchNorm2d, Mixed):
    """Normalisation over a batch, whose values keep their number format."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        return super().forward(precise(input)).to(input.dtype)


class MemberRMSNorm(nn.RMSNorm, Mixed):
    """Root-mean-square normalisation from operations that torch.func.vmap knows."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what torch's own gives."""
        values = precise(x)
        axes = tuple(range(-len(self.normalized_shape), 0))
        eps = torch.finfo(values.dtype).eps if self.eps is None else self.eps
        values = values * torch.rsqrt(values.square().mean(axes, keepdim=True) + eps)
        return values if self.weight is None else values * self.weight


class StackedAttention(families.Attention):
    """Attention of the built-in ViTs: the gradients of queries, keys and values are joined in one go."""

    def forward(self, qkv: Tensor) -> Tensor:
        """Return what the family's own gives."""
        heads = torch.unflatten(qkv, 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind(0)
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values)
        return mixed.transpose(1, 2).flatten(2)


def _touching(module: nn.Conv2d) -> bool:
    """Whether a convolution looks at every pixel once."""
    plain = module.groups == 1 and set(module.dilation) == {1} and module.padding_mode == "zeros"
    return bool(plain and module.kernel_size == module.stride and tuple(module.padding) == (0, 0))


STAND_INS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: MemberDropout,
    nn.Dropout1d: MemberFeatureDropout,
    nn.Dropout2d: MemberFeatureDropout,
    nn.Dropout3d: MemberFeatureDropout,
    nn.MultiheadAttention: MemberAttention,
    nn.RMSNorm: MemberRMSNorm,
    nn.Linear: MemberLinear,
    nn.LayerNorm: MemberLayerNorm,
    nn.GroupNorm: MemberGroupNorm,
    nn.BatchNorm2d: MemberBatchNorm,
    families.Attention: StackedAttention,
}


def put_stand_ins(
    network: nn.Module, kind: type[nn.Module] = nn.Module, low: torch.dtype | None = None
) -> list[Noisy]:
    """Turn the layers of a network into their stand-ins, those of a kind alone; returns those that draw noise.

    Products are made in the format `low`, if there is one.
    """
    for module in network.modules():
        replacement = STAND_INS.get(type(module))
        if isinstance(module, nn.Conv2d) and type(module) is nn.Conv2d:
            replacement = PatchConvolution if _touching(module) else MemberConvolution
        if replacement is not None and issubclass(replacement, kind):
            module.__class__ = replacement
        if isinstance(module, Mixed):
            module.low = low
    noisy = [module for module in network.modules() if isinstance(module, Noisy)]
    for module in noisy:
        module.calls, module.uses, module.turn = None, 0, 0
    return noisy
