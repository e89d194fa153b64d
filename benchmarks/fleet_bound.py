"""The least time that a device needs for a training, from the speeds it shows here."""

import time
from collections.abc import Callable
from math import prod

import torch

from prunecast.catalog import Layer, architecture

FAMILY, DEPTH, CLASSES = "cifar_resnet", 20, 10


def timed(function: Callable[[], object]) -> float:
    synchronise()
    start = time.perf_counter()
    function()
    synchronise()
    return time.perf_counter() - start


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def lower_bound(width: float, examples: int, device: torch.device, flops: float, bandwidth: float) -> float:
    """The longer of arithmetic and memory traffic for one epoch of one network trained alone.

    A step takes 6 operations per multiply-add (forward, and two products backward).
    """
    layers = architecture(FAMILY, depth=DEPTH, width=width, num_classes=CLASSES).layers
    operations = 6 * sum(layer.multiply_adds for layer in layers)
    size = 2 if device.type == "cuda" else 4
    return examples * max(operations / flops, size * sum(map(values_moved, layers)) / bandwidth)


def values_moved(layer: Layer) -> int:
    """Values read and written per image with every elementwise chain in one kernel.

    A convolution: inputs and outputs once forward; backward the output's gradient twice, the inputs once, their
    gradient once. A norm: two reads and a write forward; backward two reads of input and gradient and a write. An
    addition: one read more each way. ReLU rides along.
    """
    inputs, outputs = prod(layer.in_shape), prod(layer.out_shape)
    if layer.kind == "conv":
        return 3 * inputs + 3 * outputs
    return {"norm": 8 * outputs, "add": 2 * outputs}.get(layer.kind, 0)


def arithmetic_speed(device: torch.device) -> float:
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    return 2 * size**3 / min(timed(lambda: matrix @ matrix) for _ in range(5))


def copy_speed(device: torch.device) -> float:
    values = torch.zeros(2**28 if device.type == "cuda" else 2**25, device=device)
    other = torch.empty_like(values)
    return 2 * values.nbytes / min(timed(lambda: other.copy_(values)) for _ in range(5))
