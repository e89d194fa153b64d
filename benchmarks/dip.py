"""Which law to trust where the error dips: Eq. 2, the law `dip`, and the forms that were tried beside it.

python benchmarks/dip.py [TABLE ...] tabulates the rms deviation in sample and on every held-out split, and with each
depth, width and dataset size left out; with --sizes N,N,... that of predicting all other sizes from these. The forms
differ in how deep the low plateau sinks (a), in the shape of its sinking, in whether the invariant feels the dataset
size (ν), and in the sharpness of the two transitions; all have Eq. 2 as the case without a dip.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from prunecast.laws.catalogue import build
from prunecast.laws.forms import DualForm, Parameter
from prunecast.laws.measured import measured

import prunecast
from prunecast.laws import held_out
from prunecast.laws.dual import Array
from prunecast.laws.eq2 import eq2
from prunecast.laws.points import Floats, Points

SPLITS: dict[str, Callable[[Points], list[held_out.Split]]] = {
    "in sample": held_out.in_sample,
    "configurations out": held_out.configurations_out,
    "large out": held_out.large_out,
    "sizes out": held_out.sizes_out,
    "largest size out": held_out.largest_size_out,
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


def depth_of(variant: Variant, values: list[Array], points: Points) -> Array:
    at = points.configuration
    n, unpruned = points.num_examples[at] / LARGEST, points.unpruned[at]
    if variant.depth == "A":
        return values[0]
    first, second = values
    ratio = points.weights[at] / LARGEST / n
    return {
        "A/(1 + n/n0)": lambda: first / (1 + n / second),
        "A·√ε_np/(1 + n/n0)": lambda: first * np.sqrt(unpruned) / (1 + n / second),
        "A·n^-k": lambda: first * n**-second,
        "A·ε_np^k": lambda: first * unpruned**second,
        "A/(1 + r0·n/weights)": lambda: first / (1 + second / ratio),
    }[variant.depth]()


def log_error(columns: list[Array], points: Points, variant: Variant, axes: tuple[str, ...]) -> Array:
    """Log ε̂ = log ε_low + (γ/s₁)·log(1 + (p_low/m*)^s₁) − (γ/s₂)·log(1 + (p′/m*)^s₂); Eq. 2 has s₁ = s₂ = 2."""
    high, gamma, p, *rest = columns
    exponents, rest = rest[: len(axes)], rest[len(axes) :]
    deep, rest = rest[: len(DEPTHS[variant.depth])], rest[len(DEPTHS[variant.depth]) :]
    shape, sharp = rest[: len(SHAPES[variant.shape])], rest[len(SHAPES[variant.shape]) :]
    d = points.density
    power = {"1 - d²": 2.0, "1 - d": 1.0}.get(variant.shape) or shape[0]
    low = points.log_unpruned[points.configuration] + np.log(
        1 - depth_of(variant, deep, points) * (1 - d**power)
    )
    log_m = np.log(d)
    for value, axis in zip(exponents, axes, strict=True):
        log_m = log_m + value * points.log_axes[axis][1]
    s_low, s_high = {0: (2.0, 2.0), 1: (sharp * 2)[:2], 2: tuple(sharp)}[len(sharp)]
    above = s_low * (np.log(p) + (np.log(high) - low) / gamma - log_m)
    below = s_high * (np.log(p) - log_m)
    return low + gamma / s_low * np.log(1 + np.exp(above)) - gamma / s_high * np.log(1 + np.exp(below))


def tried(variant: Variant, points: Points) -> DualForm:
    plain = eq2(points)
    axes = (*plain.axes, *(["num_examples"] if variant.nu else []))
    nu = (exponent("nu", -1.0, 2.0),) if variant.nu else ()
    own = (*nu, *DEPTHS[variant.depth], *SHAPES[variant.shape], *SHARPNESS[variant.sharpness])
    return DualForm(
        name=variant.name,
        parameters=(*plain.parameters, *own),
        formula=partial(log_error, variant=variant, axes=axes),
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


def tabulate(points: Points) -> None:
    head = [
        "in sample",
        "mean μ",
        "std σ",
        "BIC",
        "config out",
        "large out",
        "sizes out",
        "largest",
        "pooled",
    ]
    print(f"{'':71s} {' '.join(f'{word:>9s}' for word in head)}")
    for law in ("eq2", "dip"):
        deltas = {
            name: held_out.evaluate_law(law, points, "error", split(points)) for name, split in SPLITS.items()
        }
        print(row(law, len(build(law, points, "error").parameters), deltas), flush=True)
    for variant in variants(points):
        form = tried(variant, points)
        start = held_out.search(form, points)
        deltas = {
            name: held_out.evaluate(form, points, split(points), start) for name, split in SPLITS.items()
        }
        print(row(variant.name, len(form.parameters), deltas), flush=True)


def tabulate_left_out(points: Points) -> None:
    """Leave every depth, width and dataset size out in turn, and predict it from the others."""
    for axis in ("depth", "width", "num_examples"):
        values = getattr(points, axis)
        for value in np.unique(values) if np.ptp(values) else ():
            tell(points, f"{axis} {value:g} left out", values != value, values == value)


def tabulate_sizes(points: Points, known: set[float]) -> None:
    """Fit some dataset sizes and predict each of the others."""
    fitted = np.isin(points.num_examples, list(known))
    for size in sorted(set(points.num_examples[~fitted])):
        tell(points, f"{size:g} examples, from {len(known)} sizes", fitted, points.num_examples == size)
    tell(points, "all of these", fitted, ~fitted)


def tell(points: Points, title: str, fitted: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> None:
    split = held_out.Split(fitted=np.flatnonzero(fitted), predicted=np.flatnonzero(predicted))
    rows = int(predicted[points.configuration].sum())
    for law in ("eq2", "dip"):
        delta = held_out.evaluate_law(law, points, "error", [split])
        rms = float(np.sqrt(np.mean(delta**2)))
        print(
            f"{title} ({rows} rows), {law}: {rms:.1%} ({delta.mean():+.1%} ± {delta.std():.1%})", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=["cifar10-resnet20-24ep", "cifar10-resnet20-24ep-fleet"])
    parser.add_argument("--where", action="append", default=[])
    parser.add_argument(
        "--sizes", default="", help="fit these dataset sizes, by commas, and predict the others"
    )
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
            tabulate(points)
            tabulate_left_out(points)


if __name__ == "__main__":
    main()
