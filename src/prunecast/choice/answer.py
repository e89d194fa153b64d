"""The answer to the paper's motivating question: which network to train, and how far to prune it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from prunecast.choice.caveats import caveats
from prunecast.choice.costs import read_off, with_costs
from prunecast.choice.counts import Naming, counter
from prunecast.choice.latency import timed_with as with_latency
from prunecast.choice.options import Network, Options, measured_options, predicted_options
from prunecast.choice.question import (
    ALLOW_AROUND,
    DEFAULT_CONFIDENCE,
    DEFAULT_SIZES,
    Given,
    Measure,
    Question,
    SizeRange,
    as_fit,
    check_bounded,
    check_reachable,
    check_target,
    question_for,
)
from prunecast.choice.search import Inversion, Search
from prunecast.choice.sizes import allowed, below_plateau, candidates, inside_mask
from prunecast.display import Displayable
from prunecast.errors import PrunecastError
from prunecast.findings import Finding
from prunecast.laws import AUTO, Fit, Verdict, verdict
from prunecast.metric import Metric

RUNNERS_UP, APART = 5, 1.5
SAME_DENSITY = 1e-6
"""A requested and a measured density count as the same if they differ by less than this (relative)."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """The smallest network that meets the target unpruned, the usual one to prune."""

    depth: float
    """the number of layers"""
    width: float
    """the width, as in the table"""
    unpruned_error: float
    """measured, or predicted by the dense law"""
    unpruned_size: float
    """in the measure that is minimised"""
    pruned_size: float
    """the same network pruned as far as the target allows"""
    times_smaller: float
    """its pruned size over the answer's"""


@dataclass(frozen=True, kw_only=True, repr=False)
class Choice(Displayable):
    """Which network to train and how far to prune it."""

    law: str
    """the name of the law that answers"""
    table: str
    """the table that the law was fitted to"""
    metric: Metric
    """what `error` and `target_error` mean"""
    question: Question
    """the target, the budgets and the other options that were given"""
    verdict: Verdict
    """how far the law can be trusted here; if it is unusable, only networks that were trained are considered"""
    met: bool
    """whether the target is met; if not, `answer` is the best that is possible"""
    answer: Network
    """the recommended network; if the target is not met, the one that comes closest to it"""
    runners_up: tuple[Network, ...]
    """the best choice for up to five other sizes, in order"""
    matching: Matching | None
    """the smallest network that meets the target unpruned; None if there is none, or no target"""
    further: Network | None = None
    """the best network outside the measured range that is predicted to meet the target, if none inside does"""
    findings: tuple[Finding, ...]
    """remarks on the answer, such as that it lies outside the measured range"""
    naming: Naming
    """the axes and the unit of size that the table gives"""
    timed_with: str = ""
    """runtime, batch and threads of the latencies, joined by hyphens; empty where the table does not say"""

    @property
    def trusted(self) -> bool:
        """Whether the answer can be relied on: the network was trained, or the law is usable."""
        return self.verdict.usable or self.answer.source == "measured"

    @property
    def out_of_reach(self) -> bool:
        """Whether no network meets the target; a question that names a density has an answer whatever its error."""
        return not self.met and self.question.density is None

    def __repr__(self) -> str:
        """The answer's main numbers in one line."""
        best, target = self.answer, self.question.target_error
        sizes = {"depth": f"depth {best.depth:g}", "width": f"width {best.width:.4g}"}
        words = [text for axis, text in sizes.items() if axis in self.naming.axes]
        words.append(f"density {best.density:.4g}, level {best.level}")
        words.append(
            f"{self.metric.word} {best.error:.4f} in [{best.interval[0]:.4f}, {best.interval[1]:.4f}]"
        )
        if target is not None:
            words.append(f"target {target:g} {'met' if self.met else 'not met'}")
        return f"<Choice by {self.law} from {self.table}: {', '.join(words)}>"


def choose(
    source: Given,
    *,
    target_error: float | None = None,
    max_parameters: float | None = None,
    max_training: float | None = None,
    max_latency: float | None = None,
    minimise: str = Measure.STORED,
    confidence: float = DEFAULT_CONFIDENCE,
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
    depth: float | None = None,
    width: float | None = None,
    density: float | None = None,
    timed_with: str | None = None,
    law: str = AUTO,
) -> Choice:
    """Choose the smallest network whose error is at most the target, or the best network within a budget.

    Args:
        source: a fitted law; a table to fit one to, or its path, shipped name or DataFrame; the file of a saved law.
        target_error: the largest error accepted, as a share: 0.12 is 12%.
        max_parameters: size budget, in the measure that is minimised.
        max_training: training budget, in training runs of the costliest measured network.
        max_latency: latency budget in milliseconds; the table needs the column latency_ms that `prunecast time` writes.
        minimise: "stored" or "parameters" (non-zero weights, biases and normalisation), "nonzero", "multiply-adds",
            "paper" (l·w²·d); "bytes" or "latency", which the table must have. Bytes are known at measured sizes only;
            the latency of others is predicted where three or more sizes were timed.
        confidence: the probability that a new training run meets the target; at 0.5, its expected error meets it.
        num_examples: training examples; by default the largest measured number.
        sizes: "measured"; "within", also sizes between the measured ones, whose unpruned error is predicted;
            or "around", also sizes outside them. Where only a network outside meets the target, a finding names it.
        depth, width, density: consider only this one; all three name one network.
        timed_with: which latency to use, such as "onnx-64" for 64 images in ONNX Runtime; by default the table's
            latency_ms.
        law: the law to fit, if `source` is a table.

    Returns:
        The answer with its runners-up and findings. `met` says whether the target is met; if not, `answer` is the
        closest network.

    Raises:
        PrunecastError: there is no target or budget, a value is impossible, or no network fits the budget.
    """
    fitted = as_fit(source, law)
    if timed_with is not None:
        fitted = with_latency(fitted, timed_with)
    check_reachable(target_error, fitted)
    question = question_for(
        fitted,
        target_error=target_error,
        max_parameters=max_parameters,
        max_training=max_training,
        max_latency=max_latency,
        minimise=minimise,
        confidence=confidence,
        num_examples=num_examples,
        sizes=sizes,
        depth=depth,
        width=width,
        density=density,
    )
    check_bounded(question)
    return Chooser(fitted, question).choice()


def choose_each(fit: Fit, target_errors: Iterable[float], **asked: Any) -> list[Choice]:
    """`choose` for many targets; `asked` are its other options. What the targets share is computed once."""
    return Chooser(fit, question_for(fit, **asked)).choices(list(target_errors))


class Chooser:
    """Answers a question for one or many targets; what the targets share is computed once."""

    def __init__(self, fit: Fit, question: Question) -> None:
        """Find the networks that the question is about, and refuse a question that no network could answer."""
        family = counter(fit).family
        if family is not None and question.depth is not None and not float(question.depth).is_integer():
            raise PrunecastError(
                f"the depth of a {family} is a whole number of layers, not {question.depth:g}"
            )
        named = {"only_depth": question.depth, "only_width": question.width}
        found = candidates(fit, question.num_examples, question.sizes, **named)
        networks = with_costs(fit, below_plateau(fit, allowed(fit, found, question), question), question)
        rows = measured_options(fit, networks)
        if question.density is not None:
            rows = rows[np.isclose(rows.density, question.density, rtol=SAME_DENSITY)]
        inversion = Inversion(fit=fit, networks=networks)
        self._search = Search(fit=fit, question=question, inversion=inversion, verdict=verdict(fit))
        self._trained = rows[self._search.affordable(rows)]
        self._rows = rows

    def choice(self) -> Choice:
        """The answer to the question."""
        target = self._search.question.target_error
        return self._answer(self._search, None) if target is None else self.choices([target])[0]

    def choices(self, target_errors: Sequence[float]) -> list[Choice]:
        """The answer for each target."""
        search = self._search
        for target in target_errors:
            check_target(target, search.fit.metric)
        pruned = search.for_targets(search.candidates, target_errors)
        return [
            self._answer(replace(search, question=replace(search.question, target_error=target)), options)
            for target, options in zip(target_errors, pruned, strict=True)
        ]

    def least_error(self) -> Network:
        """The network with the lowest error."""
        return self._search.networks(self._by_error, [0])[0]

    @cached_property
    def _unpruned(self) -> Options:
        networks = self._search.candidates
        return predicted_options(self._search.fit, networks, np.ones(len(networks)))

    @cached_property
    def _by_error(self) -> Options:
        """Predicted networks at their lowest error and measured networks, the best first."""
        search = self._search
        question = search.question
        options = search.for_least_error(search.candidates).joined(self._trained)
        if not len(options):
            budget = question.budgeted and (search.law_answers or len(self._rows))
            raise PrunecastError(_unaffordable(search, self._rows) if budget else _untrained())
        bound = np.round(options.log_bound(search.fit, question.confidence), 9)
        return options[np.lexsort((search.size(options), bound))]

    def _answer(self, search: Search, pruned: Options | None) -> Choice:
        """Rank the networks pruned to a target and the measured ones that meet it; else rank all by error."""
        question, fit = search.question, search.fit
        if pruned is not None:
            pruned = pruned.joined(self._trained[search.meets(self._trained)])
        met = pruned is None or len(pruned) > 0
        options = pruned[np.argsort(search.size(pruned), kind="stable")] if pruned else self._by_error
        best, *runners_up = search.networks(options, [0, *_runners_up(options)])
        beyond = None if met else _beyond_measured(search)
        compared = met and question.target_error is not None and question.density is None
        return Choice(
            law=fit.law,
            table=fit.origin.table,
            metric=fit.metric,
            question=question,
            verdict=search.verdict,
            met=met,
            answer=best,
            runners_up=tuple(runners_up),
            matching=_matching(search, self._unpruned, self._rows, options) if compared else None,
            further=beyond,
            findings=tuple(caveats(search, options, best, met, beyond)),
            naming=search.naming,
            timed_with=fit.origin.timed_with,
        )


def _beyond_measured(search: Search) -> Network | None:
    """The best network outside the measured range that is predicted to meet the target, or else the budgets.

    Only the default range of sizes needs it: `measured` rules such networks out, and `around` considers them anyway.
    """
    fit, question = search.fit, search.question
    if question.sizes is not SizeRange.WITHIN or fit.dense is None or not search.verdict.usable:
        return None
    if read_off(fit, question):
        return None
    named = {"only_depth": question.depth, "only_width": question.width}
    wide = candidates(fit, question.num_examples, SizeRange.AROUND, **named)
    others = wide[~inside_mask(fit, wide) & (wide.expected_unpruned_error < fit.high_error)]
    if not len(others):
        return None
    if question.target_error is None:
        options = search.for_least_error(others)
        score = options.log_bound(fit, question.confidence)
    else:
        (options,) = search.for_targets(others, [question.target_error])
        score = search.size(options)
    return search.networks(options, [int(score.argmin())])[0] if len(options) else None


def _unaffordable(search: Search, trained: Options) -> str:
    """Say that the budget is too small, what would be enough, and which network outside the measured range fits."""
    words = f"no network of these sizes fits the budget: {search.least_budget(trained)}; raise the budget"
    other = _beyond_measured(replace(search, question=replace(search.question, target_error=None)))
    if other is None:
        return words
    sizes = [
        f"{axis} {getattr(other, axis):.4g}" for axis in ("depth", "width") if axis in search.naming.axes
    ]
    return (
        f"{words}; outside the measured range, {', '.join(sizes)}, density {other.density:.4g} fits: use "
        f"{ALLOW_AROUND}"
    )


def _untrained() -> str:
    """Say that the law is unusable and that no such network was trained."""
    return "the data do not determine the law, and no network of these sizes was trained; prune further"


def _runners_up(options: Options) -> list[int]:
    """The next best networks that differ in depth, or by half in width; the best measured size is always included."""
    depth, log_width = options.networks.depth, np.log(options.networks.width)
    measured = np.flatnonzero(options.networks.measured)[:1]
    listed = [0, *(int(index) for index in measured if index > 0)]
    for index in range(1, len(options)):
        if len(listed) > RUNNERS_UP:
            break
        wider = np.abs(log_width[listed] - log_width[index]) > np.log(APART)
        if ((depth[listed] != depth[index]) | wider).all():
            listed.append(index)
    return sorted(listed[1:])


def _matching(search: Search, unpruned: Options, rows: Options, options: Options) -> Matching | None:
    """The smallest network that meets the target unpruned, pruned as far as the target allows.

    If the law is unusable, only networks that were trained count.
    """
    known = search.law_answers | unpruned.networks.measured
    meets = np.flatnonzero(search.meets(unpruned) & known)
    if not len(meets):
        return None
    size = search.size(unpruned)
    best = meets[np.argmin(size[meets])]
    depth, width = unpruned.networks.depth[best], unpruned.networks.width[best]
    every = options.joined(rows)
    pruned = every[(every.networks.depth == depth) & (every.networks.width == width)]
    smallest = float(search.size(pruned[search.meets(pruned)]).min(initial=size[best]))
    return Matching(
        depth=float(depth),
        width=float(width),
        unpruned_error=float(unpruned.networks.unpruned_error[best]),
        unpruned_size=float(size[best]),
        pruned_size=smallest,
        times_smaller=smallest / float(search.size(options)[0]),
    )
