"""Eq. 2 of the paper and its relatives: Eq. 1 for a single configuration, and laws with a dip, sharper bends, or both.

Light pruning can lower the error where training was short; `dip` and `sharp-dip` follow that. On some datasets the
bends between the plateaus and the power law are sharper than those of Eq. 2, on others softer. `sharp` and `sharp-dip`
fit the sharpness s, which is 2 in Eq. 2; the slope of the power law is γ as before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws import formulas
from prunecast.laws.law import DEFAULT_LAW, Law, Parameter, PruningForm, Role, register
from prunecast.laws.points import Floats, Points
from prunecast.metric import Metric

HIGH, GAMMA, SCALE, PHI, PSI = "high_error", "gamma", "p", "phi", "psi"
NU, DIP, DIP_RATIO, SHARPNESS = "nu", "dip", "dip_ratio", "sharpness"
INVARIANT = {"depth": "depth^φ", "width": "width^ψ", "num_examples": "(n/N)^ν"}
"""The factor of each axis in the invariant, as it is written."""
HIGH_ERROR_QUANTILE = 0.9
"""ε↑ is at least the unpruned error of this share of configurations; of up to ten configurations, of all."""
LEAST_SPAN = 4.0
"""Dataset sizes that span less than this factor cannot determine ν, which would run away in extrapolation."""

PARAMETERS = (
    Parameter(
        name=HIGH,
        symbol="ε↑",
        meaning="height of the high plateau",
        lower=1e-3,
        upper=1.0,
        role=Role.PLATEAU,
    ),
    Parameter(
        name=GAMMA,
        symbol="γ",
        meaning="slope of the power-law region",
        lower=0.05,
        upper=20.0,
        start=0.6,
        role=Role.SLOPE,
    ),
    Parameter(
        name=SCALE,
        symbol="p′",
        meaning="where the high plateau ends, in m*",
        lower=1e-8,
        upper=10.0,
        role=Role.SCALE,
    ),
    Parameter.exponent(PHI, "φ", "depth"),
    Parameter.exponent(PSI, "ψ", "width"),
)
EXAMPLES_EXPONENT = Parameter.exponent(NU, "ν", "num_examples", lower=-1.0, upper=2.0, start=0.1)
DIP_PARAMETERS = (
    Parameter(
        name=DIP,
        symbol="A",
        meaning="deepest dip below the unpruned value",
        lower=1e-6,
        upper=0.9,
        start=0.1,
        between_sizes=True,
        bound_is_known=True,
    ),
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
SHARPNESS_PARAMETER = Parameter(
    name=SHARPNESS,
    symbol="s",
    meaning="sharpness of the bends; 2 in Eq. 2",
    lower=0.5,
    upper=8.0,
    start=2.0,
)


@dataclass(frozen=True, kw_only=True)
class Eq2Form(PruningForm):
    """Eq. 2, and with `axes` empty Eq. 1: φ or ψ is left out where depth or width does not vary."""

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of Eq. 2."""
        return np.asarray(self._rows(theta, points, points.log_unpruned)[0].log_error)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The analytic derivatives of `formulas.pruned_error`, and log ε̂."""
        rows, height = self._rows(
            theta, points, points.log_unpruned if log_unpruned is None else log_unpruned
        )
        return self._filled(theta, points, rows, points.per_row(height))

    def unpruned_slope(
        self, theta: Floats, points: Points, stack: Floats, log_unpruned: Floats | None = None
    ) -> Floats:
        """∂log ε̂/∂log ε_np = 1 − ∂log ε̂/∂log ε↑, as ε̂ is homogeneous of degree one in (ε_np, ε↑)."""
        return np.asarray(1 - stack[:, self.index(HIGH)])

    def smallest_density(self, theta: Floats, points: Points, log_target: Floats) -> Floats | None:
        """Eq. 2 solved for density."""
        gamma, height = np.exp(self.column(theta, GAMMA)), self.column(theta, HIGH) - points.log_unpruned
        sharpness = self._sharpness(theta)
        high, low = formulas.transitions(
            height, gamma, self.column(theta, SCALE), self._log_scale(theta, points), sharpness
        )
        single = float(np.ravel(gamma)[0]), float(np.ravel(sharpness)[0])
        return np.asarray(formulas.density_of(points.log_unpruned, log_target, high[0], low[0], *single))

    def to_plain_depth(self, points: Points) -> Floats:
        """The paper's p′ belongs to plain depth: log p′ + φ·log(reference depth)."""
        change = np.eye(len(self.parameters))
        if "depth" in self.axes:
            change[self.index(SCALE), self.index(PHI)] = np.log(points.reference_depth)
        return change

    def _log_scale(self, theta: Floats, points: Points) -> Floats:
        """log(l^φ w^ψ ...) of every configuration."""
        total = np.zeros((1, points.configurations))
        for axis in self.axes:
            total = total + self.column(theta, self.exponents[axis]) * points.log_axes[axis][0]
        return total

    def _sharpness(self, theta: Floats) -> Floats | float:
        """s, which is 2 in the paper."""
        return np.exp(self.column(theta, SHARPNESS)) if self.has(SHARPNESS) else 2.0

    def _inverse_power(self, theta: Floats, points: Points) -> Floats:
        """d⁻ˢ of every row."""
        if self.has(SHARPNESS):
            return np.asarray(np.exp(-self._sharpness(theta) * np.log(points.density)))
        return points.inverse_square_density

    def _rows(
        self, theta: Floats, points: Points, log_unpruned: Floats
    ) -> tuple[formulas.PrunedError, Floats]:
        """Eq. 2 at every row, and log(ε↑/ε_np) of every configuration."""
        gamma, height = np.exp(self.column(theta, GAMMA)), self.column(theta, HIGH) - log_unpruned
        sharpness = self._sharpness(theta)
        high, low = formulas.transitions(
            height, gamma, self.column(theta, SCALE), self._log_scale(theta, points), sharpness
        )
        high, low, log_unpruned = map(points.per_row, (high, low, log_unpruned))
        power = self._inverse_power(theta, points)
        return formulas.pruned_error(log_unpruned, power, high, low, gamma, sharpness), height

    def _filled(self, theta: Floats, points: Points, rows: formulas.PrunedError, height: Floats) -> Floats:
        """The stack of `formulas.pruned_error`; parameters beyond the exponents are left to the caller."""
        gamma, scale = np.exp(self.column(theta, GAMMA)), self.index(SCALE)
        stack = np.empty((len(theta), len(self.parameters) + 1, len(points)))
        stack[:, self.index(HIGH)] = rows.upper
        by_gamma = stack[:, self.index(GAMMA)]
        np.multiply(rows.log_ratio, gamma / self._sharpness(theta), out=by_gamma)
        by_gamma -= rows.upper * height
        np.subtract(rows.upper, rows.lower, out=stack[:, scale])
        stack[:, scale] *= gamma
        for axis in self.axes:
            by_exponent = stack[:, self.index(self.exponents[axis])]
            np.multiply(stack[:, scale], points.log_axes[axis][1], out=by_exponent)
            np.negative(by_exponent, out=by_exponent)
        if self.has(SHARPNESS):
            stack[:, self.index(SHARPNESS)] = self._by_sharpness(theta, points, rows, height)
        stack[:, -1] = rows.log_error
        return stack

    def _by_sharpness(
        self, theta: Floats, points: Points, rows: formulas.PrunedError, height: Floats
    ) -> Floats:
        """∂log ε̂/∂log s; log(p′/m*) is cut as `transitions` cuts it."""
        gamma, sharpness = np.exp(self.column(theta, GAMMA)), self._sharpness(theta)
        scale = points.per_row(self._log_scale(theta, points))
        high = sharpness * (self.column(theta, SCALE) - scale)
        low = high + sharpness * height / gamma
        shift = sharpness * np.log(points.density)
        high, low = (np.minimum(one, formulas.MAX_EXPONENT) - shift for one in (high, low))
        return np.asarray(gamma / sharpness * (rows.upper * low - rows.lower * high - rows.log_ratio))


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
class Eq2Law(Law):
    """Eq. 2 with φ and ψ where depth and width vary, perhaps with a dip (`dips`) and a sharpness of its own."""

    sharp: bool = False

    def form(self, points: Points, metric: str) -> PruningForm:
        """The parameters that the points can determine; a single configuration makes Eq. 2 Eq. 1."""
        parameters, axes = parameter_ranges(points, metric)
        if self.name == DEFAULT_LAW and points.configurations == 1:
            return EQ1.build(parameters, axes)
        span = float(points.num_examples.max() / points.num_examples.min())
        if (self.dips or self.sharp) and span >= LEAST_SPAN:
            parameters, axes = (*parameters, EXAMPLES_EXPONENT), (*axes, EXAMPLES_EXPONENT.axis)
        if self.dips:
            parameters = (*parameters, *_dip_parameters(points))
        return self.build((*parameters, *([SHARPNESS_PARAMETER] if self.sharp else [])), axes)

    def build(self, parameters: tuple[Parameter, ...], axes: tuple[str, ...]) -> PruningForm:
        """The law with these parameters."""
        return (DipForm if self.dips else Eq2Form)(law=self, parameters=parameters, axes=axes)

    def equation_of(self, form: PruningForm) -> str:
        """Eq. 2 and its invariant, and the low plateau where it dips."""
        low = "low" if self.dips else "unpruned"
        power, s = ("ˢ", "s") if self.sharp else ("²", "2")
        invariant = " · ".join([*(INVARIANT[axis] for axis in form.axes), "density"])
        ratio = f"(m*{power} + p′{power}(ε↑/{low})^({s}/γ)) / (m*{power} + p′{power})"
        equation = f"estimate = {low} · [{ratio}]^(γ/{s}),  m* = {invariant}"
        if not self.dips:
            return equation
        share = "A/(1 + n/(ρM))" if form.has(DIP_RATIO) else "A"
        return f"{equation};\nlow = unpruned · (1 − {share} · (1 − density²)),  n examples, M weights"


def parameter_ranges(points: Points, metric: str) -> tuple[tuple[Parameter, ...], tuple[str, ...]]:
    """The parameters of Eq. 2 for some points, with their ranges, and the axes of the invariant.

    ε↑ lies above half the largest error and above the unpruned errors of nine configurations in ten, and below 1
    (for a loss: a hundred times the largest one). A network that hardly learned has as much error unpruned as
    others pruned to nothing, and must not push the plateau of all the others up.
    """
    high, gamma, scale, *exponents = PARAMETERS
    varying = tuple(exponent.axis for exponent in exponents if np.ptp(getattr(points, exponent.axis)) > 0)
    top = float(points.error.max())
    lowest = max(top / 2, float(np.quantile(points.unpruned, HIGH_ERROR_QUANTILE, method="higher")))
    shared = (
        replace(high, lower=lowest, upper=1.0 if Metric(metric).is_share else 100 * top, start=top),
        gamma,
        replace(scale, start=float(np.sqrt(points.density.min())) / 10),
    )
    return (*shared, *(exponent for exponent in exponents if exponent.axis in varying)), varying


def _dip_parameters(points: Points) -> tuple[Parameter, ...]:
    """A, and ρ where the examples per weight vary, with its range."""
    depth, ratio_parameter = DIP_PARAMETERS
    ratio = points.num_examples / points.weights
    if float(np.ptp(np.log(ratio))) == 0:
        return (depth,)
    lower, upper = float(ratio.min()) / 1e3, float(ratio.max()) * 1e3
    return depth, replace(ratio_parameter, lower=lower, upper=upper, start=float(np.median(ratio)))


def single_error(parameters: Mapping[str, float], unpruned: float, density: Floats) -> Floats:
    """ε̂ of Eq. 1 for one network at some densities."""
    log_unpruned, gamma = np.log(unpruned), np.asarray(parameters[GAMMA])
    height = np.log(parameters[HIGH]) - log_unpruned
    high, low = formulas.transitions(height, gamma, np.log(parameters[SCALE]), np.zeros(()))
    inverse_square = np.asarray(density, dtype=float) ** -2.0
    return np.asarray(np.exp(formulas.pruned_error(log_unpruned, inverse_square, high, low, gamma).log_error))


EQ2 = register(Eq2Law(name=DEFAULT_LAW, title="Eq. 2", parameters=PARAMETERS))
EQ1 = register(Eq2Law(name="eq1", title="Eq. 1", parameters=PARAMETERS, special_case_of=DEFAULT_LAW))
register(
    Eq2Law(
        name="dip",
        title="the dip law",
        parameters=(*PARAMETERS, EXAMPLES_EXPONENT, *DIP_PARAMETERS),
        dips=True,
    )
)
register(
    Eq2Law(
        name="sharp",
        title="the sharp law",
        parameters=(*PARAMETERS, EXAMPLES_EXPONENT, SHARPNESS_PARAMETER),
        sharp=True,
    )
)
register(
    Eq2Law(
        name="sharp-dip",
        title="the sharp dip law",
        parameters=(*PARAMETERS, EXAMPLES_EXPONENT, *DIP_PARAMETERS, SHARPNESS_PARAMETER),
        dips=True,
        sharp=True,
    )
)
