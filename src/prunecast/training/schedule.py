"""When things happen in a training run, in steps, and the learning rate as a function of the step.

A schedule of your own is a function of the recipe, its timeline and the step. A recipe names it as
`schedule = "package.module:function"`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prunecast.errors import PrunecastError
from prunecast.plugins import Registry, function
from prunecast.spec import RECIPE_NAMES, Recipe

ONE_CYCLE_RISE = 0.3
"""The share of a training run over which one-cycle raises the learning rate, if the recipe has no warm-up."""
ONE_CYCLE_START = 1 / 25
"""Where one-cycle starts, relative to its peak."""


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


LearningRateSchedule = Callable[[Recipe, Timeline, int], float]
"""The learning rate of a step. Steps count from 0; fine-tuning continues after the last one, `Timeline.total` − 1."""


LEARNING_RATE_SCHEDULES: Registry[LearningRateSchedule] = Registry(
    "learning-rate schedule",
    RECIPE_NAMES["schedule"],
    "a function of a recipe, a timeline and a step",
    function,
)


def register_learning_rate_schedule(name: str, schedule: LearningRateSchedule) -> LearningRateSchedule:
    """Let recipes name a schedule."""
    return LEARNING_RATE_SCHEDULES.add(name, schedule)


def learning_rate(recipe: Recipe, times: Timeline, step: int) -> float:
    """Return the learning rate of a step by the recipe's schedule."""
    rate = LEARNING_RATE_SCHEDULES.get(recipe.schedule)(recipe, times, step)
    if not (math.isfinite(rate) and rate >= 0):
        raise PrunecastError(
            f"learning-rate schedule {recipe.schedule!r}: the learning rate of step {step} is {rate}; "
            "return a number from 0 up."
        )
    return rate


def warm_up(times: Timeline, step: int) -> float:
    """Return min(1, step / warm-up), the factor by which a linear warm-up lowers the learning rate."""
    return min(1.0, step / times.warmup) if times.warmup else 1.0


def step_schedule(recipe: Recipe, times: Timeline, step: int) -> float:
    """Return peak · warm-up · factor^(drops passed); after the last drop it stays constant."""
    passed = sum(step >= drop for drop in times.drops)
    return recipe.learning_rate * warm_up(times, step) * recipe.drop_factor**passed


def cosine_schedule(recipe: Recipe, times: Timeline, step: int) -> float:
    """Rise linearly to the peak during warm-up, then fall along half a cosine to the final learning rate."""
    if step < times.warmup:
        return recipe.learning_rate * warm_up(times, step)
    return _cosine(recipe.learning_rate, recipe.final_learning_rate, step, times.warmup, times.total)


def one_cycle_schedule(recipe: Recipe, times: Timeline, step: int) -> float:
    """Rise along half a cosine from a 25th of the peak, then fall along another to the final learning rate.

    The rise takes the recipe's warm-up, or 30% of the training run. The momentum stays as it is.
    """
    peak, top = recipe.learning_rate, times.warmup or round(ONE_CYCLE_RISE * times.total)
    if step < top:
        return _cosine(peak * ONE_CYCLE_START, peak, step, 0, top)
    return _cosine(peak, recipe.final_learning_rate, step, top, times.total)


def _cosine(start: float, end: float, step: int, first: int, last: int) -> float:
    """Return end + (start − end) (1 + cos π x) / 2, with x from 0 at step `first` to 1 at step `last` and after it."""
    x = min(1.0, (step - first) / max(1, last - first))
    return end + (start - end) * (1 + math.cos(math.pi * x)) / 2


for _name, _schedule in (
    ("step", step_schedule),
    ("cosine", cosine_schedule),
    ("one-cycle", one_cycle_schedule),
):
    register_learning_rate_schedule(_name, _schedule)


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
