"""A training step of packed CIFAR ResNets from kernels of our own."""

from prunecast.fleet.fused.compilers import compiler
from prunecast.fleet.fused.examine import Examination, examination
from prunecast.fleet.fused.kernels import NoKernels
from prunecast.fleet.fused.program import Unfused
from prunecast.fleet.fused.step import FusedStep, fused_step, on_device

__all__ = [
    "Examination",
    "FusedStep",
    "NoKernels",
    "Unfused",
    "compiler",
    "examination",
    "fused_step",
    "on_device",
]
