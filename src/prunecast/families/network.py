"""The module that runs any built-in architecture from its list of layers."""

import torch
from torch import Tensor, nn

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
    return None


def _last_readers(architecture: Architecture) -> dict[str, tuple[str, ...]]:
    """Return, by layer, the outputs that no later layer uses."""
    last = {name: layer.name for layer in architecture.layers for name in layer.inputs}
    return {reader: tuple(name for name in last if last[name] == reader) for reader in set(last.values())}
