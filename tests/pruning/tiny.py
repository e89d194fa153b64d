"""A tiny chain on digits that trains in a fraction of a second a level."""

import os

import digits_chains
from digits_chains import changed
from torch import nn

from prunecast import data
from prunecast.pruning import PruningContext, StopRules, run_chain

CHAIN = changed(digits_chains.CHAIN, num_examples=200, recipe={"checkpoint_steps": 1})


def chain(**changes):
    return changed(CHAIN, **changes)


def digits():
    return data.load("digits")


def run(store, spec=CHAIN, *, cap=3, **options):
    return list(run_chain(spec, store, digits, rules=StopRules(level_cap=cap, at_chance=0), **options))


def work(store, spec, cap, pipe):
    """What a process does that may be killed at any moment."""
    os.environ["PRUNECAST_TRIES"] = (
        "1000"  # kills in a row before the first checkpoint are no fault of the chain
    )
    pipe.send("working")
    for _ in run_chain(spec, store, digits, rules=StopRules(level_cap=cap, at_chance=0)):
        pass


def context(method, masks, weights, *, level=1, replicate=0, model=None, image_shape=(1, 8, 8)):
    """What a criterion gets; `model` is the untrained network, if the criterion needs one."""
    return PruningContext(
        method=method,
        level=level,
        replicate=replicate,
        masks=masks,
        weights=weights,
        initial_weights=weights,
        untrained=model or nn.Module(),
        image_shape=image_shape,
    )
