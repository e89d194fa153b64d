"""How arithmetic is done: number formats, determinism, and threads, each restored afterwards."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from prunecast.spec import Precision


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Run convolutions and products in bfloat16 under bf16 (parameters stay float32); else change nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextmanager
def settings(
    precision: Precision, device: torch.device, threads: int, *, trials: bool = True
) -> Iterator[None]:
    """Arithmetic as a chain needs it, and the caller's own settings back at the end.

    On CPU algorithms are deterministic and the threads fixed, which makes a run repeatable bit for bit. On a
    GPU fp32 means IEEE float32, tf32 is used only if asked, and with `trials` every algorithm is tried out at
    the first call of its kind.
    """
    # The other switch of torch for the same thing imports its whole compiler, which takes seconds.
    old_threads, old_deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    old_benchmark = cudnn.benchmark
    old_tf32 = matmul.allow_tf32, cudnn.allow_tf32
    on_cpu = device.type == "cpu"
    try:
        torch.set_deterministic_debug_mode("error" if on_cpu else old_deterministic)
        cudnn.benchmark = trials and not on_cpu
        matmul.allow_tf32 = cudnn.allow_tf32 = precision != "fp32"
        if on_cpu:
            torch.set_num_threads(threads)
        with torch.random.fork_rng(devices=[] if on_cpu else [device]):
            yield
    finally:
        torch.set_num_threads(old_threads)
        torch.set_deterministic_debug_mode(old_deterministic)
        cudnn.benchmark = old_benchmark
        matmul.allow_tf32, cudnn.allow_tf32 = old_tf32
