"""Layers that take the place of torch's own in a stack: the same numbers, in operations that many networks share well.

A stand-in is a subclass that an instance is turned into, so its tensors and settings stay as they are.
"""

from collections.abc import Callable
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


class MemberAttention(nn.MultiheadAttention, Noisy):
    """Attention between queries, keys and values with dropout of its weights."""

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
        if not self.training or self.dropout == 0:
            return super().forward(
                *(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights),
                is_causal=is_causal,
            )
        if key_padding_mask is not None or attn_mask is not None or query.dim() != 3 or self.add_zero_attn:
            raise Unpackable("Attention with dropout and masks cannot be packed.")
        if not self._qkv_same_embed_dim or self.bias_k is not None:
            raise Unpackable("Attention with dropout and keys or values of other sizes cannot be packed.")
        if self.calls is not None:
            return self._noted(query, key, value)
        weights = self.in_proj_weight.chunk(3)
        biases = 3 * (None,) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        given = [query, key, value]
        if not self.batch_first:
            given = [own.transpose(0, 1) for own in given]
        q, k, v = (
            torch.unflatten(F.linear(own, weight, bias), 2, (self.num_heads, -1)).transpose(1, 2)
            for own, weight, bias in zip(given, weights, biases, strict=True)
        )
        scores = (q * self.head_dim**-0.5) @ k.transpose(2, 3)
        shares = scores.softmax(3)
        shares = self.dropped(shares, self.dropout).to(v.dtype)
        mixed = self.out_proj((shares @ v).transpose(1, 2).flatten(2))
        told = (shares.mean(1) if average_attn_weights else shares) if need_weights else None
        return (mixed if self.batch_first else mixed.transpose(0, 1)), told

    def _noted(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor | None]:
        """Take down the noise of the weights, and give what has the shape and order in memory of torch's own."""
        batch, length = (0, 1) if self.batch_first else (1, 0)
        shape = query.shape[batch], self.num_heads, query.shape[length], key.shape[length]
        p, self.dropout = self.dropout, 0.0
        self.dropped(query.new_empty(shape), p)
        found = super().forward(query, key, value)
        self.dropout = p
        return found


class PatchConvolution(nn.Conv2d):
    """A convolution whose windows touch without overlapping: one product for all members instead of groups."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return what torch's own gives."""
        batch, channels, height, width = input.shape
        tall, wide = self.kernel_size
        rows, columns = height // tall, width // wide
        patches = input[:, :, : rows * tall, : columns * wide]
        patches = patches.reshape(batch, channels, rows, tall, columns, wide).permute(0, 2, 4, 1, 3, 5)
        products = F.linear(patches.reshape(batch, rows * columns, -1), self.weight.flatten(1), self.bias)
        return torch.unflatten(products, 1, (rows, columns)).permute(0, 3, 1, 2)


class MemberRMSNorm(nn.RMSNorm):
    """Root-mean-square normalisation from operations that torch.func.vmap knows."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what torch's own gives."""
        values = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        axes = tuple(range(-len(self.normalized_shape), 0))
        eps = torch.finfo(values.dtype).eps if self.eps is None else self.eps
        values = values * torch.rsqrt(values.square().mean(axes, keepdim=True) + eps)
        return (values if self.weight is None else values * self.weight).to(x.dtype)


class StackedAttention(families.Attention):
    """Attention of the built-in ViTs: the gradients of queries, keys and values are joined in one go."""

    def forward(self, qkv: Tensor) -> Tensor:
        """Return what the family's own gives."""
        heads = torch.unflatten(qkv, 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind(0)
        mixed: Tensor = F.scaled_dot_product_attention(queries, keys, values)
        return mixed.transpose(1, 2).flatten(2)


def _touching(module: Any) -> bool:
    """Whether a convolution looks at every pixel once."""
    plain = module.groups == 1 and set(module.dilation) == {1} and module.padding_mode == "zeros"
    return bool(plain and module.kernel_size == module.stride and tuple(module.padding) == (0, 0))


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


Condition = Callable[[Any], bool]
STAND_INS: dict[type[nn.Module], tuple[type[nn.Module], Condition]] = {
    nn.Dropout: (MemberDropout, _always),
    nn.Dropout1d: (MemberFeatureDropout, _always),
    nn.Dropout2d: (MemberFeatureDropout, _always),
    nn.Dropout3d: (MemberFeatureDropout, _always),
    nn.MultiheadAttention: (MemberAttention, _always),
    nn.Conv2d: (PatchConvolution, _touching),
    nn.RMSNorm: (MemberRMSNorm, _always),
    families.Attention: (StackedAttention, _always),
}


def put_stand_ins(network: nn.Module, kind: type[nn.Module] = nn.Module) -> list[Noisy]:
    """Turn the layers of a network into their stand-ins, those of a kind alone; returns those that draw noise."""
    for module in network.modules():
        replacement, fits = STAND_INS.get(type(module), (nn.Module, _never))
        if issubclass(replacement, kind) and fits(module):
            module.__class__ = replacement
    noisy = [module for module in network.modules() if isinstance(module, Noisy)]
    for module in noisy:
        module.calls, module.uses, module.turn = None, 0, 0
    return noisy
