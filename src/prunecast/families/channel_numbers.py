"""Which positions of a network's tensors belong to which channel.

Every channel gets a number. Where two channels can only be removed together, their numbers are tied (a union-find
structure). Channels with one number form a unit: the rows that compute it, its parameters in norms, and the columns
that read it. A graph shows torch's transformer layers as single operations, so their inner units are listed here.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from prunecast.families.units import Integers, KeptWhole, Product, Units

FIXED = 0
"""The number of channels that are never removed."""
ROWS = ("weight", "bias", "running_mean", "running_var")
"""Tensors of a module that have a row for each of its channels."""


@dataclass(kw_only=True)
class ChannelNumbers:
    """The channels of a network, collected while its graph is followed."""

    parents: list[int] = field(default_factory=lambda: [FIXED])
    """By number, a number that it is tied to, or itself."""
    owners: dict[str, dict[int, Integers]] = field(default_factory=dict)
    """By tensor and axis, the channel of every position."""
    outputs: dict[str, Integers] = field(default_factory=dict)
    """By layer, the numbers of the channels it computes."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why numbers are fixed."""
    products: list[Product] = field(default_factory=list)
    heads: dict[str, Integers] = field(default_factory=dict)

    def _new(self, count: int) -> Integers:
        first = len(self.parents)
        self.parents.extend(range(first, first + count))
        return np.arange(first, first + count)

    def _root(self, number: int) -> int:
        while self.parents[number] != number:
            self.parents[number] = self.parents[self.parents[number]]
            number = self.parents[number]
        return number

    def tie(self, one: Integers, other: Integers | int) -> None:
        """Tie channels pairwise, so that they are only removed together."""
        others = np.broadcast_to(other, one.shape)
        for a, b in zip(one.tolist(), others.tolist(), strict=True):
            low, high = sorted((self._root(a), self._root(b)))
            self.parents[high] = low

    def keep(self, channels: Integers, reason: str) -> None:
        """Never remove these channels."""
        for number in {self._root(own) for own in channels.tolist()} - {FIXED}:
            self.reasons.setdefault(number, reason)
        self.tie(channels, FIXED)

    def own(self, tensor: str, axis: int, channels: Integers) -> None:
        """Note which channel each position of a tensor belongs to; a second call of a module ties both inputs."""
        before = self.owners.setdefault(tensor, {}).setdefault(axis, channels)
        if before is not channels:
            self.tie(channels, before)

    def own_rows(self, name: str, module: nn.Module, channels: Integers) -> None:
        """Note which channel each row of a module's tensors belongs to."""
        for key in ROWS:
            if getattr(module, key, None) is not None:
                self.own(f"{name}.{key}", 0, channels)

    def computed(self, layer: str, size: int) -> Integers:
        """The numbers of the channels that a layer computes, the same at every call."""
        if layer not in self.outputs:
            self.outputs[layer] = self._new(size)
        return self.outputs[layer]

    def own_hidden_units(
        self, weights: Set[str], path: str, layer: nn.TransformerEncoderLayer, tokens: int
    ) -> None:
        """Number the hidden units of torch's encoder layer, if both its linear weights may be pruned."""
        own = _, second = f"{path}.linear1.weight", f"{path}.linear2.weight"
        if not weights >= set(own):
            return
        units = self.computed(f"{path}.linear1", layer.linear1.out_features)
        self.own_rows(f"{path}.linear1", layer.linear1, units)
        self.own(second, 1, units)
        self.products += [Product(tensor=weight, times=tokens) for weight in own]

    def own_heads(self, weights: Set[str], path: str, attention: nn.MultiheadAttention, tokens: int) -> None:
        """Number the heads of torch's self-attention, unless they share something that is added to keys or values."""
        parts = [f"{path}.{name}" for name in _projections(attention)]
        out = f"{path}.out_proj.weight"
        alone = attention.bias_k is None and attention.bias_v is None and not attention.add_zero_attn
        if not alone or not weights >= {*parts, out}:
            return
        new = path not in self.outputs
        channels = self.computed(path, attention.embed_dim)
        heads = channels.reshape(attention.num_heads, -1)
        if new:
            for head in heads:
                self.tie(head, int(head[0]))
        rows = np.tile(channels, 3)
        for part in parts:
            self.own(part, 0, rows if len(parts) == 1 else channels)
        if attention.in_proj_bias is not None:
            self.own(f"{path}.in_proj_bias", 0, rows)
        self.own(out, 1, channels)
        self.heads[path] = heads[:, 0]
        self.products += [Product(tensor=weight, times=tokens) for weight in (*parts, out)]
        self.products.append(Product(channels=channels, times=2 * tokens * tokens))

    def units(self, model: nn.Module, multiply_adds: int) -> Units:
        """The units, numbered in the order in which layers compute them."""
        roots = np.array([self._root(number) for number in range(len(self.parents))])
        found = {
            name: {axis: roots[channels] for axis, channels in axes.items()}
            for name, axes in self.owners.items()
        }
        patterns: dict[int, list[tuple[str, int]]] = {}
        for name, axes in found.items():
            for axis, channels in axes.items():
                for root in np.unique(channels[channels != FIXED]).tolist():
                    patterns.setdefault(root, []).append((name, axis))
        order = sorted(patterns)
        number = np.full(len(roots), -1)
        number[order] = np.arange(len(order))
        groups: dict[tuple[tuple[str, int], ...], int] = {}
        of_units = np.array(
            [groups.setdefault(tuple(patterns[root]), len(groups)) for root in order], np.int64
        )
        owners = {
            name: {axis: number[channels] for axis, channels in axes.items() if (channels != FIXED).any()}
            for name, axes in found.items()
        }
        tensors = model.state_dict(keep_vars=True)
        return Units(
            groups=of_units,
            names=tuple(pattern[0][0].rpartition(".")[0] for pattern in groups),
            owners={name: axes for name, axes in owners.items() if axes},
            kept_whole=self._kept_whole(roots),
            _shapes={name: tuple(tensor.shape) for name, tensor in tensors.items()},
            _bytes={name: tensor.element_size() for name, tensor in tensors.items()},
            _parameters=frozenset(name for name, _ in model.named_parameters()),
            _products=tuple(replace(own, channels=number[roots[own.channels]]) for own in self.products),
            _heads={name: number[roots[channels]] for name, channels in self.heads.items()},
            _multiply_adds=multiply_adds,
        )

    def _kept_whole(self, roots: Integers) -> tuple[KeptWhole, ...]:
        """The layers with outputs that are never removed."""
        found = []
        for name, channels in self.outputs.items():
            if (roots[channels] == FIXED).all():
                reasons = (self.reasons.get(int(own)) for own in channels)
                reason = next((own for own in reasons if own), "other layers need all of them")
                found.append(KeptWhole(layer=name, reason=reason))
        return tuple(found)


def encoder_layers(name: str, module: nn.Module) -> Iterator[tuple[str, nn.TransformerEncoderLayer]]:
    """Yield the encoder layers in a module, each with its path."""
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


def _projections(attention: nn.MultiheadAttention) -> tuple[str, ...]:
    """The names of the weights that compute queries, keys and values."""
    if attention.in_proj_weight is not None:
        return ("in_proj_weight",)
    return ("q_proj_weight", "k_proj_weight", "v_proj_weight")
