"""Backends that start workers on many machines: Ray and Slurm."""
