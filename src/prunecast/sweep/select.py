"""The paper's selection rule: networks beyond the point where growing the unpruned one hurts are left out.

On a line of networks that differ in depth alone, or in width alone, the first network is looked for whose
unpruned error lies above the lowest one before it by more than the replicates' noise. It and all that are
still deeper (or wider) on that line are left out. Errors are means over replicates; the noise of the
difference of two means over R and S replicates is σ √(1/R + 1/S) of the lower one, where σ is the relative
standard deviation of replicates around their own mean, pooled over the configurations that have several.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from prunecast.spec import ChainSpec

Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Select:
    """How the selection rule is applied."""

    tolerance: float = 2.0
    """Standard errors by which a larger network may be worse before it counts as worse."""
    noise: float | None = None
    """Relative standard deviation of replicates; None takes it from the replicates themselves."""


@dataclass(frozen=True, kw_only=True)
class Unpruned:
    """The unpruned errors of one configuration."""

    depth: int
    width: float
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over replicates."""
        return fmean(self.errors)


def left_out(rule: Select, errors: Mapping[ChainSpec, float]) -> dict[ChainSpec, str]:
    """The chains that the rule leaves out, with the reason; `errors` are those of level 0, by chain.

    Networks are compared only where all but depth and width is the same.
    """
    found: dict[ChainSpec, str] = {}
    ordered = sorted(errors, key=lambda spec: (str(_group(spec)), spec.depth, spec.width))
    for _, members in itertools.groupby(ordered, key=_group):
        specs = list(members)
        reasons = _judge(rule, _configurations(specs, errors))
        for spec in specs:
            if (spec.depth, spec.width) in reasons:
                found[spec] = reasons[spec.depth, spec.width]
    return found


def _group(spec: ChainSpec) -> Key:
    return (
        *(spec.family, spec.dataset, spec.loader, spec.image_size, spec.num_examples, spec.threads),
        *(spec.recipe, spec.method),
    )


def _configurations(specs: Iterable[ChainSpec], errors: Mapping[ChainSpec, float]) -> list[Unpruned]:
    found: dict[tuple[int, float], list[float]] = {}
    for spec in specs:
        found.setdefault((spec.depth, spec.width), []).append(errors[spec])
    return [
        Unpruned(depth=depth, width=width, errors=tuple(own)) for (depth, width), own in sorted(found.items())
    ]


def pooled_noise(configurations: Sequence[Unpruned]) -> float:
    """The relative standard deviation σ of replicates around their mean; 0 where nothing is replicated."""
    several = [own for own in configurations if len(own.errors) > 1 and own.mean > 0]
    squares = sum((error / own.mean - 1) ** 2 for own in several for error in own.errors)
    freedom = sum(len(own.errors) - 1 for own in several)
    return math.sqrt(squares / freedom) if freedom else 0.0


def _judge(rule: Select, configurations: Sequence[Unpruned]) -> dict[tuple[int, float], str]:
    noise = pooled_noise(configurations) if rule.noise is None else rule.noise
    reasons: dict[tuple[int, float], str] = {}
    for axis, other, word in (("width", "depth", "wider"), ("depth", "width", "deeper")):
        by_line = sorted(configurations, key=lambda own: (getattr(own, other), getattr(own, axis)))
        for _, members in itertools.groupby(by_line, key=lambda own: getattr(own, other)):
            for own, reason in _beyond(list(members), axis, word, rule.tolerance * noise):
                reasons.setdefault((own.depth, own.width), reason)
    return reasons


def _beyond(
    line: Sequence[Unpruned], axis: str, word: str, tolerance: float
) -> Iterable[tuple[Unpruned, str]]:
    """The networks of one line from the first on that is worse than the best one before it."""
    best, reason = line[0], ""
    for own in line[1:]:
        spread = tolerance * best.mean * math.sqrt(1 / len(own.errors) + 1 / len(best.errors))
        if not reason and own.mean > best.mean + spread:
            reason = (
                f"{word} than {axis} {getattr(best, axis):g} raises the unpruned error: {best.mean:.4f} there, "
                f"{own.mean:.4f} at {axis} {getattr(own, axis):g} (tolerance {spread:.4f})"
            )
        if reason:
            yield own, reason
        elif own.mean < best.mean:
            best = own
