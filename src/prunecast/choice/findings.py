"""The findings of an answer as typed values; `prunecast.wording` turns them into sentences."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from prunecast.choice.question import Measure
from prunecast.findings import Finding


@dataclass(frozen=True, kw_only=True)
class AboutTarget(Finding):
    """A finding about the requested target; it may not apply to other targets."""


@dataclass(frozen=True, kw_only=True)
class TargetOutOfReach(AboutTarget):
    """No network meets the target, so the answer is the network with the lowest error."""

    kind: ClassVar[str] = "target_out_of_reach"
    target_error: float
    confidence: float
    budget: bool
    """whether a budget was given, too"""
    law: str
    least_unpruned: float | None
    """the lowest unpruned error of the candidates; None if predictions may be lower, or there are none"""


@dataclass(frozen=True, kw_only=True)
class NetworkBeyondMeasured(AboutTarget):
    """A network outside the measured range is predicted to meet the target; only a wider question returns it."""

    kind: ClassVar[str] = "network_beyond_measured"
    depth: float | None
    """None where the table has no depths"""
    width: float | None
    """None where the table has no widths"""
    density: float
    stored_parameters: float | None
    """None if sizes are only known up to a factor"""
    share_of_largest: float | None
    """size as a share of the largest measured network; None where parameters are counted"""


@dataclass(frozen=True, kw_only=True)
class ChannelsRemoved(Finding):
    """The table's networks were pruned by whole channels."""

    kind: ClassVar[str] = "channels_removed"


@dataclass(frozen=True, kw_only=True)
class CostFromTable(Finding):
    """A cost is minimised or bounded that the table gives for measured sizes; latency may also be predicted."""

    kind: ClassVar[str] = "cost_from_table"
    measure: Measure
    flat: bool
    """whether pruning leaves it unchanged"""
    timed_sizes: int = 0
    """how many sizes were timed, to predict the latency of others; 0 if that is impossible"""
    timed_untrained: bool = False
    """whether predictions come from untrained networks"""
    deviation: float | None = None
    """relative deviation of such predictions on trained sizes, timed as if untrained or left out in turn; None if there
    are none"""
    others: bool = False
    """whether other sizes were considered"""
    interval: tuple[float, float] | None = None
    """95% of predicted latencies fall in this interval; None if the latency comes from the table"""


@dataclass(frozen=True, kw_only=True)
class MeasuredWithinBudget(Finding):
    """The answer was measured; the law predicts nothing better within the budget."""

    kind: ClassVar[str] = "measured_within_budget"


@dataclass(frozen=True, kw_only=True)
class MeasuredBeatsLaw(AboutTarget):
    """The answer was measured and is smaller than any network that the law predicts to meet the target."""

    kind: ClassVar[str] = "measured_beats_law"
    law: str
    minimise: Measure
    predicted_size: float
    """of the smallest network by the law, in the measure that is minimised"""
    share_of_largest: float | None
    """the same as a share of the largest measured network; None where parameters are counted"""


@dataclass(frozen=True, kw_only=True)
class ImpossibleByLawButMeasured(AboutTarget):
    """The target is impossible according to the law, but possible according to the measurements."""

    kind: ClassVar[str] = "impossible_by_law_but_measured"
    law: str
    least_error: float
    """the lowest error that the law predicts for any candidate at any density"""
    dips: bool
    """whether the law, or one averaged with it, may go below the unpruned error"""
    dipping_law: str
    """the name of a law that may; empty where there is none"""
    measured: bool
    """whether the answer itself was measured at or below the target"""


@dataclass(frozen=True, kw_only=True)
class MeasuredRange:
    """A value outside the range that was measured on one axis."""

    axis: str
    value: float
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class MeasuredPair:
    """Two values that were each measured, but not together."""

    axes: tuple[str, str]
    values: tuple[float, float]
    sides: tuple[int, int]
    """1: this much or more; −1: this much or less"""
    reach: float
    """how far the second axis was measured on this side of the first value"""


@dataclass(frozen=True, kw_only=True)
class OutsideMeasured(Finding):
    """The answer lies outside the measured range."""

    kind: ClassVar[str] = "outside_measured"
    ranges: tuple[MeasuredRange, ...]
    """axes on which the answer is outside the measured range"""
    pairs: tuple[MeasuredPair, ...]
    """pairs of other axes whose combination is outside the measured range"""
    density: float | None
    """the answer's density if it is below every measured one, else None"""
    lowest_density: float
    """the lowest density measured"""
    avoidable: bool
    """whether the question allowed sizes outside the measured range, so that a narrower question avoids them"""


@dataclass(frozen=True, kw_only=True)
class ParametersUndetermined(Finding):
    """The answer depends on parameters that the data do not determine."""

    kind: ClassVar[str] = "parameters_undetermined"
    parameters: tuple[str, ...]
    symbols: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AnsweredByLaw(Finding):
    """The answer does not come from the default law."""

    kind: ClassVar[str] = "answered_by_law"
    law: str


@dataclass(frozen=True, kw_only=True)
class UnprunedErrorPredicted(Finding):
    """This size was never trained, so the dense law and similar sizes predict its unpruned error."""

    kind: ClassVar[str] = "unpruned_error_predicted"
    unpruned_error: float
    deviation: float
    """relative rms deviation of the dense law on sizes left out"""


@dataclass(frozen=True, kw_only=True)
class TrainedTooBriefly(Finding):
    """Pruned networks are much better than unpruned ones, because they were trained longer."""

    kind: ClassVar[str] = "trained_too_briefly"


@dataclass(frozen=True, kw_only=True)
class NoDenseLaw(Finding):
    """There are too few configurations for a law of the unpruned error, so only measured sizes are candidates."""

    kind: ClassVar[str] = "no_dense_law"


@dataclass(frozen=True, kw_only=True)
class ValidationErrorsUsed(Finding):
    """The choice uses validation errors instead of test errors."""

    kind: ClassVar[str] = "validation_errors_used"


@dataclass(frozen=True, kw_only=True)
class FittedWithoutTooLarge(Finding):
    """The law was fitted without networks that are too large for their data."""

    kind: ClassVar[str] = "fitted_without_too_large"


@dataclass(frozen=True, kw_only=True)
class ExamplesMeasured(Finding):
    """The number of training examples chosen for, where the table has several."""

    kind: ClassVar[str] = "examples_measured"
    num_examples: float
    measured: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DensityOnlyAtOtherSizes(Finding):
    """The answer's density was reached only with other numbers of examples."""

    kind: ClassVar[str] = "density_only_at_other_sizes"
    num_examples: float
    lowest_density: float
    """the lowest density measured with this number of examples"""


class CountsUnknown(StrEnum):
    """Why the exact parameter counts of a built-in family are not used."""

    NO_FAMILY = "no_family"
    FAMILY_NOT_BUILT_IN = "family_not_built_in"
    NO_DATASET = "no_dataset"
    CLASSES_UNKNOWN = "classes_unknown"
    NO_DEPTHS = "no_depths"
    DEPTH_NOT_IN_FAMILY = "depth_not_in_family"
    COUNTS_DIFFER = "counts_differ"


@dataclass(frozen=True, kw_only=True)
class SizesNotExact(Finding):
    """Sizes are not the exact counts of a built-in family."""

    reason: CountsUnknown
    family: str
    dataset: str


@dataclass(frozen=True, kw_only=True)
class SizesProportional(SizesNotExact):
    """Sizes are known in proportion to l·w²·d only."""

    kind: ClassVar[str] = "sizes_proportional"


@dataclass(frozen=True, kw_only=True)
class CountsFromTable(SizesNotExact):
    """Parameter counts are the table's own."""

    kind: ClassVar[str] = "counts_from_table"
    complete: bool
    """whether the table counts parameters that are never pruned, too"""


@dataclass(frozen=True, kw_only=True)
class WidthFromCounts(Finding):
    """The table has only parameter counts, so a width is the square root of a share of the largest network's."""

    kind: ClassVar[str] = "width_from_counts"
    weights: float
    """of the answer, unpruned"""
    largest: float


@dataclass(frozen=True, kw_only=True)
class SizeInterpolated(Finding):
    """This size is not in the table, so its parameter counts are interpolated from those that are."""

    kind: ClassVar[str] = "size_interpolated"
    weights: float
    """prunable weights, unpruned"""
    never_pruned: float | None
    """the other parameters; None where the table does not count them"""
