"""Random numbers as pure functions of (replicate, purpose, counters), so nothing about them is ever stored.

The words are joined to `prunecast/1/<replicate>/<purpose>/<counter>/...`, hashed with SHA-256, and the first
128 bits of the hash are the key of a Philox generator. Two purposes or two counters therefore never share
numbers, and the numbers of epoch 57 are known without drawing those of epochs 0 to 56.
"""

import hashlib
import threading
from typing import Literal

import numpy as np

Purpose = Literal["initialisation", "order", "augmentation", "subsample", "validation", "score", "noise"]

GENERATOR = threading.RLock()
"""Held by who seeds torch's own generator or draws from it: it is one for all threads."""


def key(replicate: int, purpose: Purpose, *counters: int) -> int:
    """The 128-bit key of one stream: the head of SHA-256 of its words."""
    words = "/".join(["prunecast", "1", str(replicate), purpose, *map(str, counters)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:16], "little")


def rng(replicate: int, purpose: Purpose, *counters: int) -> np.random.Generator:
    """The generator of one stream, the same on every machine."""
    return np.random.Generator(np.random.Philox(key=key(replicate, purpose, *counters)))


def seed(replicate: int, purpose: Purpose, *counters: int) -> int:
    """A 63-bit seed of the same stream for generators other than NumPy's."""
    return key(replicate, purpose, *counters) >> 65
