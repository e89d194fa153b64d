"""Kernels compiled once for a device and kept as long as the process runs."""

import threading
from collections.abc import Mapping
from functools import cache

import torch

from prunecast.fleet.fused.kernels import Kernels
from prunecast.fleet.fused.loaded import Library
from prunecast.fleet.fused.passes import Compile


@cache
def compiler(device: torch.device) -> Compile:
    """What gives kernels for a device; may be called from any thread."""
    found: dict[tuple[str, tuple[tuple[str, int], ...]], Library] = {}
    lock = threading.Lock()

    def kernels_of(source: str, macros: Mapping[str, int]) -> Kernels:
        key = source, tuple(sorted(macros.items()))
        library = found.get(key)
        if library is None:
            library = Library(source, macros, device=device)
            with lock:
                library = found.setdefault(key, library)
        return library

    return kernels_of
