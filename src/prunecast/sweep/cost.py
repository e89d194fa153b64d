"""What trainings cost in work that can be counted before anything runs: images times multiply-adds."""

import functools

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.spec import ChainSpec
from prunecast.sweep.grid import PlannedChain
from prunecast.training.schedule import timeline

TRAINING = 3
"""Multiply-adds of a training step over those of looking at the same images: backward costs twice forward."""


@functools.cache
def multiply_adds(family: str, depth: int, width: float) -> float:
    """Multiply-adds of one image; for a user's own family depth · width², which is as good for comparing."""
    if family not in FAMILIES or depth not in FAMILIES[family].depths:
        return 1e6 * depth * width**2
    return float(architecture(family, depth=depth, width=width, num_classes=10).multiply_adds)


def steps(spec: ChainSpec, level: int) -> int:
    """Training steps of a level: later ones start at the rewind point."""
    times = timeline(spec.recipe, spec.num_examples)
    whole = level == 0 or spec.method.before_training
    return times.total if whole else times.total - times.rewind


def evaluated(spec: ChainSpec) -> int:
    """Images that are looked at when a level is evaluated: the test half, the subsample, and what is held out."""
    facts = find_dataset(spec.dataset, spec.loader)
    test = facts.test_examples if facts else spec.num_examples
    return spec.num_examples + test + spec.recipe.validation_examples


def level_work(spec: ChainSpec, level: int) -> float:
    """Multiply-adds of one level, its evaluation included."""
    times = timeline(spec.recipe, spec.num_examples)
    images = TRAINING * steps(spec, level) * times.batch + evaluated(spec)
    return images * multiply_adds(spec.family, spec.depth, spec.width)


def chain_work(chain: PlannedChain, done: int = 0) -> float:
    """Multiply-adds of a chain from level `done` to its level cap."""
    later = chain.rules.level_cap + 1 - max(done, 1)
    first = level_work(chain.spec, 0) if done == 0 else 0.0
    return first + max(0, later) * level_work(chain.spec, 1)
