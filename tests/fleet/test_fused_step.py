"""A fused step, run kernel by kernel on the CPU, trains and evaluates a pack as the written step does."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import torch
from cuda_on_cpu import HAS_COMPILER, HostKernels
from fused_nets import packed
from torch import Tensor

from prunecast.data.memory import MemorySource
from prunecast.fleet.bench import EAGER, PackBench, bench_of, copy_bench, step
from prunecast.fleet.fused import Unfused, examination, fused_step
from prunecast.fleet.pack import Pack
from prunecast.spec import Recipe
from prunecast.training.precision import autocast

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="g++, which compiles the kernels, is missing")
BATCH = 4


def compile_for_cpu(source: str, macros: Mapping[str, int]) -> HostKernels:
    return _compiled(source, tuple(sorted(macros.items())))


@cache
def _compiled(source: str, macros: tuple[tuple[str, int], ...]) -> HostKernels:
    return HostKernels(source, dict(macros))
