"""Tables with a known law behind them: what a fit should find is planted, then hidden in noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd

from prunecast.laws import AXES, Floats, formulas

TRUTH: Mapping[str, float] = {"high_error": 0.85, "gamma": 0.55, "p": 0.02, "phi": 1.0, "psi": 1.4}
"""Eq. 2 as CIFAR-10 ResNets are like to have it."""
DENSE: Mapping[str, float] = {"a": 29.7, "alpha": 0.6, "b": 20.8, "beta": 0.5, "floor": 0.005}
"""A dense law that puts unpruned errors between 0.06 and 0.75 over the grid."""
DEPTHS = (8, 14, 20, 26, 50, 98)
WIDTHS = tuple(2.0**i for i in range(-4, 3))
NUM_EXAMPLES = tuple(50_000 // i for i in (1, 2, 4, 8, 16, 32, 64))
WEIGHTS = 13_500
"""Prunable weights of a layer of width 1."""
LAST_LEVEL, ENDS_AT = 31, 0.97
"""A chain ends at this level, or before it once its error passes this share of ε↑."""


def planted(
    truth: Mapping[str, float] = TRUTH,
    *,
    configurations: int = 152,
    replicates: int = 1,
    noise: float = 0.034,
    correlation: float = 0.0,
    correlation_levels: float = 10.0,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[float] = WIDTHS,
    num_examples: Sequence[int] = NUM_EXAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """A table of Eq. 2 with these parameters; by default of the paper's size, about 4,300 points.

    Configurations are drawn from the grid without repetition, ε_np comes from a dense law, each error (level 0
    included) is multiplied by 1 + noise · a normal number, and replicates differ in that number alone. The numbers of
    one chain at levels i and j ≠ i have the correlation `correlation` · exp(−|i − j| / `correlation_levels`); measured
    replicates are like 0.75 over 10 levels.
    """
    rng = np.random.default_rng(seed)
    grid = np.array(list(product(depths, widths, num_examples)))
    chosen = grid[np.sort(rng.permutation(len(grid))[:configurations])]
    chains = pd.DataFrame(chosen, columns=["depth", "width", "num_examples"]).astype(
        {"depth": np.int64, "num_examples": np.int64}
    )
    levels = pd.DataFrame({"level": np.arange(LAST_LEVEL + 1)})
    frame = chains.merge(levels, how="cross")
    frame["density"] = 0.8 ** frame["level"]
    frame["weights"] = (WEIGHTS * frame["depth"] * frame["width"] ** 2).round()
    frame["nonzero"] = (frame["weights"] * frame["density"]).round()
    frame["error"] = np.where(frame["level"] > 0, law_error(frame, truth), unpruned_error(frame))
    going = (frame["error"] < ENDS_AT * truth["high_error"]) | (frame["level"] == 0)
    frame = frame[going].merge(pd.DataFrame({"replicate": np.arange(1, replicates + 1)}), how="cross")
    scatter = rng.standard_normal(len(frame))
    if correlation:
        shared = _along_chains(frame, correlation_levels, rng)
        scatter = np.sqrt(1 - correlation) * scatter + np.sqrt(correlation) * shared
    return frame.assign(error=np.clip(frame["error"] * (1 + noise * scatter), 1e-6, 1.0))


def _along_chains(frame: pd.DataFrame, levels: float, rng: np.random.Generator) -> Floats:
    """Normal numbers, one per row, that are correlated by exp(−distance / levels) along each chain and nowhere else."""
    chain = frame.groupby(["depth", "width", "num_examples", "replicate"]).ngroup().to_numpy()
    fresh = rng.standard_normal((chain.max() + 1, LAST_LEVEL + 1))
    kept = np.exp(-1 / levels)
    numbers = fresh.copy()
    for level in range(1, LAST_LEVEL + 1):
        numbers[:, level] = kept * numbers[:, level - 1] + np.sqrt(1 - kept**2) * fresh[:, level]
    return np.asarray(numbers[chain, frame["level"].to_numpy()])


def unpruned_error(frame: pd.DataFrame) -> Floats:
    """ε_np of the planted dense law at each row's weights and num_examples; guessing errs by 0.9."""
    size, examples = (frame[name].to_numpy(dtype=float) for name in ("weights", "num_examples"))
    return np.asarray(np.exp(formulas.envelope(formulas.dense_normalized(examples, size, **DENSE), 0.9, 1.0)))


def law_error(frame: pd.DataFrame, truth: Mapping[str, float] = TRUTH) -> Floats:
    """ε̂ of Eq. 2 at each row; φ and ψ count as 0 where they are not given."""
    log_unpruned = np.log(unpruned_error(frame))
    log_depth, log_width = (np.log(frame[name].to_numpy(dtype=float)) for name in ("depth", "width"))
    log_scale = formulas.log_invariant(
        0.0, log_depth, log_width, truth.get("phi", 0.0), truth.get("psi", 0.0)
    )
    height = np.log(truth["high_error"]) - log_unpruned
    high, low = formulas.transitions(height, truth["gamma"], np.log(truth["p"]), log_scale)
    inverse_square = frame["density"].to_numpy(dtype=float) ** -2
    return np.asarray(
        np.exp(formulas.pruned_error(log_unpruned, inverse_square, high, low, truth["gamma"]).log_error)
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """Something that was fitted to configurations, of which only the sizes are known."""

    configurations: Sequence[SimpleNamespace]


def measured(places: Sequence[Sequence[float]]) -> Measured:
    """Something that was fitted to configurations at these depths, widths and numbers of examples."""
    return Measured([SimpleNamespace(**dict(zip(AXES, own, strict=True))) for own in places])
