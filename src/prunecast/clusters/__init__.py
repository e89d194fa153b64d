"""Sweeps on many machines: what a worker needs, what it is given at once, and the schedulers that start it."""
