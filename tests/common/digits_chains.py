"""A tiny chain on digits that trains in a fraction of a second a level, for the tests of several parts."""

import dataclasses

from prunecast import spec

RECIPE = spec.recipe("digits").changed(
    {"epochs": 4, "rewind": 1.5, "batch_size": 25, "augmentation": "flip-shift"}
)
CHAIN = spec.ChainSpec(
    family="digits_cnn",
    dataset="digits",
    recipe=RECIPE,
    method=spec.method("imp"),
    depth=3,
    width=0.5,
    num_examples=100,
)


def changed(chain, **changes):
    """A chain with some fields changed; `recipe` may be a dict of changes, `method` a name."""
    if isinstance(changes.get("recipe"), dict):
        changes["recipe"] = chain.recipe.changed(changes["recipe"])
    if isinstance(changes.get("method"), str):
        changes["method"] = spec.method(changes["method"])
    return dataclasses.replace(chain, **changes)


def numbers(records):
    """Records without their time, device and code: what must not depend on where and when they were made."""
    return [dataclasses.replace(record, seconds=0.0, device="", code="") for record in records]
