"""Torch's own transformer layers, which are single operations of a graph: their hidden units and heads.

What goes in and out of such a layer stays.
"""

from collections.abc import Iterator, Set

import numpy as np
from torch import nn

from prunecast.families.channel_numbers import ChannelNumbers
from prunecast.families.units import Product


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


def own_hidden_units(
    numbers: ChannelNumbers, weights: Set[str], path: str, layer: nn.TransformerEncoderLayer, tokens: int
) -> None:
    """Number the units between the two linear layers of an encoder layer; `weights` are the prunable tensors."""
    own = _, second = f"{path}.linear1.weight", f"{path}.linear2.weight"
    if not weights >= set(own):
        return
    units = numbers.computed(f"{path}.linear1", layer.linear1.out_features)
    numbers.own_rows(f"{path}.linear1", layer.linear1, units)
    numbers.own(second, 1, units)
    numbers.products += [Product(tensor=weight, times=tokens) for weight in own]


def own_heads(
    numbers: ChannelNumbers, weights: Set[str], path: str, attention: nn.MultiheadAttention, tokens: int
) -> None:
    """Number the heads of self-attention, where each is on its own: nothing is added to keys and values."""
    parts = [f"{path}.{name}" for name in _projections(attention)]
    out = f"{path}.out_proj.weight"
    alone = attention.bias_k is None and attention.bias_v is None and not attention.add_zero_attn
    if not alone or not weights >= {*parts, out}:
        return
    new = path not in numbers.outputs
    channels = numbers.computed(path, attention.embed_dim)
    heads = channels.reshape(attention.num_heads, -1)
    if new:
        for head in heads:
            numbers.tie(head, int(head[0]))
    rows = np.tile(channels, 3)
    for part in parts:
        numbers.own(part, 0, rows if len(parts) == 1 else channels)
    if attention.in_proj_bias is not None:
        numbers.own(f"{path}.in_proj_bias", 0, rows)
    numbers.own(out, 1, channels)
    numbers.heads[path] = heads[:, 0]
    numbers.products += [Product(tensor=weight, times=tokens) for weight in (*parts, out)]
    numbers.products.append(Product(channels=channels, times=2 * tokens * tokens))


def _projections(attention: nn.MultiheadAttention) -> tuple[str, ...]:
    """The names of the weights that compute queries, keys and values."""
    if attention.in_proj_weight is not None:
        return ("in_proj_weight",)
    return ("q_proj_weight", "k_proj_weight", "v_proj_weight")
