"""One pruning step: criterion, structure and schedule give the next level's masks.

The schedule gives the fraction of the remaining units to remove: ⌈fraction · remaining⌉, so every level removes at
least one. The structure defines the units, and the criterion scores them; those with the lowest scores are removed. Of
equal scores, the first goes first: in module order, row-major within a layer.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from torch import nn

from prunecast.errors import PrunecastError
from prunecast.plugins import Registry, function
from prunecast.pruning.criteria import CRITERIA, Criterion, PruningContext
from prunecast.pruning.masks import Masks, Scores, lowest
from prunecast.pruning.structure import LevelStructure, SingleWeights, Structure, structure_of
from prunecast.spec import CHANNELS, METHOD_NAMES, Method

MOST_LEVELS = 10_000
Schedule = Callable[[Method, int], float]
"""The fraction of the remaining units that a level, numbered from 1, removes: at least 0 and less than 1."""


SCHEDULES: Registry[Schedule] = Registry(
    "schedule", METHOD_NAMES["schedule"], "a function of a method and a level", function
)


def register_schedule(name: str, schedule: Schedule) -> Schedule:
    """Let plans name a schedule."""
    return SCHEDULES.add(name, schedule)


register_schedule("constant", lambda method, level: method.fraction)


def check_method(method: Method) -> None:
    """Import what a method names, so that a missing module is reported before anything is trained."""
    CRITERIA.get(method.score)
    structure_of(method.structure)
    fraction_at(method, 1)


def needs_images(method: Method) -> bool:
    """Whether a method's criterion looks at training examples."""
    return CRITERIA.get(method.score).needs_images


def check_structure(method: Method, model: nn.Module, image_shape: tuple[int, ...]) -> None:
    """Refuse a network that the method's structure does not understand."""
    structure = structure_of(method.structure)(model)
    if isinstance(structure, LevelStructure):
        structure.check(image_shape)


def fraction_at(method: Method, level: int) -> float:
    """The fraction of the remaining units that a level removes."""
    fraction = SCHEDULES.get(method.schedule)(method, level)
    if not 0 <= fraction < 1:
        raise PrunecastError(
            f"schedule {method.schedule!r}: the fraction of level {level} is {fraction}; "
            "return a number from 0 to below 1."
        )
    return fraction


def next_masks(context: PruningContext, final: int | None = None) -> Masks:
    """The masks of `context.level`, from those in the context.

    The context has the masks of the level before, or full ones if the method prunes before training. Such a method
    removes units in substeps and scores the rest again after each. A level never keeps fewer than `final` units.
    """
    method = context.method
    if not method.prunes:
        return dict(context.masks)
    criterion, structure = CRITERIA.get(method.score), structure_of(method.structure)(context.untrained)
    if isinstance(structure, LevelStructure):
        return structure.next_masks(
            context, criterion, lambda count: _kept(method, [count], context.level, None)[0], final
        )
    before = [structure.count(part) for part in _parts(criterion, structure, context.masks)]
    after = _kept(method, before, context.level, final)
    substeps = method.substeps if method.before_training else 1
    for substep in range(1, substeps + 1):
        targets = [_target(*counts, substep / substeps) for counts in zip(before, after, strict=True)]
        parts = _parts(criterion, structure, context.masks)
        surplus = [structure.count(part) - target for part, target in zip(parts, targets, strict=True)]
        if any(count > 0 for count in surplus):
            scores = criterion.scores(context)
            pruned = (
                _without(structure, part, scores, count) for part, count in zip(parts, surplus, strict=True)
            )
            context.masks = {name: mask for part in pruned for name, mask in part.items()}
    return context.masks


def _parts(criterion: Criterion, structure: Structure, masks: Masks) -> list[Masks]:
    """The sets of layers within which units are compared."""
    return structure.parts(masks) if criterion.per_layer else [masks]


def _kept(method: Method, before: Sequence[int], level: int, final: int | None) -> list[int]:
    """The units that each part keeps at a level."""
    if method.before_training:
        after = [kept_at(method, count, level) for count in before]
    else:
        after = [count - count_pruned(count, fraction_at(method, level)) for count in before]
    removed = [one - other for one, other in zip(before, after, strict=True)]
    most = sum(removed) if final is None else max(0, sum(before) - final)
    if most < sum(removed):
        removed = shared_out(most, removed)
    return [count - gone for count, gone in zip(before, removed, strict=True)]


def _target(before: int, after: int, share: float) -> int:
    """Units to keep after a share of the substeps: densities fall by the same factor from substep to substep."""
    return max(after, round(before * (after / before) ** share)) if before else 0


def _without(structure: Structure, masks: Masks, scores: Scores, count: int) -> Masks:
    """Remove the units with the lowest scores."""
    if count <= 0:
        return masks
    return structure.remove(masks, lowest(structure.unit_scores(masks, scores), count))


def count_pruned(remaining: int, fraction: float) -> int:
    """⌈fraction · remaining⌉, exactly: 0.2 is one fifth, not the nearest binary number."""
    return math.ceil(Fraction(repr(fraction)) * remaining)


def kept_at(method: Method, total: int, level: int) -> int:
    """How many of `total` units are left at a level."""
    for number in range(1, level + 1):
        total -= count_pruned(total, fraction_at(method, number))
    return total


def levels_to(method: Method, masks: Masks, final: int) -> int:
    """The level at which these masks keep `final` weights or fewer, pruned weight by weight.

    For channels this is an upper bound: the level that would keep a single weight.
    """
    structure = SingleWeights()
    if method.structure == CHANNELS:
        final = min(final, 1)
    parts = _parts(CRITERIA.get(method.score), structure, masks)
    remaining, level = [structure.count(part) for part in parts], 0
    while sum(remaining) > final:
        level += 1
        if level > MOST_LEVELS or not method.prunes:
            raise PrunecastError(
                f"the method {method.name!r} never prunes to {final} weights; choose another method."
            )
        fraction = fraction_at(method, level)
        remaining = [count - count_pruned(count, fraction) for count in remaining]
    return level


def shared_out(total: int, parts: Sequence[int]) -> list[int]:
    """Divide `total` in proportion to whole numbers, rounded down; the rest goes to the largest remainders."""
    whole = sum(parts)
    shares = [total * part // whole for part in parts]
    order = sorted(range(len(parts)), key=lambda place: -(total * parts[place] % whole))
    for place in order[: total - sum(shares)]:
        shares[place] += 1
    return shares
