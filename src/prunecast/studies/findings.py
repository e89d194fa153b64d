"""What studies know besides their numbers, as typed values; `prunecast.wording` puts them into words."""

from dataclasses import dataclass
from typing import ClassVar

from prunecast.findings import Finding


@dataclass(frozen=True, kw_only=True)
class AxisNotVaried(Finding):
    """An axis has only one value in the table, so the study says nothing about it."""

    kind: ClassVar[str] = "axis_not_varied"
    axis: str


@dataclass(frozen=True, kw_only=True)
class TooFewSizes(Finding):
    """An axis has too few sizes to extrapolate along it."""

    kind: ClassVar[str] = "too_few_sizes"
    axis: str
    sizes: int
    needed: int


@dataclass(frozen=True, kw_only=True)
class PaperSplitMissing(Finding):
    """The table lacks the sizes that the paper fits to predict all others."""

    kind: ClassVar[str] = "paper_split_missing"
    depths: tuple[float, ...]
    widths: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CurvesAtBounds(Finding):
    """Curves whose own fit ends at a search bound; spreads exclude them."""

    kind: ClassVar[str] = "curves_at_bounds"
    at_bounds: int
    curves: int


@dataclass(frozen=True, kw_only=True)
class NoNoiseOfReplicates(Finding):
    """No network was trained twice, so only the roughness of curves bounds the noise."""

    kind: ClassVar[str] = "no_noise_of_replicates"


@dataclass(frozen=True, kw_only=True)
class FewErrorsCrossed(Finding):
    """The curves with a number of examples cross too few of the errors at which networks are compared."""

    kind: ClassVar[str] = "few_errors_crossed"
    num_examples: float
    crossed: int
    errors: int
    judged: bool
    """whether they are judged nevertheless, as no others cross more; else a smaller dataset is judged"""


@dataclass(frozen=True, kw_only=True)
class NoRectangle(Finding):
    """No small set of curves spans the axes of the law, so a fit to few curves cannot be tried."""

    kind: ClassVar[str] = "no_rectangle"
