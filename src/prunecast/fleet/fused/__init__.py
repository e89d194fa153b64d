"""A training step of packed CIFAR ResNets from kernels of our own."""

from prunecast.fleet.fused.compilers import compiler
from prunecast.fleet.fused.examine import Examination, examination
from prunecast.fleet.fused.kernels import NoKernels
from prunecast.fleet.fused.lower import lower
from prunecast.fleet.fused.prepare import variants
from prunecast.fleet.fused.program import Unfused
from prunecast.fleet.fused.step import FusedStep, fused_step, on_device, refuse_recipe

__all__ = [
    "Examination",
    "FusedStep",
    "NoKernels",
    "Unfused",
    "compiler",
    "examination",
    "fused_step",
    "lower",
    "on_device",
    "refuse_recipe",
    "variants",
]
