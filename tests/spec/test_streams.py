import itertools

import numpy as np

from prunecast.spec import rng, seed
from prunecast.spec import stream_key as key

PURPOSES = ("initialisation", "order", "augmentation", "subsample", "validation", "score", "noise")


def test_streams_never_share_a_key():
    names = itertools.product(range(5), PURPOSES, [(), (0,), (1,), (0, 0), (0, 1), (10,)])
    keys = [key(replicate, purpose, *counters) for replicate, purpose, counters in names]
    assert len(set(keys)) == len(keys)


def test_a_stream_is_the_same_for_ever():
    assert np.array_equal(rng(3, "order", 7).permutation(100), rng(3, "order", 7).permutation(100))
    assert rng(0, "order", 0).permutation(8).tolist() == [5, 1, 7, 6, 3, 0, 4, 2]
    assert seed(0, "initialisation") == 6114105904005595342


def test_seeds_fit_other_generators():
    assert all(0 <= seed(replicate, "initialisation") < 2**63 for replicate in range(100))
