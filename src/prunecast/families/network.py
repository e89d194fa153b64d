"""The module that runs any built-in architecture from its list of layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast.catalog import IMAGE, Architecture, Layer


class Network(nn.Module):
    """An architecture as a module; torch.fx traces it into plain torch modules, sums and concatenations."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self._unused_after = _last_readers(architecture)
        for layer in architecture.layers:
            module = _module(layer)
            if module is not None:
                self.add_module(layer.name, module)

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits; each output is freed after its last use, so evaluation needs little memory."""
        values = {IMAGE: image}
        for layer in self.architecture.layers:
            values[layer.name] = self._output(layer, [values[name] for name in layer.inputs])
            for name in self._unused_after.get(layer.name, ()):
                del values[name]
        return values[self.architecture.layers[-1].name]

    def _output(self, layer: Layer, inputs: list[Tensor]) -> Tensor:
        if layer.kind == "add":
            return inputs[0] + inputs[1]
        if layer.kind == "concat":
            return torch.cat(inputs, dim=1)
        if layer.kind == "global_average":
            return inputs[0].mean(dim=(2, 3))
        if layer.kind == "token_average":
            return inputs[0].mean(dim=1)
        if layer.kind == "flatten":
            return torch.flatten(inputs[0], 1)
        output: Tensor = getattr(self, layer.name)(inputs[0])
        return output


def _module(layer: Layer) -> nn.Module | None:
    """Return the module of a layer, or None if a plain function computes it."""
    if layer.kind == "conv":
        channels = (layer.in_shape[0], layer.out_shape[0])
        return nn.Conv2d(*channels, layer.kernel, layer.stride, layer.padding, bias=False)
    if layer.kind == "linear":
        return nn.Linear(layer.in_shape[0], layer.out_shape[0])
    if layer.kind == "norm":
        return nn.BatchNorm2d(layer.out_shape[0])
    if layer.kind == "relu":
        return nn.ReLU()
    if layer.kind == "max_pool":
        return nn.MaxPool2d(layer.kernel, layer.stride, layer.padding)
    if layer.kind == "average_pool":
        return nn.AvgPool2d(layer.kernel, layer.stride, layer.padding)
    if layer.kind == "tokens":
        return Tokens(*layer.in_shape)
    if layer.kind == "layer_norm":
        return nn.LayerNorm(layer.out_shape[0])
    if layer.kind == "gelu":
        return nn.GELU()
    if layer.kind == "attention":
        return Attention(layer.heads)
    return None


class Tokens(nn.Module):
    """Positions of an image as tokens (N, tokens, channels), with where they are added to what they show."""

    positions: Tensor

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.register_buffer("positions", positions(channels, height, width), persistent=False)

    def forward(self, image: Tensor) -> Tensor:
        """Return the tokens, row by row."""
        return image.flatten(2).transpose(1, 2) + self.positions


def positions(channels: int, height: int, width: int) -> Tensor:
    """Sines and cosines of rows and columns by turns, at frequencies from 1 to 1 / longer side: (tokens, channels)."""
    channel = torch.arange(channels)
    quarters = max(1, -(-channels // 4) - 1)
    frequency = float(max(2, height, width)) ** -(channel // 4 / quarters)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    place = torch.where(channel % 2 == 0, rows.reshape(-1, 1), columns.reshape(-1, 1))
    turn = torch.pi / 2 * (channel // 2 % 2)
    return torch.sin(place * frequency + turn)


class Attention(nn.Module):
    """Attention between tokens; queries, keys and values are one after the other in the channels."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, qkv: Tensor) -> Tensor:
        """Return softmax(QKᵀ / √d) V of every head, the heads side by side."""
        heads = torch.unflatten(qkv, 2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed: Tensor = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        return mixed.transpose(1, 2).flatten(2)


def _last_readers(architecture: Architecture) -> dict[str, tuple[str, ...]]:
    """Return, by layer, the outputs that no later layer uses."""
    last = {name: layer.name for layer in architecture.layers for name in layer.inputs}
    return {reader: tuple(name for name in last if last[name] == reader) for reader in set(last.values())}
