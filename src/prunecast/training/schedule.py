"""When things happen in a training run, in steps, and the learning rate as a function of the step."""

from collections.abc import Iterator
from dataclasses import dataclass

from prunecast.spec import Recipe


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A recipe in steps, for a given number of examples."""

    batch: int
    """Examples per step: the recipe's batch, or all examples where there are fewer."""
    epoch: int
    """Steps per epoch; the last partial batch is dropped."""
    total: int
    """Steps of a whole training run."""
    rewind: int
    """The step to which a chain rewinds."""
    warmup: int
    """Steps of linear warm-up."""
    drops: tuple[int, ...]
    """Steps from which the learning rate is lower."""


def timeline(recipe: Recipe, num_examples: int) -> Timeline:
    """Convert a recipe to steps: position e of E epochs is step round(total · e / E).

    The rewind point is before the last step, so that there is always something to retrain.
    """
    batch = min(recipe.batch_size, num_examples)
    epoch = num_examples // batch
    total = recipe.steps or max(1, round(recipe.epochs * epoch))

    def step(position: float) -> int:
        return round(total * position / recipe.epochs)

    return Timeline(
        batch=batch,
        epoch=epoch,
        total=total,
        rewind=min(step(recipe.rewind), total - 1),
        warmup=step(recipe.warmup),
        drops=tuple(step(drop) for drop in recipe.drops),
    )


def learning_rate(recipe: Recipe, times: Timeline, step: int) -> float:
    """Return peak · min(1, step / warm-up) · factor^(drops passed); after the last drop it stays constant."""
    warm = min(1.0, step / times.warmup) if times.warmup else 1.0
    passed = sum(step >= drop for drop in times.drops)
    return recipe.learning_rate * warm * recipe.drop_factor**passed


def stretches(times: Timeline, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut the steps from `first` to before `last` at the ends of epochs and at the rewind point.

    The cuts do not depend on where a run resumes, so what is done once per stretch (seeding a network's own
    noise) does not depend on interruptions.
    """
    while first < last:
        end = min(last, (first // times.epoch + 1) * times.epoch)
        if first < times.rewind < end:
            end = times.rewind
        yield first, end
        first = end


def checkpoint_due(recipe: Recipe, times: Timeline, first: int, end: int) -> bool:
    """Return whether to write a checkpoint after a stretch: at the first epoch end past every interval."""
    interval = max(recipe.checkpoint_steps, times.epoch)
    epoch_before = first // times.epoch * times.epoch
    return end % times.epoch == 0 and end // interval > epoch_before // interval
