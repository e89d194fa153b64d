"""The least time that a device needs for a training, from the speeds it shows here."""

import time
from collections.abc import Callable

import torch
from fleet_rows import Row


def timed(function: Callable[[], object]) -> float:
    synchronise()
    start = time.perf_counter()
    function()
    synchronise()
    return time.perf_counter() - start


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def lower_bound(
    row: Row, width: float, examples: int, device: torch.device, flops: float, bandwidth: float
) -> float:
    """The longer of arithmetic and memory traffic for one epoch of one network trained alone.

    A step takes 6 operations per multiply-add (forward, and two products backward).
    """
    products, values = row.needs(width)
    size = 2 if device.type == "cuda" else 4
    return examples * max(6 * products / flops, size * values / bandwidth)


def arithmetic_speed(device: torch.device) -> float:
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    return 2 * size**3 / min(timed(lambda: matrix @ matrix) for _ in range(5))


def copy_speed(device: torch.device) -> float:
    values = torch.zeros(2**28 if device.type == "cuda" else 2**25, device=device)
    other = torch.empty_like(values)
    return 2 * values.nbytes / min(timed(lambda: other.copy_(values)) for _ in range(5))
