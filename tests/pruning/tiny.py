"""A tiny chain on digits that trains in a fraction of a second a level."""

import dataclasses

from prunecast import data, spec
from prunecast.pruning import StopRules, run_chain
from prunecast.pruning.record import without_times

RECIPE = spec.recipe("digits").changed(
    {"epochs": 4, "rewind": 1.5, "batch_size": 25, "checkpoint_steps": 1, "augmentation": "flip-shift"}
)
CHAIN = spec.ChainSpec(
    family="digits_cnn",
    dataset="digits",
    recipe=RECIPE,
    method=spec.method("imp"),
    depth=3,
    width=0.5,
    num_examples=200,
)


def chain(**changes):
    """The tiny chain with some fields changed; `recipe` may be a dict of changes."""
    if isinstance(changes.get("recipe"), dict):
        changes["recipe"] = RECIPE.changed(changes["recipe"])
    if isinstance(changes.get("method"), str):
        changes["method"] = spec.method(changes["method"])
    return dataclasses.replace(CHAIN, **changes)


def digits():
    return data.load("digits")


def run(store, spec=CHAIN, *, cap=3, **options):
    return list(run_chain(spec, store, digits, rules=StopRules(level_cap=cap, at_chance=0), **options))


def work(store, spec, cap, pipe):
    """What a process does that may be killed at any moment."""
    pipe.send("working")
    for _ in run_chain(spec, store, digits, rules=StopRules(level_cap=cap, at_chance=0)):
        pass


def numbers(records):
    return [without_times(record) for record in records]
