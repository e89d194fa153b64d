"""Torch's own transformer layers: what pruning needs to know of them, and attention without some of its heads."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast.families.network import Attention


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


def set_heads(module: nn.Module, heads: int) -> None:
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


def encoder_layers(name: str, module: nn.Module) -> Iterator[tuple[str, nn.TransformerEncoderLayer]]:
    """The encoder layers that a module consists of, by path."""
    if isinstance(module, nn.TransformerEncoderLayer):
        yield name, module
    elif isinstance(module, nn.TransformerEncoder):
        for number, layer in enumerate(module.layers):
            if type(layer) is nn.TransformerEncoderLayer:
                yield f"{name}.layers.{number}", layer


def tokens_of(shape: tuple[int, ...], attention: nn.MultiheadAttention) -> int | None:
    """The number of tokens per image in an activation; None where it is not a batch of tokens."""
    if len(shape) != 3:
        return None
    return shape[1] if attention.batch_first else shape[0]


def removable_heads(attention: nn.MultiheadAttention) -> bool:
    """Whether each head is on its own: nothing is added to keys and values."""
    return attention.bias_k is None and attention.bias_v is None and not attention.add_zero_attn


def projections(attention: nn.MultiheadAttention) -> tuple[str, ...]:
    """The names of the weights that compute queries, keys and values."""
    if attention.in_proj_weight is not None:
        return ("in_proj_weight",)
    return ("q_proj_weight", "k_proj_weight", "v_proj_weight")
