"""A fitted law as a value: everything an answer needs, nothing of the rows it came from."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prunecast.errors import PrunecastError
from prunecast.laws.catalogue import named
from prunecast.laws.dense import DenseLaw
from prunecast.laws.dip import DIP_RATIO
from prunecast.laws.forms import PruningForm, inner
from prunecast.laws.identify import Note, unknown
from prunecast.laws.judge import Deviation, NoiseFloor
from prunecast.laws.points import Floats
from prunecast.laws.words import SYMBOLS
from prunecast.text import plural

if TYPE_CHECKING:
    from prunecast.laws.predict import Prediction

FORMAT_VERSION = 1
LEFT_OUT = "left out"
"""The option `too_large` of a law whose table was without networks that are too large for their data."""


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


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One (depth, width, number of examples) and how the law meets it."""

    depth: float
    width: float
    num_examples: float
    unpruned_error: float
    replicates: float
    weights: float
    """prunable weights, or in proportion to them where the table does not count them"""
    lowest_density: float
    highest_error: float
    lowest_error: float
    deviation: Deviation
    curve: tuple[tuple[float, float, float], ...] = ()
    """density, error and replicates of each measured row, for answers that a law alone cannot give"""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What the data leave open about the parameters and about a single training."""

    centre: Floats
    draws: Floats
    """normal draws of the inner parameters; quantiles are Student's t with `degrees`"""
    degrees: float
    run: float
    """standard deviation of log ε of a single training around the law"""
    unpruned: float
    """standard deviation of a measured log ε_np as the law means it"""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fit:
    """A law with its parameters, how sure they are, how well it fits, and what the data cannot tell."""

    law: str
    metric: str
    axes: tuple[str, ...]
    """which of depth, width and num_examples the invariant contains"""
    reference_examples: float
    """the number of examples that counts as one in the invariant"""
    parameters: dict[str, float]
    """as the paper writes them: high_error ε↑, gamma γ, p p′, phi φ, psi ψ; for the law `dip` also nu, dip, ..."""
    intervals: dict[str, tuple[float, float]]
    """95% intervals; a parameter that was fixed has an interval of no width"""
    fixed: tuple[str, ...]
    deviation: Deviation
    regions: dict[str, Deviation]
    noise_floor: NoiseFloor | None
    held_out: dict[str, float]
    """rms deviation of each law on configurations left out, where there are enough of them"""
    rows: int
    at_chance: int
    """rows no better than chance, left out of the fit"""
    configurations: tuple[Configuration, ...]
    notes: tuple[Note, ...]
    spread: Spread
    dense: DenseLaw | None
    origin: Origin
    options: dict[str, str]

    def __repr__(self) -> str:
        """A line for who asks at a prompt; every field is there by its name."""
        numbers = ", ".join(
            f"{SYMBOLS.get(name, name)} {value:.3g}" for name, value in self.parameters.items()
        )
        off = f"off by {self.deviation.mean:+.1%} ± {self.deviation.std:.1%}"
        size = f"{plural(self.rows, 'row')} of {plural(len(self.configurations), 'configuration')}"
        notes = plural(len(self.notes), "note")
        return f"<Fit of {self.law} to {self.origin.table}: {numbers}; {off} on {size}, {notes}>"

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The parameters that the data do not determine."""
        told = unknown(self.notes, self.parameters.keys() - set(self.fixed))
        return tuple(name for name in self.parameters if name in told)

    @property
    def rises(self) -> bool:
        """Whether any measured curve leaves its low plateau; else the data tell no law of pruning."""
        return not any(note.kind == "undetermined" and note.parameter is None for note in self.notes)

    @property
    def needs_examples(self) -> bool:
        """Whether a prediction depends on the number of examples beyond its unpruned error."""
        return "num_examples" in self.axes or DIP_RATIO in self.parameters

    def interval(self, parameter: str) -> tuple[float, float]:
        """The 95% interval of a parameter."""
        if parameter not in self.intervals:
            raise PrunecastError(
                f"{self.law} has no parameter {parameter!r}; it has {', '.join(self.intervals)}"
            )
        return self.intervals[parameter]

    def form(self) -> PruningForm:
        """The law's functional form, for evaluation."""
        return named(self.law, tuple(self.parameters), self.axes)

    def theta(self) -> Floats:
        """The parameters in the inner scale of the form."""
        return inner(self.form(), np.array(list(self.parameters.values()), dtype=float))

    def predict(
        self,
        density: npt.ArrayLike,
        *,
        depth: npt.ArrayLike | None = None,
        width: npt.ArrayLike | None = None,
        num_examples: npt.ArrayLike | None = None,
        unpruned_error: npt.ArrayLike | None = None,
    ) -> "Prediction":
        """The error of networks pruned to these densities, with the interval a single new training falls in.

        The arguments broadcast against each other. What does not vary in the table need not be given; an
        unpruned error not given is the measured one of that configuration, or comes from the dense law.
        """
        from prunecast.laws.predict import predict

        return predict(
            self, density, depth=depth, width=width, num_examples=num_examples, unpruned_error=unpruned_error
        )

    def save(self, path: str | Path) -> None:
        """Write the law as plain JSON."""
        from prunecast.laws.saved import save

        save(self, Path(path))
