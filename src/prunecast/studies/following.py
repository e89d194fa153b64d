"""Which chain to train next, or how many more levels of which, to learn the most per unit of training."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from prunecast.catalog import FAMILIES
from prunecast.choice import choose
from prunecast.choice.naming import Naming, naming
from prunecast.choice.source import check_target
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.laws.points import Points
from prunecast.laws.predict import evaluate
from prunecast.laws.words import SYMBOLS
from prunecast.studies.refits import subject
from prunecast.studies.regret import expected_regret
from prunecast.studies.weighing import Suggestion, Weighing
from prunecast.table import Table

WORTH = 0.05
"""Suggestions take at least this share off the variance of predictions, where any does."""
SETTLED = 0.02
"""Below this expected regret more data would not change which network to choose."""
OF_A_KIND, THINNED = 2, 4
APART = 1.5
"""Suggestions of a kind differ by depth or examples, or by half in width."""


@dataclass(frozen=True, kw_only=True)
class Following:
    """What to measure next, best value first."""

    law: str
    table: str
    suggestions: tuple[Suggestion, ...]
    uncertainty: float
    """standard deviation of log ε̂ over the measured networks that the parameters cause"""
    run: float
    """standard deviation of log ε of a single training around the law, which no further data reduce"""
    regret: float
    """expected excess of parameters from choosing by today's estimate, if the law is right"""
    other_law_regret: float
    """the same if the other of Eq. 2 and `dip` is right; NaN where the rows are too few for that law"""
    one_size: bool
    """whether neither depth nor width varied, so that there is nothing to choose among"""
    settled: bool
    """whether more data would no longer change which network to choose"""
    doubt: str
    """why little regret does not settle the choice; empty where it does, or where the regret is not little"""
    notes: tuple[str, ...]
    naming: Naming
    """the axes that the table tells"""


def following(table: Table, *, law: str = "auto", target_error: float | None = None) -> Following:
    """Weigh new chains, more levels and further replicates by what they teach per training."""
    check_target(target_error, table.metric)
    fitted = fit(table, law=law)
    law = "dip" if fitted.law == "dip" else "eq2"
    one = subject(table, law)
    study = Weighing.of(fitted, one)
    found, said = list(study.suggestions()), naming(fitted, study.counter)
    other = _other(table, law)
    regret = expected_regret(fitted, target_error)
    beyond = tuple(_beyond(fitted, target_error))
    changed = np.nan if other is None else expected_regret(fitted, target_error, other=other)
    one_size = not {"depth", "width"} & set(fitted.axes)
    little = float(np.fmax(regret, changed)) < SETTLED
    doubt = next(_doubts(fitted, changed, bool(beyond)), "") if little else ""
    return Following(
        law=law,
        table=table.source,
        suggestions=tuple(_listed(found)),
        uncertainty=_uncertainty(fitted, one.points),
        run=fitted.spread.run,
        regret=regret,
        other_law_regret=changed,
        one_size=one_size,
        settled=little and not doubt and not one_size,
        doubt=doubt,
        notes=(*beyond, *_notes(fitted, said)),
        naming=said,
    )


def _other(table: Table, law: str) -> Fit | None:
    try:
        return fit(table, law="eq2" if law == "dip" else "dip")
    except PrunecastError:
        return None


def _beyond(fitted: Fit, target_error: float | None) -> Iterator[str]:
    """A target that nothing reaches leaves nothing to choose, which is not the same as a settled choice."""
    if target_error is not None and not choose(fitted, target_error=target_error).met:
        yield f"No network of these sizes gets to {target_error:g}, so there is nothing to choose yet."


def _doubts(fitted: Fit, changed: float, beyond: bool) -> Iterator[str]:
    """What could still move a choice that costs little by today's estimate."""
    if beyond:
        yield "no network gets to the target"
    if fitted.undetermined:
        symbols = ", ".join(SYMBOLS[name] for name in fitted.undetermined)
        yield f"they rest on {symbols}, which the data do not determine"
    if fitted.dense is None:
        yield "only measured sizes were compared, and another one may be smaller"
    if np.isnan(changed):
        yield "the rows are too few for the other law, so what it would choose is not known"


def _listed(found: list[Suggestion]) -> list[Suggestion]:
    """The best value, at most two of a kind; where nothing teaches much, what teaches most."""
    good = [own for own in found if own.reduction >= WORTH]
    if not good:
        return sorted(found, key=lambda own: -own.reduction)[:1]
    kept: list[Suggestion] = []
    for own in sorted(good, key=lambda own: -own.per_cost):
        of_kind = [other for other in kept if other.kind == own.kind]
        if len(of_kind) < OF_A_KIND and not any(_alike(own, other) for other in of_kind):
            kept.append(own)
    return kept


def _alike(one: Suggestion, other: Suggestion) -> bool:
    """Whether two suggestions are about nearly the same network."""
    near = abs(np.log(one.width / other.width)) < np.log(APART)
    return bool(near and (one.depth, one.num_examples) == (other.depth, other.num_examples))


def _uncertainty(fitted: Fit, points: Points) -> float:
    plain = replace(points, reference_depth=1.0)
    centre, _ = evaluate(fitted, fitted.spread.centre[None], plain)
    draws, _ = evaluate(fitted, fitted.spread.draws[::THINNED], plain)
    return float(np.sqrt(((draws - centre) ** 2).mean()))


def _notes(fitted: Fit, said: Naming) -> Iterator[str]:
    """What the reckoning leaves out."""
    first = fitted.configurations[0]
    for axis, other in (("depth", _other_depth(fitted)), ("width", f"{first.width / 4:g}")):
        if axis not in fitted.axes and (axis in said.axes or axis == "width"):
            known = f"{axis.capitalize()} never varied, so the law says nothing of it"
            yield f"{known}: only another one would, say {axis} {other}."
    if fitted.dense is None and fitted.axes:
        yield "There are too few configurations for a law of the unpruned error: that of new chains is a rough guess."
    for note in fitted.notes:
        if note.kind == "undetermined":
            yield note.text
    yield "Gains are the law's own reckoning: they assume that the law is right, and count no gain for the dense law."


def _other_depth(fitted: Fit) -> str:
    """The next shallower depth of a built-in family, else half the depth."""
    own = fitted.configurations[0].depth
    family = FAMILIES.get(fitted.origin.family)
    less = [depth for depth in family.depths if depth < own] if family else [own / 2]
    more = [depth for depth in family.depths if depth > own] if family else []
    return f"{less[-1] if less else more[0]:g}"
