"""Steps, images and multiply-adds of chains, counted before anything runs."""

import functools

from prunecast.catalog import FAMILIES, DatasetFacts, architecture, find_dataset
from prunecast.spec import ChainSpec
from prunecast.sweep.grid import PlannedChain
from prunecast.training import timeline

TRAINING_WORK = 3
"""Multiply-adds of a training step relative to a forward pass: the backward pass costs two forward passes."""


@functools.cache
def multiply_adds(family: str, depth: int, width: float) -> float:
    """Multiply-adds per image; for a user's own family 1e6 · depth · width², which is enough to order its chains."""
    if family not in FAMILIES or depth not in FAMILIES[family].depths:
        return 1e6 * depth * width**2
    return float(architecture(family, depth=depth, width=width, num_classes=10).multiply_adds)


def training_steps(spec: ChainSpec, level: int) -> int:
    """Training steps of a level. Later levels start at the rewind point; a trained start has none at level 0."""
    if level == 0 and spec.start_trained:
        return 0
    times = timeline(spec.recipe, spec.num_examples)
    whole = level == 0 or spec.method.before_training
    return times.total if whole else times.total - times.rewind


def chain_steps(chain: PlannedChain) -> int:
    """Training steps of a chain up to its level cap."""
    return training_steps(chain.spec, 0) + chain.rules.level_cap * training_steps(chain.spec, 1)


def evaluated_images(spec: ChainSpec, facts: DatasetFacts | None = None) -> int:
    """Images evaluated after a level: the test set, the training examples and the held-out ones."""
    facts = facts or find_dataset(spec.dataset, spec.loader)
    test = facts.test_examples if facts else spec.num_examples
    return spec.num_examples + test + spec.recipe.validation_examples


def chain_images(chain: PlannedChain) -> int:
    """Images evaluated by a chain up to its level cap."""
    return (chain.rules.level_cap + 1) * evaluated_images(chain.spec, chain.facts)


def level_work(spec: ChainSpec, level: int) -> float:
    """Multiply-adds of one level, evaluation included."""
    times = timeline(spec.recipe, spec.num_examples)
    images = TRAINING_WORK * training_steps(spec, level) * times.batch + evaluated_images(spec)
    return images * multiply_adds(spec.family, spec.depth, spec.width)


def chain_work(chain: PlannedChain, done: int = 0) -> float:
    """Multiply-adds of a chain from level `done` to its level cap."""
    later = chain.rules.level_cap + 1 - max(done, 1)
    first = level_work(chain.spec, 0) if done == 0 else 0.0
    return first + max(0, later) * level_work(chain.spec, 1)
