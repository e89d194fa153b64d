"""How findings become sentences: one function for each type of finding.

The other modules of this package hold these functions, one module per package that defines findings.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import singledispatch
from itertools import groupby
from typing import Any, TypeVar

from prunecast.findings import Finding
from prunecast.metric import Metric

F = TypeVar("F", bound=Finding)
_TOGETHER: dict[type[Finding], Callable[[Any, Metric], str]] = {}


@singledispatch
def words(finding: Finding, metric: Metric) -> str:
    """A finding as a sentence; each type of finding registers a function for it."""
    raise NotImplementedError(f"there are no words for {type(finding).__name__}")


def words_together(
    kind: type[F],
) -> Callable[[Callable[[Sequence[F], Metric], str]], Callable[[Sequence[F], Metric], str]]:
    """Register the function that turns several successive findings of one type into one sentence."""

    def registered(function: Callable[[Sequence[F], Metric], str]) -> Callable[[Sequence[F], Metric], str]:
        _TOGETHER[kind] = function
        return function

    return registered


def sentence(finding: Finding, metric: Metric = Metric.ERROR) -> str:
    """One finding as a sentence (or two) about this metric."""
    return words(finding, metric)


def sentences(findings: Iterable[Finding], metric: Metric = Metric.ERROR) -> list[str]:
    """Findings as sentences, in order; successive findings of one type become one sentence if there is one for them."""
    found: list[str] = []
    for kind, group in groupby(findings, type):
        alike = list(group)
        if len(alike) > 1 and kind in _TOGETHER:
            found.append(_TOGETHER[kind](alike, metric))
        else:
            found += [sentence(finding, metric) for finding in alike]
    return found


def finding_as_json(finding: Finding, metric: Metric = Metric.ERROR) -> dict[str, Any]:
    """A finding as JSON: its kind, its sentence and its numbers."""
    return {"kind": finding.kind, "text": sentence(finding, metric), **asdict(finding)}
