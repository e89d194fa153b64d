"""Predict what pruning will do to a network before anybody pays for it."""

__version__ = "0.1.0"
