"""Whether more data would change the answer: what choosing by today's estimate costs on average."""

from dataclasses import replace

import numpy as np

from prunecast.choice.counts import counter
from prunecast.choice.density import inverse
from prunecast.choice.options import line
from prunecast.choice.sizes import examples, sizes
from prunecast.laws import Fit
from prunecast.laws.forms import natural
from prunecast.laws.points import Floats, Integers

DRAWS, ERRORS, CANDIDATES = 60, 12, 80
WORST = 1.0
"""The regret of a network that turns out not to reach the error at all."""


def expected_regret(
    fit: Fit, target_error: float | None = None, *, other: Fit | None = None, minimise: str = "stored"
) -> float:
    """The mean excess of parameters over the best network, if the truth is one of the law's draws, or another law.

    The network chosen by the estimate is pruned until its error is at the target, whatever density that takes; only the
    choice of depth and width can be wrong. Without a target the mean is over errors between the plateaus.
    """
    how = counter(fit)
    candidates = sizes(fit, how, examples(fit, None), "within").as_told()
    candidates = candidates[np.arange(0, len(candidates), 1 + len(candidates) // CANDIDATES)]
    lowest = float(np.median(candidates.unpruned))
    spread = np.geomspace(
        candidates.unpruned.min() * 1.1, max(0.7 * fit.parameters["high_error"], lowest), ERRORS
    )
    targets = np.log(spread if target_error is None else np.array([target_error]))
    offset, slope = line(minimise, candidates)

    def needed(law: Fit) -> Floats:
        density = inverse(law, candidates, targets)
        return np.where(density <= 1, offset + slope * np.minimum(density, 1.0), np.inf)

    today = needed(fit)
    chosen, possible = today.argmin(axis=1), np.isfinite(today.min(axis=1))
    if not possible.any():
        return 0.0
    draws = fit.spread.draws[:: max(1, len(fit.spread.draws) // DRAWS)]
    truths = [_with(fit, draw) for draw in draws] if other is None else [other]
    excess = [_excess(needed(truth), chosen)[possible] for truth in truths]
    return float(np.mean(excess))


def _with(fit: Fit, draw: Floats) -> Fit:
    values = natural(fit.form(), draw)
    return replace(fit, parameters=dict(zip(fit.parameters, values.tolist(), strict=True)))


def _excess(sizes: Floats, chosen: Integers) -> Floats:
    own, best = sizes[np.arange(len(sizes)), chosen], sizes.min(axis=1)
    reached = np.isfinite(own) & np.isfinite(best)
    ratio = np.where(reached, own, 1.0) / np.where(np.isfinite(best), best, 1.0) - 1
    return np.asarray(np.where(reached, np.minimum(ratio, WORST), np.where(np.isfinite(best), WORST, 0.0)))
