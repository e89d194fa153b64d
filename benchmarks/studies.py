"""Time and reach of the sensitivity study at the paper's size: `python benchmarks/studies.py`, on one core.

Tables: Eq. 2 planted with 3.4% noise; the same with p′ scattered between configurations, so that the law misses them
about as it misses the paper's (σ near 6%); and a measured table. The paper needed 15 random configurations
for μ and σ to vary by less than one point between repeats.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np
import pandas as pd
from planted_tables import TRUTH, law_error, planted, unpruned_error

from prunecast.studies import sensitivity
from prunecast.table import Table, read

TABLES = Path(__file__).parent / "tables"
PAPER_CONFIGURATIONS = 15
MISFIT = 0.2
"""Standard deviation of log p′ between configurations in the table that the law misses."""


def missed(seed: int = 0) -> pd.DataFrame:
    """The planted table with a p′ of its own for every configuration."""
    frame = planted(noise=0.0, seed=seed)
    rng = np.random.default_rng(seed)
    chain = frame.groupby(["depth", "width", "num_examples"]).ngroup().to_numpy()
    factor = np.exp(MISFIT * rng.standard_normal(chain.max() + 1))[chain]
    squeezed = frame.assign(density=frame["density"] / factor)
    error = np.where(frame["level"] > 0, law_error(squeezed, TRUTH), unpruned_error(frame))
    scatter = 1 + 0.034 * rng.standard_normal(len(frame))
    return frame.assign(error=np.clip(error * scatter, 1e-6, 1.0))


def tables() -> dict[str, Table]:
    return {
        "planted, noise 3.4%": read(planted()),
        "planted, missed like the paper's": read(missed()),
        "cifar10-resnet20-24ep": read(TABLES / "cifar10-resnet20-24ep.csv"),
    }


def main() -> None:
    for name, table in tables().items():
        for law in ("eq2", "dip"):
            start = time.perf_counter()
            study = sensitivity(table, law=law)
            seconds = time.perf_counter() - start
            print(
                f"{name}, {law}: {study.configurations} configurations, {study.rows:,} rows, {study.repeats} repeats, "
                f"{len(study.random_points)} values of T, four experiments in {seconds:.1f} s; "
                f"full fit {study.full.mean:+.1%} ± {study.full.std:.1%}"
            )
            print(f"  {'':48}{'random':>8}{'by design':>11}{'paper':>8}")
            for label, found in (
                ("σ within 1 point of the full fit", study.needed),
                ("μ, σ vary by < 1 point", study.steady),
            ):
                random, design = found["random_configurations"], found["designed_configurations"]
                paper = PAPER_CONFIGURATIONS if found is study.steady else "–"
                print(f"  {label + ', configurations':48}{random!s:>8}{design!s:>11}{paper!s:>8}")
                print(
                    f"  {label + ', networks':48}{found['random_points']!s:>8}{found['designed_points']!s:>11}"
                )


if __name__ == "__main__":
    main()
