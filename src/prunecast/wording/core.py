"""How findings become sentences: each type of finding has one function that words it.

The other modules of this package hold these functions, one module per package that defines findings.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

from prunecast.findings import Finding
from prunecast.metric import Metric

F = TypeVar("F", bound=Finding)
_WORDED: dict[type[Finding], Callable[[Any, Metric], str]] = {}


def words(kind: type[F]) -> Callable[[Callable[[F, Metric], str]], Callable[[F, Metric], str]]:
    """Register the function that words one type of finding; it gets the finding and the metric's word."""

    def registered(function: Callable[[F, Metric], str]) -> Callable[[F, Metric], str]:
        _WORDED[kind] = function
        return function

    return registered


def sentence(finding: Finding, metric: Metric = Metric.ERROR) -> str:
    """One finding as a sentence (or two) about this metric."""
    return _WORDED[type(finding)](finding, metric)


def sentences(findings: Iterable[Finding], metric: Metric = Metric.ERROR) -> list[str]:
    """Findings as sentences, in their order."""
    return [sentence(finding, metric) for finding in findings]


def finding_as_json(finding: Finding, metric: Metric = Metric.ERROR) -> dict[str, Any]:
    """A finding as JSON: its kind, its sentence and its numbers."""
    return {"kind": finding.kind, "text": sentence(finding, metric), **asdict(finding)}
