"""Replacements for layers of torch.nn in a stack: they compute the same with operations that run well under vmap.

Each is a subclass of the layer that it replaces. A layer is replaced by changing its class, so that its tensors and
settings stay.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast import families
from prunecast.fleet.layout import Unpackable

NOISE = "noise_"
"""Prefix of the buffers that hold a layer's noise: one buffer per call of the layer in a forward pass."""


class NoisyLayer(nn.Module):
    """A layer that reads its noise from buffers; each member's generator fills them before the forward pass."""

    calls: list[tuple["NoisyLayer", Tensor, float]] | None
    """If it is a list, a call appends the layer, a tensor like its noise and the share of zeros, and drops nothing."""
    uses: int
    """Calls of the layer in one forward pass."""
    turn: int
    """The buffer that the next call reads."""

    def dropped(self, values: Tensor, p: float, like: Tensor | None = None) -> Tensor:
        """Set a share `p` of the values to zero and scale up the others, as dropout does."""
        if self.calls is not None:
            self.calls.append((self, torch.empty_like(values if like is None else like), p))
            return values
        noise: Tensor = getattr(self, f"{NOISE}{self.turn}")
        self.turn = (self.turn + 1) % self.uses
        return values * noise * (0.0 if p == 1 else 1 / (1 - p))


class MixedPrecisionLayer(nn.Module):
    """A layer that casts as autocast would: torch.func.vmap hides most operations from autocast."""

    low: torch.dtype | None = None
    """The dtype of matrix products under mixed precision; None without it."""

    def cast(self, *values: Tensor | None) -> tuple[Any, ...]:
        """Cast values to the dtype of matrix products."""
        return tuple(own if own is None or self.low is None else own.to(self.low) for own in values)


def upcast(values: Tensor) -> Tensor:
    """Cast values of 16 bits to float32, as for sums of many values."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


class StackedDropout(nn.Dropout, NoisyLayer):
    """Dropout of single values, with noise from a buffer."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Drop values in training."""
        if not self.training or self.p == 0:
            return input
        return self.dropped(input, self.p)


class StackedFeatureDropout(nn.Dropout2d, NoisyLayer):
    """Dropout of whole channels, with noise from a buffer."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Drop channels in training."""
        if not self.training or self.p == 0:
            return input
        of_channels = input.new_empty((*input.shape[:2], *[1] * (input.dim() - 2)))
        return self.dropped(input, self.p, of_channels)


class StackedMultiheadAttention(nn.MultiheadAttention, NoisyLayer, MixedPrecisionLayer):
    """Multi-head attention written out, with dropout of its attention weights from a buffer."""

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
        """Compute what nn.MultiheadAttention computes, with this layer's noise."""
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
            return self._recorded(query, key, value)
        weights = self.in_proj_weight.chunk(3)
        biases = 3 * (None,) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        given = (
            (query, key, value) if self.batch_first else (own.transpose(0, 1) for own in (query, key, value))
        )
        q, k, v = (
            torch.unflatten(F.linear(*self.cast(own, weight, bias)), 2, (self.num_heads, -1)).transpose(1, 2)
            for own, weight, bias in zip(given, weights, biases, strict=True)
        )
        shares: Tensor | None = None
        if need_weights or p:
            shares = upcast((q * self.head_dim**-0.5) @ k.transpose(2, 3)).softmax(3)
            shares = self.dropped(shares, p) if p else shares
            mixed = shares.to(v.dtype) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        joined = mixed.transpose(1, 2).flatten(2)
        outputs = F.linear(*self.cast(joined, self.out_proj.weight, self.out_proj.bias))
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

    def _recorded(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor | None]:
        """Record the noise of the attention weights; return outputs in the shape and memory layout of torch's layer."""
        batch, length = (0, 1) if self.batch_first else (1, 0)
        shape = query.shape[batch], self.num_heads, query.shape[length], key.shape[length]
        p, self.dropout = self.dropout, 0.0
        self.dropped(query.new_empty(shape), p)
        found = super().forward(query, key, value)
        self.dropout = p
        return found


class StackedLinear(nn.Linear, MixedPrecisionLayer):
    """A linear layer that casts its inputs."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        return F.linear(*self.cast(input, self.weight, self.bias))


class StackedConvolution(nn.Conv2d, MixedPrecisionLayer):
    """A convolution, which vmap turns into a grouped one with a group per member."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        values, weight, bias = self.cast(input, self.weight, self.bias)
        found: Tensor = self._conv_forward(values, weight, bias)
        return found


class StackedPatchConvolution(nn.Conv2d, MixedPrecisionLayer):
    """A convolution over patches that do not overlap, as one matrix product per member."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        batch, channels, height, width = input.shape
        tall, wide = self.kernel_size
        rows, columns = height // tall, width // wide
        patches = input[:, :, : rows * tall, : columns * wide]
        patches = patches.reshape(batch, channels, rows, tall, columns, wide).permute(0, 2, 4, 1, 3, 5)
        patches = patches.reshape(batch, rows * columns, -1)
        products = F.linear(*self.cast(patches, self.weight.flatten(1), self.bias))
        return torch.unflatten(products, 1, (rows, columns)).permute(0, 3, 1, 2)


class StackedLayerNorm(nn.LayerNorm, MixedPrecisionLayer):
    """Layer normalisation in float32."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        values = F.layer_norm(upcast(input), self.normalized_shape, eps=self.eps)
        if self.weight is None:
            return values
        return values * self.weight if self.bias is None else torch.addcmul(self.bias, values, self.weight)


class StackedGroupNorm(nn.GroupNorm, MixedPrecisionLayer):
    """Group normalisation in float32."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        return super().forward(upcast(input))


class StackedBatchNorm(nn.BatchNorm2d, MixedPrecisionLayer):
    """Batch normalisation in float32, whose outputs keep the dtype of its inputs."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Compute what torch's layer computes."""
        return super().forward(upcast(input)).to(input.dtype)


class StackedRMSNorm(nn.RMSNorm, MixedPrecisionLayer):
    """Root-mean-square normalisation, written with operations that torch.func.vmap supports."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute what torch's layer computes."""
        values = upcast(x)
        axes = tuple(range(-len(self.normalized_shape), 0))
        eps = torch.finfo(values.dtype).eps if self.eps is None else self.eps
        values = values * torch.rsqrt(values.square().mean(axes, keepdim=True) + eps)
        return values if self.weight is None else values * self.weight


class StackedAttention(families.Attention):
    """Attention of the built-in ViTs, written so that the gradients of queries, keys and values are joined at once."""

    def forward(self, qkv: Tensor) -> Tensor:
        """Compute what the family's layer computes."""
        heads = torch.unflatten(qkv, 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind(0)
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values)
        return mixed.transpose(1, 2).flatten(2)


def _takes_patches(module: nn.Conv2d) -> bool:
    """Whether a convolution reads patches that do not overlap: its stride is its kernel size, without padding."""
    plain = module.groups == 1 and set(module.dilation) == {1} and module.padding_mode == "zeros"
    return bool(plain and module.kernel_size == module.stride and tuple(module.padding) == (0, 0))


REPLACEMENTS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: StackedDropout,
    nn.Dropout1d: StackedFeatureDropout,
    nn.Dropout2d: StackedFeatureDropout,
    nn.Dropout3d: StackedFeatureDropout,
    nn.MultiheadAttention: StackedMultiheadAttention,
    nn.RMSNorm: StackedRMSNorm,
    nn.Linear: StackedLinear,
    nn.LayerNorm: StackedLayerNorm,
    nn.GroupNorm: StackedGroupNorm,
    nn.BatchNorm2d: StackedBatchNorm,
    families.Attention: StackedAttention,
}


def replace_layers(
    network: nn.Module, kind: type[nn.Module] = nn.Module, low: torch.dtype | None = None
) -> list[NoisyLayer]:
    """Replace the layers of a network, only those of a `kind`; return the layers that draw noise.

    `low` is the dtype of matrix products under mixed precision.
    """
    for module in network.modules():
        replacement = REPLACEMENTS.get(type(module))
        if isinstance(module, nn.Conv2d) and type(module) is nn.Conv2d:
            replacement = StackedPatchConvolution if _takes_patches(module) else StackedConvolution
        if replacement is not None and issubclass(replacement, kind):
            module.__class__ = replacement
        if isinstance(module, MixedPrecisionLayer):
            module.low = low
    noisy = [module for module in network.modules() if isinstance(module, NoisyLayer)]
    for module in noisy:
        module.calls, module.uses, module.turn = None, 0, 0
    return noisy
