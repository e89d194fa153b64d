"""The training step of packed CIFAR ResNets in CUDA kernels of the package."""

from prunecast.fleet.kernels.library import compiler
from prunecast.fleet.kernels.lowering import lower
from prunecast.fleet.kernels.nvrtc import NoKernels
from prunecast.fleet.kernels.passes import variants
from prunecast.fleet.kernels.program import Unfused
from prunecast.fleet.kernels.step import (
    FusedEvaluation,
    FusedStep,
    fused_evaluation,
    fused_step,
    on_device,
    refuse_recipe,
)

__all__ = [
    "FusedEvaluation",
    "FusedStep",
    "NoKernels",
    "Unfused",
    "compiler",
    "fused_evaluation",
    "fused_step",
    "lower",
    "on_device",
    "refuse_recipe",
    "variants",
]
