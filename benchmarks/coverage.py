"""How often the 95% intervals contain the truth: `python benchmarks/coverage.py [--simulations 400] [--workers 2]`.

Each simulation plants Eq. 2 in a table with 3.4% noise, fits some of its configurations as a user would, and
counts how often each parameter's interval contains the planted value, and how many single training runs of other
configurations (their unpruned error measured with as many replicates) fall inside their prediction interval.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from multiprocessing import get_context

import numpy as np
import pandas as pd
from planted_tables import TRUTH, planted

from prunecast.laws import Fit, fit
from prunecast.table import CONFIGURATION, read

CONFIGURATIONS, REPLICATES, NEW = (5, 13, 30, 152), (1, 3), 10
NOISE = 0.034
Shares = dict[str, float]


def simulate(configurations: int, replicates: int, seed: int) -> Shares:
    """The share of truths inside, by parameter and for predictions; absent where a law lacks the parameter."""
    frame = planted(configurations=configurations + NEW, replicates=replicates, noise=NOISE, seed=seed)
    which = frame.groupby(list(CONFIGURATION)).ngroup().to_numpy()
    new = np.random.default_rng(seed).permutation(which.max() + 1)[:NEW]
    unseen = np.isin(which, new)
    result = fit(read(frame[~unseen]))
    inside = {
        name: float(low <= TRUTH[name] <= high)
        for name, (low, high) in result.intervals.items()
        if name in TRUTH
    }
    return {**inside, "prediction": predicted(result, frame[unseen])}


def predicted(result: Fit, frame: pd.DataFrame) -> float:
    """The share of single training runs of new configurations inside their 95% interval."""
    level_0 = frame["error"].where(frame["level"] == 0)
    unpruned = level_0.groupby([frame[name] for name in CONFIGURATION]).transform("mean")
    rows = frame.assign(unpruned=unpruned)[(frame["level"] > 0) & (frame["replicate"] == 1)]
    places = {name: rows[name].to_numpy() for name in CONFIGURATION}
    found = result.predict(rows["density"].to_numpy(), unpruned_error=rows["unpruned"].to_numpy(), **places)
    error = rows["error"].to_numpy()
    return float(((found.lower <= error) & (error <= found.upper)).mean())


def coverage(configurations: int, replicates: int, simulations: int, pool: ProcessPoolExecutor) -> Shares:
    """The mean share inside over the simulations."""
    tasks = [pool.submit(simulate, configurations, replicates, seed) for seed in range(simulations)]
    found = defaultdict(list)
    for task in tasks:
        for name, share in task.result().items():
            found[name].append(share)
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def rows(simulations: int, workers: int) -> Iterator[list[str]]:
    names = [*TRUTH, "prediction"]
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # the workers, which import numpy anew, take their thread count from here
    )
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for configurations, replicates in product(CONFIGURATIONS, REPLICATES):
            shares = coverage(configurations, replicates, simulations, pool)
            yield [str(configurations), str(replicates), *(f"{100 * shares[name]:.1f}" for name in names)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    header = ["configurations", "replicates", "ε↑", "γ", "p′", "φ", "ψ", "new runs"]
    print(f"percent inside the 95% interval, {arguments.simulations} simulations per row")
    for row in chain([header], rows(arguments.simulations, arguments.workers)):
        print(
            "".join(cell.rjust(max(8, len(name) + 2)) for cell, name in zip(row, header, strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    main()
