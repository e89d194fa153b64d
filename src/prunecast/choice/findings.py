"""What an answer knows about itself besides its numbers, as typed values; `prunecast.wording` puts them into words."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from prunecast.choice.question import Measure
from prunecast.findings import Finding


@dataclass(frozen=True, kw_only=True)
class AboutTarget(Finding):
    """A finding that holds for the target error asked for, and perhaps not for another one."""


@dataclass(frozen=True, kw_only=True)
class TargetOutOfReach(AboutTarget):
    """No network meets the target, so the answer is the network with the least error."""

    kind: ClassVar[str] = "target_out_of_reach"
    target_error: float
    confidence: float
    budget: bool
    """whether a budget of parameters or training was given, too"""
    law: str
    least_unpruned: float | None
    """the least unpruned error of the candidates; None where predictions may go below it, or none are made"""


@dataclass(frozen=True, kw_only=True)
class NetworkBeyondMeasured(AboutTarget):
    """A network outside what was measured is predicted to meet the target; only a wider question returns it."""

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
    """The networks of the table lose whole channels."""

    kind: ClassVar[str] = "channels_removed"


@dataclass(frozen=True, kw_only=True)
class CostFromTable(Finding):
    """What is minimised or bounded is known at measured sizes, and interpolated between their densities.

    Of costs only latency is predicted at other sizes.
    """

    kind: ClassVar[str] = "cost_from_table"
    measure: Measure
    flat: bool
    """whether pruning changes nothing about it"""
    timed_sizes: int = 0
    """the sizes from which the latency of others is predicted; 0 where it cannot be"""
    deviation: float | None = None
    """relative deviation of such predictions, of each timed size left out in turn; None where there are none"""
    others: bool = False
    """whether other sizes were considered"""
    interval: tuple[float, float] | None = None
    """in which 95% of networks fall that are predicted as the answer is; None where its latency is the table's own"""


@dataclass(frozen=True, kw_only=True)
class MeasuredWithinBudget(Finding):
    """The answer was measured, and the law predicts nothing better within the budget."""

    kind: ClassVar[str] = "measured_within_budget"


@dataclass(frozen=True, kw_only=True)
class MeasuredBeatsLaw(AboutTarget):
    """The answer was measured, and is smaller than every network that the law predicts to meet the target."""

    kind: ClassVar[str] = "measured_beats_law"
    law: str
    minimise: Measure
    predicted_size: float
    """of the smallest network by the law, in the measure that is minimised"""
    share_of_largest: float | None
    """the same as a share of the largest measured network; None where parameters are counted"""


@dataclass(frozen=True, kw_only=True)
class ImpossibleByLawButMeasured(AboutTarget):
    """The law calls the target impossible, but measured networks meet it or let a new run be expected to."""

    kind: ClassVar[str] = "impossible_by_law_but_measured"
    law: str
    least_error: float
    """the least error that the law predicts of any candidate at any density"""
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
    """Two values that were measured each, but not together."""

    axes: tuple[str, str]
    values: tuple[float, float]
    sides: tuple[int, int]
    """1: this much or more; −1: this much or less"""
    reach: float
    """how far the second axis was measured on that side of the first value"""


@dataclass(frozen=True, kw_only=True)
class OutsideMeasured(Finding):
    """The answer lies outside what was measured."""

    kind: ClassVar[str] = "outside_measured"
    ranges: tuple[MeasuredRange, ...]
    """axes on which the answer is outside the measured range"""
    pairs: tuple[MeasuredPair, ...]
    """pairs of other axes whose combination is outside the measured range"""
    density: float | None
    """the answer's density where it is below every measured one, else None"""
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
    """The answer comes from another law than the default one."""

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
    """Pruned networks, which train again and again, are much better than unpruned ones."""

    kind: ClassVar[str] = "trained_too_briefly"


@dataclass(frozen=True, kw_only=True)
class NoDenseLaw(Finding):
    """There are too few configurations for a law of the unpruned error, so only measured sizes are candidates."""

    kind: ClassVar[str] = "no_dense_law"


@dataclass(frozen=True, kw_only=True)
class ValidationErrorsUsed(Finding):
    """The choice was made by validation errors, not by test errors."""

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
    """The answer's density was reached with other numbers of examples only."""

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
    """Widths are square roots of shares of the largest network's parameters, as of tables that only count these."""

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
