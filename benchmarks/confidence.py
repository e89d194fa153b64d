"""How often the target is met where it should be: `python benchmarks/confidence.py [--simulations 120] [--workers 2]`.

Each simulation plants Eq. 2 in a table with 3.4% noise, fits it as a user would, chooses the smallest network for a
target between 0.12 and 0.4 at several confidences, and computes from the planted law how many new training runs of that
network meet the target. The last columns are the share of new training runs in the 95% interval, and by how much the
size chosen with 95% depends on the law's draws: half of the change from one half of the draws to the other.
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain
from multiprocessing import get_context

import numpy as np
import pandas as pd
from planted_tables import WEIGHTS, law_error, planted, unpruned_error
from scipy import stats

from prunecast.choice import Network, choose
from prunecast.laws import Fit, fit
from prunecast.table import read

REGIMES = ((12, 1), (36, 1), (36, 3), (100, 1))
CONFIDENCES = (0.5, 0.8, 0.95)
NOISE, EXAMPLES = 0.034, 50_000


def simulate(configurations: int, replicates: int, seed: int) -> list[float]:
    """The share of new runs that meet the target at each confidence, that in the interval, the draws' effect."""
    frame = planted(
        configurations=configurations, replicates=replicates, num_examples=(EXAMPLES,), noise=NOISE, seed=seed
    )
    law = fit(read(frame))
    target = float(np.random.default_rng(seed).uniform(0.12, 0.4))
    chosen = [choose(law, target_error=target, confidence=c).answer for c in CONFIDENCES]
    met = [float(stats.norm.cdf((target / planted_error(one) - 1) / NOISE)) for one in chosen]
    one = chosen[0]
    low, high = (stats.norm.cdf((end / planted_error(one) - 1) / NOISE) for end in one.interval)
    halves = [
        choose(half(law, slice(own, None, 2)), target_error=target, confidence=0.95).answer for own in (0, 1)
    ]
    return [*met, float(high - low), abs(halves[0].stored_parameters / halves[1].stored_parameters - 1) / 2]


def planted_error(network: Network) -> float:
    """What the chosen network's error is on average, by the law that was planted."""
    row = pd.DataFrame([vars(network)]).assign(weights=WEIGHTS * network.depth * network.width**2)
    return float((law_error if network.level else unpruned_error)(row)[0])


def half(law: Fit, which: slice) -> Fit:
    """The same law with half of its draws."""
    return replace(law, spread=replace(law.spread, draws=law.spread.draws[which]))


def rows(simulations: int, workers: int) -> Iterator[list[str]]:
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # the workers, which import numpy anew, take their thread count from here
    )
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for regime in REGIMES:
            tasks = [pool.submit(simulate, *regime, seed) for seed in range(simulations)]
            mean = np.mean([task.result() for task in tasks], axis=0)
            yield [*map(str, regime), *(f"{100 * share:.1f}" for share in mean)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=120)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    header = ["configurations", "replicates", *(f"{100 * c:g}" for c in CONFIDENCES), "interval", "draws"]
    print(f"percent of new training runs that meet the target, {arguments.simulations} simulations per row")
    for row in chain([header], rows(arguments.simulations, arguments.workers)):
        print(
            "".join(cell.rjust(max(8, len(name) + 2)) for cell, name in zip(row, header, strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    main()
