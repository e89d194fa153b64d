"""The dip law: Eq. 2 over a low plateau that falls as pruning begins."""

from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws import eq2, formulas
from prunecast.laws.eq2 import GAMMA, HIGH, SCALE, Eq2Form
from prunecast.laws.law import Law, Parameter, PruningForm, register
from prunecast.laws.points import Floats, Points

NU, DIP, DIP_RATIO = "nu", "dip", "dip_ratio"
LEAST_SPAN = 4.0
"""Dataset sizes that span less than this factor cannot determine ν, which would run away in extrapolation."""

EXAMPLES_EXPONENT = Parameter.exponent(NU, "ν", "num_examples", lower=-1.0, upper=2.0, start=0.1)
DIP_DEPTH = Parameter(
    name=DIP,
    symbol="A",
    meaning="deepest dip below the unpruned value",
    lower=1e-6,
    upper=0.9,
    start=0.1,
    between_sizes=True,
    bound_is_known=True,
)
PARAMETERS = (
    *eq2.PARAMETERS,
    EXAMPLES_EXPONENT,
    DIP_DEPTH,
    Parameter(
        name=DIP_RATIO,
        symbol="ρ",
        meaning="examples per weight that halve the dip",
        lower=1e-6,
        upper=1e6,
        between_sizes=True,
        bound_is_known=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class DipForm(Eq2Form):
    """Eq. 2 with ε_np replaced by ε_low(d) = ε_np · (1 − a(1 − d²)), a = A / (1 + n/(ρM)).

    The dip is deepest, A, where there are few examples for the M weights of the unpruned network, and half as deep at ρ
    examples per weight. The invariant also depends on the data, m* = l^φ w^ψ (n/N)^ν d. Where n/M does not vary ρ is
    left out and a = A; where n hardly varies ν is left out. With A = 0 and ν = 0 this is Eq. 2.
    """

    @property
    def inputs(self) -> frozenset[str]:
        """The depth of the dip depends on the number of examples where ρ is fitted."""
        return frozenset((*self.axes, "num_examples") if self.has(DIP_RATIO) else self.axes)

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂."""
        dip, _ = self._dip(theta, points)
        return np.asarray(self._dipped_rows(theta, points, points.log_unpruned, dip)[0].log_error)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The derivatives of `formulas.pruned_error` through the falling plateau, and log ε̂."""
        dip, share = self._dip(theta, points)
        measured = points.log_unpruned if log_unpruned is None else log_unpruned
        rows, height = self._dipped_rows(theta, points, measured, dip)
        stack = self._filled(theta, points, rows, height)
        by_dip = stack[:, self.index(DIP)]
        by_dip[:] = (rows.upper - 1) * dip / (1 - dip)
        if share is not None:
            stack[:, self.index(DIP_RATIO)] = by_dip * points.per_row(share)
        return stack

    def smallest_density(self, theta: Floats, points: Points, log_target: Floats) -> Floats | None:
        """The curve falls before it rises, so there is no closed form."""
        return None

    def _dipped_rows(
        self, theta: Floats, points: Points, log_unpruned: Floats, dip: Floats
    ) -> tuple[formulas.PrunedError, Floats]:
        """Eq. 2 over the lowered plateau, and log(ε↑/ε_low), both of every row."""
        log_low = points.per_row(log_unpruned) + np.log1p(-dip)
        gamma, height = np.exp(self.column(theta, GAMMA)), self.column(theta, HIGH) - log_low
        scale = points.per_row(self._log_scale(theta, points))
        sharpness, power = self._sharpness(theta), self._inverse_power(theta, points)
        high, low = formulas.transitions(height, gamma, self.column(theta, SCALE), scale, sharpness)
        return formulas.pruned_error(log_low, power, high, low, gamma, sharpness), height

    def _dip(self, theta: Floats, points: Points) -> tuple[Floats, Floats | None]:
        """a(1 − d²) of every row, and ∂log a/∂log ρ of every configuration."""
        deepest = np.exp(self.column(theta, DIP)) * np.ones((1, points.configurations))
        share = None
        if self.has(DIP_RATIO):
            ratio = points.num_examples / points.weights / np.exp(self.column(theta, DIP_RATIO))
            deepest, share = deepest / (1 + ratio), ratio / (1 + ratio)
        return points.per_row(deepest) * (1 - points.density**2), share


@dataclass(frozen=True, kw_only=True, eq=False)
class DipLaw(Law):
    """Eq. 2 over a low plateau that falls, with up to three more parameters."""

    def form(self, points: Points, metric: str) -> PruningForm:
        """The parameters that the points can determine."""
        shared, axes = eq2.parameter_ranges(points, metric)
        added = [*examples_exponent(points), DIP_DEPTH]
        axes += tuple(parameter.axis for parameter in added if parameter.axis)
        ratio, dip_ratio = points.num_examples / points.weights, PARAMETERS[-1]
        if float(np.ptp(np.log(ratio))) > 0:
            lower, upper = float(ratio.min()) / 1e3, float(ratio.max()) * 1e3
            added.append(replace(dip_ratio, lower=lower, upper=upper, start=float(np.median(ratio))))
        return self.build((*shared, *added), axes)

    def build(self, parameters: tuple[Parameter, ...], axes: tuple[str, ...]) -> PruningForm:
        """The dip law with these parameters."""
        return DipForm(law=self, parameters=parameters, axes=axes)

    def equation_of(self, form: PruningForm) -> str:
        """Eq. 2 over the low plateau, and the plateau."""
        share = "A/(1 + n/(ρM))" if form.has(DIP_RATIO) else "A"
        low = f"low = unpruned · (1 − {share} · (1 − density²)),  n examples, M weights"
        return f"{eq2.equation('low', form.axes, sharp=form.has(eq2.SHARPNESS))};\n{low}"


def examples_exponent(points: Points) -> tuple[Parameter, ...]:
    """ν, where the dataset sizes span enough to determine it."""
    span = float(points.num_examples.max() / points.num_examples.min())
    return (EXAMPLES_EXPONENT,) if span >= LEAST_SPAN else ()


register(DipLaw(name="dip", title="the dip law", parameters=PARAMETERS, dips=True))
