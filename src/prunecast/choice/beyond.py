"""An answer outside what was measured: on which axes, what was measured there, and what to do about it."""

from collections.abc import Iterator

import numpy as np

from prunecast.choice.answer import Network, Question
from prunecast.laws import Fit
from prunecast.laws.predict import PLACE
from prunecast.laws.reach import SLACK, Gap, below, gaps


def beyond(fit: Fit, question: Question, best: Network) -> Iterator[str]:
    """A sentence where the answer lies outside, with the remedy."""
    if not best.extrapolated:
        return
    alone = dict(_alone(fit, best))
    together = list(_together(fit, best, set(alone)))
    where = ", ".join([*alone.values(), *together, *_density(fit, best)])
    by_size = bool(together or {"depth", "width"} & alone.keys())
    held = question.depth is not None or question.width is not None
    remedy = "measure there before you rely on it"
    if by_size and question.sizes == "around" and not held:
        remedy += ', or stay within with --sizes within (sizes="within" in Python)'
    yield f"This answer lies outside what was measured: {where}; {remedy}."


def _alone(fit: Fit, best: Network) -> Iterator[tuple[str, str]]:
    """Each axis on which nothing was measured that far out."""
    for name in PLACE:
        known = [getattr(c, name) for c in fit.configurations]
        value, low, high = getattr(best, name), min(known), max(known)
        if not low * (1 - SLACK) <= value <= high * (1 + SLACK):
            shown = ",.12g" if name == "num_examples" else "g"
            span = f"{low:{shown}} to {high:{shown}}" if low < high else f"{low:{shown}} alone"
            yield name, f"{name.replace('num_', 'number of ')} {value:{shown}} (measured: {span})"


def _together(fit: Fit, best: Network, alone: set[str]) -> Iterator[str]:
    """Every two axes, each of which was measured that far out, but not both at once."""
    told: set[tuple[str, str]] = set()
    for gap in gaps(fit, {name: np.array([getattr(best, name)]) for name in PLACE}):
        if gap.missed[0] and gap.axes not in told and not alone & set(gap.axes):
            told.add(gap.axes)
            yield _gap(gap, best)


def _gap(gap: Gap, best: Network) -> str:
    first, second = gap.axes
    value = f"{getattr(best, first):.4g}"
    those = f"{first}s up to {value}" if gap.sides[0] < 0 else f"{first}s from {value} on"
    limit = f"at {'least' if gap.sides[1] < 0 else 'most'}"
    if second == "num_examples":
        beside, measured = f"{best.num_examples:,.0f} examples", f"{limit} {gap.reach[0]:,.0f}"
    else:
        beside, measured = f"{second} {getattr(best, second):.4g}", f"{second}s of {limit} {gap.reach[0]:.4g}"
    return f"{first} {value} with {beside} ({those} were measured with {measured})"


def _density(fit: Fit, best: Network) -> Iterator[str]:
    if below(fit, np.array(best.density)):
        lowest = min(c.lowest_density for c in fit.configurations)
        yield f"density {best.density:.3g} (measured down to {lowest:.3g})"
