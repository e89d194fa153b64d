"""What a fit knows about itself, as typed values; `prunecast.wording` puts them into sentences."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from prunecast.findings import Finding
from prunecast.laws.saved import decoded


class Remedy(StrEnum):
    """What would help where curves show too little of the rise."""

    PRUNE_FURTHER = "prune further"
    SMALLER_STEPS = "smaller steps"
    SHARPER_LAW = "a law with sharper bends"


@dataclass(frozen=True, kw_only=True)
class CurvesTooShort:
    """What the curves show and what would show more; curves that reach chance cannot be pruned further."""

    configurations: int
    reached_chance: int
    """configurations that were pruned until they were at chance"""
    more_levels: int | None
    """further levels that the other curves need; None if every curve has reached chance"""


@dataclass(frozen=True, kw_only=True)
class NoRise(Finding, CurvesTooShort):
    """No curve leaves its low plateau, so the data determine nothing about the rise."""

    kind: ClassVar[str] = "undetermined"
    symbols: tuple[str, ...]
    """of the undetermined parameters"""
    margin: float
    """the share above the unpruned error that counts as a rise"""


@dataclass(frozen=True, kw_only=True)
class Undetermined(Finding):
    """A parameter that the data leave open."""

    kind: ClassVar[str] = "undetermined"
    parameter: str
    symbol: str


@dataclass(frozen=True, kw_only=True)
class PlateauNotReached(Undetermined, CurvesTooShort):
    """No curve comes near its high plateau."""

    highest_error: float
    rows_near: int
    """rows near the high plateau"""
    chance_known: bool


@dataclass(frozen=True, kw_only=True)
class RiseTooShort(Undetermined, CurvesTooShort):
    """Too few rows lie on the rise to show its slope."""

    highest_error: float
    rows_risen: int
    """rows clearly above their unpruned error"""


@dataclass(frozen=True, kw_only=True)
class WideInterval(Undetermined):
    """The interval of a parameter is too wide to act on."""

    lower: float
    upper: float
    axis: str = ""
    """of an exponent: the axis on which more sizes would help"""
    remedy: Remedy | None = None


@dataclass(frozen=True, kw_only=True)
class ScaleFollowsPlateau(Undetermined):
    """The scale p is open because the plateau ε↑ is; of the two, only p·ε↑^(1/slope) is known."""

    plateau_symbol: str
    slope_symbol: str
    """empty if the law has no slope"""


@dataclass(frozen=True, kw_only=True)
class TwoSizesOnly(Finding):
    """An exponent rests on two sizes, so nothing tests it."""

    kind: ClassVar[str] = "weak"
    parameter: str
    symbol: str
    axis: str


@dataclass(frozen=True, kw_only=True)
class AtBound(Finding):
    """The search for a parameter ended at its limit."""

    kind: ClassVar[str] = "bound"
    parameter: str
    symbol: str
    bound: float
    explained: bool
    """whether the bound has a meaning, or another finding already calls the parameter undetermined"""


@dataclass(frozen=True, kw_only=True)
class FlatProfile(Finding):
    """Very different values of a parameter fit almost as well."""

    kind: ClassVar[str] = "flat"
    parameter: str
    symbol: str
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class OutsideInterval(Finding):
    """The paper's estimate lies outside the interval, which does not take unpruned errors as exact."""

    kind: ClassVar[str] = "outside"
    parameter: str
    symbol: str


@dataclass(frozen=True, kw_only=True)
class DipsIgnored(Finding):
    """Errors fall below their unpruned value where the law is flat."""

    kind: ClassVar[str] = "dip"
    dipping: int
    configurations: int
    deepest: float
    """relative to the unpruned error"""
    depth: float
    width: float
    num_examples: float
    mean_deviation: float
    following_law: str
    """how to ask for a law that follows dips; empty if there is none"""


@dataclass(frozen=True, kw_only=True)
class TooLarge(Finding):
    """Networks with more unpruned error than a smaller one has; the paper leaves them out."""

    kind: ClassVar[str] = "oversized"
    too_large: int
    configurations: int
    depth: float
    width: float
    num_examples: float
    """the one with the largest unpruned error"""


@dataclass(frozen=True, kw_only=True)
class Missed(Finding):
    """A configuration that the law predicts badly."""

    kind: ClassVar[str] = "miss"
    depth: float
    width: float
    num_examples: float
    mean: float
    std: float


@dataclass(frozen=True, kw_only=True)
class MoreMissed(Finding):
    """Further configurations like those listed."""

    kind: ClassVar[str] = "miss"
    count: int


@dataclass(frozen=True, kw_only=True)
class FewConfigurations(Finding):
    """Too few configurations to test the law: intervals rest on the scatter of rows alone."""

    kind: ClassVar[str] = "few"
    configurations: int


@dataclass(frozen=True, kw_only=True)
class WidenedIntervals(Finding):
    """Intervals are widened on purpose, as there are not many configurations."""

    kind: ClassVar[str] = "few"
    configurations: int
    enough: int


@dataclass(frozen=True, kw_only=True)
class NoReplicates(Finding):
    """No configuration was trained twice, so the noise is unknown."""

    kind: ClassVar[str] = "few"


@dataclass(frozen=True, kw_only=True)
class AtChance(Finding):
    """Rows no better than guessing, left out of the fit."""

    kind: ClassVar[str] = "chance"
    rows: int
    chance: float


@dataclass(frozen=True, kw_only=True)
class LawPreference(Finding):
    """Which law predicts left-out configurations better, and by how much."""

    kind: ClassVar[str] = "preference"
    law: str
    """the law that was fitted"""
    best: str
    best_source: str
    """how to ask for it: its name, or module:attribute"""
    best_title: str
    best_rms: float
    other: str
    """the fitted law if it is not the best, else the second best"""
    other_title: str
    other_rms: float
    clear: bool
    """whether the best one is clearly better"""


@dataclass(frozen=True, kw_only=True)
class LawsAveraged(Finding):
    """Predictions are averages over laws that the data cannot distinguish."""

    kind: ClassVar[str] = "averaged"
    titles: tuple[str, ...]
    """what the laws are called, the fitted one first"""
    weights: tuple[float, ...]
    rms: tuple[float, ...]
    """the deviation of each on configurations left out"""

    def __post_init__(self) -> None:
        """Refuse what cannot be put into a sentence."""
        if not len(self.titles) == len(self.weights) == len(self.rms):
            raise ValueError("the laws averaged over do not all have a title, a weight and a deviation")
        if not all(map(math.isfinite, (*self.weights, *self.rms))):
            raise ValueError("a weight or a deviation of the laws averaged over is not a number")


@dataclass(frozen=True, kw_only=True)
class AxisNeverVaried(Finding):
    """A prediction away from the only value that an axis was measured at."""

    kind: ClassVar[str] = "never_varied"
    axis: str
    value: float


TYPES: dict[str, type[Finding]] = {
    kind.__name__: kind
    for kind in (
        NoRise,
        PlateauNotReached,
        RiseTooShort,
        WideInterval,
        ScaleFollowsPlateau,
        TwoSizesOnly,
        AtBound,
        FlatProfile,
        OutsideInterval,
        DipsIgnored,
        TooLarge,
        Missed,
        MoreMissed,
        FewConfigurations,
        WidenedIntervals,
        NoReplicates,
        AtChance,
        LawPreference,
        LawsAveraged,
    )
}
"""The types of findings that a saved law may contain."""


def undetermined(findings: Iterable[Finding], known_at_bound: Iterable[str]) -> set[str]:
    """The parameters that findings call undetermined, or whose search ended at a meaningless bound."""
    known = set(known_at_bound)
    found: set[str] = set()
    for finding in findings:
        if isinstance(finding, Undetermined) or (
            isinstance(finding, AtBound) and finding.parameter not in known
        ):
            found.add(finding.parameter)
    return found


def to_json(finding: Finding) -> dict[str, Any]:
    """A finding with the name of its type, for a saved law."""
    return {"type": type(finding).__name__, **asdict(finding)}


def from_json(body: dict[str, Any]) -> Finding:
    """The finding that `to_json` described."""
    fields = {name: value for name, value in body.items() if name != "type"}
    return decoded(TYPES[body["type"]], fields, body["type"])
