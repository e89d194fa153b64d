"""A fitted law as a value, with everything that predictions need and without the table's rows."""

from dataclasses import dataclass, field

import numpy as np

from prunecast.findings import Finding
from prunecast.laws import findings
from prunecast.laws.dense import DenseLaw
from prunecast.laws.deviations import Deviation, NoiseFloor
from prunecast.laws.law import Law, PruningForm, Role, get_law, inner, restored
from prunecast.laws.points import Floats, UntrainedSize
from prunecast.metric import Metric


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One (depth, width, number of examples), what was measured there, and how well the law fits it."""

    depth: float
    """the number of layers, as in the table"""
    width: float
    """the width, as in the table"""
    num_examples: float
    """the number of training examples"""
    unpruned_error: float
    """the error at density 1, the mean over replicates"""
    replicates: float
    """how many replicates that mean is over"""
    weights: float
    """prunable weights, or proportional to them if the table does not count them"""
    lowest_density: float
    """of its measured rows"""
    highest_error: float
    """of its measured rows"""
    lowest_error: float
    """of its measured rows"""
    deviation: Deviation
    """of the law on these rows"""
    curve: tuple[tuple[float, float, float], ...] = ()
    """density, error and replicates of each measured row, for answers that a law alone cannot give"""
    never_pruned: float | None = None
    """all other parameters, such as biases and normalisation; None if the table does not count them"""
    costs: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict, hash=False)
    """by column of costs that the table has, density and cost of every level, from the lowest density up"""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The uncertainty of the parameters, and the spread of single training runs."""

    centre: Floats
    draws: Floats
    """normal draws of the inner parameters; quantiles are Student's t with `degrees`"""
    degrees: float
    run: float
    """standard deviation of log ε of a single training run around the law"""
    unpruned: float
    """standard deviation of a measured log ε_np around the value that fits the law"""
    possible: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """inner parameters, one set per row, that fit about as well; empty if the data determine all parameters"""
    open_slope: float = 0.0
    """standard deviation of d log ε / d log density below the measured densities; zero if the data determine it"""


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another law fitted to the same data, and its weight in predictions."""

    law: str
    """its name, or module:attribute"""
    axes: tuple[str, ...]
    parameters: dict[str, float]
    weight: float
    """its share of the likelihood of configurations left out"""

    def form(self) -> PruningForm:
        """The law's functional form."""
        return restored(get_law(self.law), tuple(self.parameters), self.axes)

    def theta(self) -> Floats:
        """The parameters on the inner scale of the form."""
        return inner(self.form(), np.array(list(self.parameters.values()), dtype=float))


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a law's data came from."""

    table: str
    digest: str
    family: str
    dataset: str
    method: str
    recipe: str
    chance: float | None
    timed_with: str = ""
    """runtime, batch and threads of the table's latencies, as `prunecast time` names them; empty if it has none"""


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLaw:
    """What a fit found; `Fit` adds what it can do."""

    law: str
    """the name of the law"""
    metric: Metric
    """what is predicted: errors, losses or another metric"""
    axes: tuple[str, ...]
    """which of depth, width and num_examples the invariant contains"""
    reference_examples: float
    """the number of examples that counts as one in the invariant"""
    parameters: dict[str, float]
    """by name, as the paper writes them: high_error ε↑, gamma γ, p p′, phi φ, psi ψ, and those of other laws"""
    intervals: dict[str, tuple[float, float]]
    """95% intervals; the interval of a fixed parameter has zero width"""
    fixed: tuple[str, ...]
    """the parameters that were not fitted"""
    deviation: Deviation
    """the relative deviation (predicted − measured) / measured over all rows: `mean`, `std` and `rms`"""
    regions: dict[str, Deviation]
    """the same for the rows of each region: low plateau, power law, high plateau"""
    noise_floor: NoiseFloor | None
    """the deviation that noise alone causes; None without replicates"""
    held_out: dict[str, float]
    """rms deviation of each law on configurations left out, if there are enough of them"""
    rows: int
    """how many rows were fitted"""
    at_chance: int
    """rows no better than chance, left out of the fit"""
    rises: bool
    """whether any measured curve leaves its low plateau; if not, the data determine no pruning law"""
    kept_per_level: float
    """share of the weights that one level of pruning keeps, read from the table"""
    counted: bool
    """whether weights are counts; else they are in proportion to l·w²"""
    columns: frozenset[str]
    """the columns that the table had; others were filled in"""
    selected: bool
    """whether networks that are too large for their data were left out of the table"""
    configurations: tuple[Configuration, ...]
    """every configuration that was fitted: its sizes, its curve, and how well the law fits it"""
    findings: tuple[Finding, ...]
    """what a reader should know besides the numbers"""
    spread: Spread
    """the random draws behind the intervals of predictions"""
    alternatives: tuple[Alternative, ...] = ()
    """laws that the data cannot distinguish from this one; predictions are averages, weighted by likelihood"""
    dense: DenseLaw | None
    """the law of unpruned errors; None if there are too few configurations"""
    origin: Origin
    """the table that the law was fitted to: its name, digest, family, dataset, method and recipe"""
    options: dict[str, str]
    """how the fit was made"""
    untrained: tuple[UntrainedSize, ...] = ()
    """sizes that were timed without training, from which latencies of other sizes are predicted"""

    @property
    def _law(self) -> Law:
        return get_law(self.law)

    @property
    def title(self) -> str:
        """What the law is called."""
        return self._law.title

    @property
    def family_law(self) -> str:
        """The law's name for another fit; for Eq. 1, which fits one configuration, it is Eq. 2."""
        return self._law.family_law

    @property
    def dips(self) -> bool:
        """Whether the law may predict a lower error than that of the unpruned network."""
        return self._law.dips

    @property
    def equation(self) -> str:
        """The law's equation in plain text."""
        return self._law.equation_of(self.form())

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The parameters that the data do not determine."""
        known = {parameter.name for parameter in self.form().parameters if parameter.bound_is_known}
        found = findings.undetermined(self.findings, known)
        found |= set() if self.rises else set(self.parameters) - known
        return tuple(name for name in self.parameters if name in found and name not in self.fixed)

    @property
    def plateau(self) -> str | None:
        """The name of the parameter that is the error of the high plateau; None if the law has none."""
        at = self.form().find(Role.PLATEAU)
        return None if at is None else self.form().parameters[at].name

    @property
    def high_error(self) -> float:
        """The error of networks pruned to nothing; if the law has no plateau, chance or the largest error."""
        if self.plateau is not None:
            return self.parameters[self.plateau]
        if self.origin.chance is not None:
            return self.origin.chance
        return min(self.metric.highest, 2 * max(c.highest_error for c in self.configurations))

    @property
    def exponents(self) -> dict[str, str]:
        """The name of the exponent of each axis of the invariant."""
        return self.form().exponents

    def symbol(self, name: str) -> str:
        """The symbol of a parameter."""
        return self._described(name)[0]

    def meaning(self, name: str) -> str:
        """What a parameter means, in a few words."""
        return self._described(name)[1]

    def _described(self, name: str) -> tuple[str, str]:
        parameter = self.form().parameters[self.form().index(name)]
        return parameter.symbol, parameter.meaning

    def form(self) -> PruningForm:
        """The law's functional form, for evaluation."""
        return restored(self._law, tuple(self.parameters), self.axes)

    def theta(self) -> Floats:
        """The parameters on the inner scale of the form."""
        return inner(self.form(), np.array(list(self.parameters.values()), dtype=float))
