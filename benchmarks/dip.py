"""Which law to trust where the error dips: Eq. 2, the dip law, and the forms that were tried in its place.

python benchmarks/dip.py [TABLE ...] tabulates the rms deviation in sample and on every held-out split, and with each
depth, width and dataset size left out; with --sizes N,N,... that of predicting all other sizes from these. The forms
differ in how far the low plateau falls (a), in the shape of its fall, in whether the invariant contains the dataset
size (ν), and in the sharpness of the two transitions; all have Eq. 2 as the case without a dip. --tried N stops after N
of them.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import prunecast
from prunecast.laws import (
    DEFAULT_LAW,
    Floats,
    Formula,
    Mask,
    Parameter,
    Points,
    Split,
    build_form,
    measured,
    validate,
)

TABLES = tuple(
    str(Path(__file__).parent / "tables" / f"{name}.csv")
    for name in ("cifar10-resnet20-24ep", "cifar10-resnet20-24ep-fleet")
)
LAWS = (DEFAULT_LAW, "dip")
SPLITS: dict[str, Callable[[Points], list[Split]]] = {
    "in sample": validate.in_sample,
    "configurations out": validate.configurations_out,
    "large out": validate.large_out,
    "sizes out": validate.sizes_out,
    "largest size out": validate.largest_size_out,
}
LARGEST = 1e5
"""Units of the tried forms: examples and weights are divided by this."""


def positive(name: str, lower: float, upper: float) -> Parameter:
    return Parameter(name=name, symbol=name, lower=lower, upper=upper)


def exponent(name: str, lower: float = -2.0, upper: float = 2.0) -> Parameter:
    return Parameter(name=name, symbol=name, lower=lower, upper=upper, positive=False)


DEPTHS: dict[str, tuple[Parameter, ...]] = {
    "A": (positive("A", 1e-3, 0.9),),
    "A/(1 + n/n0)": (positive("A", 1e-3, 0.9), positive("n0", 1e-4, 1e3)),
    "A·√ε_np/(1 + n/n0)": (positive("A", 1e-3, 5.0), positive("n0", 1e-4, 1e3)),
    "A·n^-k": (positive("A", 1e-3, 0.9), exponent("k")),
    "A·ε_np^k": (positive("A", 1e-3, 5.0), exponent("k")),
    "A/(1 + r0·n/weights)": (positive("A", 1e-3, 0.9), positive("r0", 1e-4, 1e4)),
}
SHAPES: dict[str, tuple[Parameter, ...]] = {
    "1 - d²": (),
    "1 - d": (),
    "1 - d^k": (positive("shape", 0.2, 8.0),),
}
SHARPNESS: dict[str, tuple[Parameter, ...]] = {
    "both 2": (),
    "one free": (positive("s", 0.5, 8.0),),
    "two free": (positive("s_low", 0.5, 8.0), positive("s_high", 0.5, 8.0)),
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One combination of choices."""

    depth: str
    shape: str
    nu: bool
    sharpness: str

    @property
    def name(self) -> str:
        """The choices in words."""
        return f"a = {self.depth}, {self.shape}, {'ν' if self.nu else 'no ν'}, sharpness {self.sharpness}"


def depth_of(depth: str, values: Mapping[str, Any], points: Points) -> Any:
    at = points.configuration
    n, unpruned = points.num_examples[at] / LARGEST, points.unpruned[at]
    ratio = points.weights[at] / LARGEST / n
    formulas: dict[str, Callable[[], Any]] = {
        "A": lambda: values["A"],
        "A/(1 + n/n0)": lambda: values["A"] / (1 + n / values["n0"]),
        "A·√ε_np/(1 + n/n0)": lambda: values["A"] * np.sqrt(unpruned) / (1 + n / values["n0"]),
        "A·n^-k": lambda: values["A"] * n ** -values["k"],
        "A·ε_np^k": lambda: values["A"] * unpruned ** values["k"],
        "A/(1 + r0·n/weights)": lambda: values["A"] / (1 + values["r0"] / ratio),
    }
    return formulas[depth]()


def log_error(
    values: Mapping[str, Any], points: Points, variant: Variant, exponents: Mapping[str, str]
) -> Any:
    """Log ε̂ = log ε_low + (γ/s₁)·log(1 + (p_low/m*)^s₁) − (γ/s₂)·log(1 + (p′/m*)^s₂); Eq. 2 has s₁ = s₂ = 2."""
    high, gamma, p, d = values["high_error"], values["gamma"], values["p"], points.density
    power = {"1 - d²": 2.0, "1 - d": 1.0}.get(variant.shape) or values["shape"]
    low = points.log_unpruned[points.configuration] + np.log(
        1 - depth_of(variant.depth, values, points) * (1 - d**power)
    )
    log_m = np.log(d)
    for axis, name in exponents.items():
        log_m = log_m + values[name] * points.log_axes[axis][1]
    s_low = values.get("s_low", values.get("s", 2.0))
    s_high = values.get("s_high", values.get("s", 2.0))
    above = s_low * (np.log(p) + (np.log(high) - low) / gamma - log_m)
    below = s_high * (np.log(p) - log_m)
    return low + gamma / s_low * np.log(1 + np.exp(above)) - gamma / s_high * np.log(1 + np.exp(below))


def tried(variant: Variant, points: Points) -> Formula:
    plain = build_form(DEFAULT_LAW, points, "error")
    exponents = {**plain.exponents, **({"num_examples": "nu"} if variant.nu else {})}
    nu = (exponent("nu", -1.0, 2.0),) if variant.nu else ()
    own = (*nu, *DEPTHS[variant.depth], *SHAPES[variant.shape], *SHARPNESS[variant.sharpness])
    return Formula(
        parameters=(*plain.parameters, *own), formula=partial(log_error, variant=variant, exponents=exponents)
    )


def variants(points: Points) -> list[Variant]:
    """All depths with two shapes, then the other shapes and sharpnesses of the chosen depth."""
    several = bool(np.ptp(points.num_examples) > 0)
    chosen = "A/(1 + r0·n/weights)" if np.ptp(np.log(points.weights)) > 0 else "A"
    depths = list(DEPTHS) if several else ["A", "A·ε_np^k", "A/(1 + r0·n/weights)"]
    first = [
        Variant(depth=depth, shape=shape, nu=nu, sharpness="both 2")
        for depth, shape, nu in product(depths, ("1 - d²", "1 - d"), ((True, False) if several else (False,)))
    ]
    more = [("1 - d^k", "both 2"), ("1 - d²", "one free"), ("1 - d²", "two free")]
    return first + [Variant(depth=chosen, shape=shape, nu=several, sharpness=sharp) for shape, sharp in more]


def row(title: str, parameters: int, deltas: dict[str, Floats]) -> str:
    inside = deltas["in sample"]
    bic = len(inside) * np.log(np.mean(inside**2)) + parameters * np.log(len(inside))
    rms = [float(np.sqrt(np.mean(delta**2))) for delta in deltas.values()]
    pooled = float(np.sqrt(np.mean(np.square(rms[1:]))))
    cells = " ".join(f"{value:9.2%}" for value in (rms[0], inside.mean(), inside.std()))
    return (
        f"{title:68s} {parameters:2d} {cells} {bic:7.0f} {' '.join(f'{x:9.2%}' for x in (*rms[1:], pooled))}"
    )


def tabulate(points: Points, count: int | None) -> None:
    head = (
        "in sample",
        "mean μ",
        "std σ",
        "BIC",
        "config out",
        "large out",
        "sizes out",
        "largest",
        "pooled",
    )
    print(f"{'':71s} {' '.join(f'{word:>9s}' for word in head)}")
    for law in LAWS:
        deltas = {
            name: validate.law_deviations(law, points, "error", split(points))
            for name, split in SPLITS.items()
        }
        print(row(law, len(build_form(law, points, "error").parameters), deltas), flush=True)
    for variant in variants(points)[:count]:
        form = tried(variant, points)
        start = validate.search(form, points)
        deltas = {
            name: validate.form_deviations(form, points, split(points), start)
            for name, split in SPLITS.items()
        }
        print(row(variant.name, len(form.parameters), deltas), flush=True)


def tabulate_left_out(points: Points) -> None:
    """Leave every depth, width and dataset size out in turn, and predict it from the others."""
    for axis in ("depth", "width", "num_examples"):
        values = getattr(points, axis)
        for value in np.unique(values) if np.ptp(values) else ():
            print_deviations(points, f"{axis} {value:g} left out", values != value, values == value)


def tabulate_sizes(points: Points, known: set[float]) -> None:
    """Fit some dataset sizes and predict each of the others."""
    fitted = np.isin(points.num_examples, list(known))
    for size in sorted(set(points.num_examples[~fitted])):
        print_deviations(
            points, f"{size:g} examples, from {len(known)} sizes", fitted, points.num_examples == size
        )
    print_deviations(points, "all of these", fitted, ~fitted)


def print_deviations(points: Points, title: str, fitted: Mask, predicted: Mask) -> None:
    split = Split(fitted=np.flatnonzero(fitted), predicted=np.flatnonzero(predicted))
    rows = int(predicted[points.configuration].sum())
    for law in LAWS:
        delta = validate.law_deviations(law, points, "error", [split])
        rms = float(np.sqrt(np.mean(delta**2)))
        print(
            f"{title} ({rows} rows), {law}: {rms:.1%} ({delta.mean():+.1%} ± {delta.std():.1%})", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--where", action="append", default=[])
    parser.add_argument(
        "--sizes", default="", help="fit these dataset sizes, by commas, and predict the others"
    )
    parser.add_argument("--tried", type=int, help="how many of the tried forms to fit")
    arguments = parser.parse_args()
    where = dict(condition.split("=", 1) for condition in arguments.where)
    for source in arguments.tables:
        data = measured(prunecast.read(source, where=where))
        points = data.points
        print(
            f"{source}: {len(points)} rows, {points.configurations} configurations, replicates' noise {data.noise}"
        )
        if arguments.sizes:
            tabulate_sizes(points, {float(size) for size in arguments.sizes.split(",")})
        else:
            tabulate(points, arguments.tried)
            tabulate_left_out(points)


if __name__ == "__main__":
    main()
