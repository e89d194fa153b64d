"""What Ray adds to a chain: thousands of chains whose work is nothing, and what the driver remembers of them.

    python benchmarks/on_ray.py [CHAINS]

A worker locks every chain and writes its records, as it does for a real one; the driver reports what the store shows.
The load of the machine is printed, because the time includes waiting for a core.
"""

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from prunecast.clusters.ray import RayBackend, joined
from prunecast.errors import BusyError
from prunecast.pruning import Record, chain_folder
from prunecast.sweep import Job, Progress, drive, parse_plan
from prunecast.sweep.events import Outcome
from prunecast.sweep.run import unfinished

PLAN = """
family = "digits_cnn"
dataset = "digits"
recipe = "digits"
depth = 3
width = 0.5
num_examples = 100
replicates = {chains}
level_cap = 0
"""


def end_chains(jobs: Sequence[Job], store: Path, **options: object) -> Generator[Outcome, None, None]:
    """Write that every chain has ended which can be locked, without any training."""
    for job in jobs:
        folder = chain_folder(store, job.chain.spec)
        with contextlib.suppress(BusyError):
            if folder.records():
                continue
            with folder.locked():
                folder.write_records([_record()])
            yield Progress(number=job.number, chain=job.chain, record=_record(), ended="level cap")


def _record() -> Record:
    return Record(
        level=0,
        density=1.0,
        error=0.5,
        loss=1.0,
        train_error=0.5,
        validation_error=None,
        parameters=438,
        weights=404,
        nonzero=404,
        effective_density=1.0,
        steps=0,
        seconds=0.0,
        status="ok",
        chance_error=0.9,
        device="cpu",
        code="",
    )


def memory() -> float:
    """MB that this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(chains: int) -> None:
    plan = parse_plan(PLAN.format(chains=chains), name="nothing", place="nothing", folder=Path())
    with tempfile.TemporaryDirectory() as folder, joined():
        store = Path(folder)
        jobs: list[Job] = unfinished(enumerate(plan.chains, 1), store)
        list(
            drive(jobs[:50], store, backend=RayBackend, work=end_chains)
        )  # workers have imported torch after these
        print(f"{memory():6.1f} MB in the driver before")
        marks = {(chains - 50) * percent // 100: percent for percent in range(10, 101, 10)}
        began, busy = time.perf_counter(), time.process_time()
        for count, _ in enumerate(drive(jobs[50:], store, backend=RayBackend, work=end_chains), 1):
            if count in marks:
                print(f"{memory():6.1f} MB after {marks[count]:3d}% of {chains:,} chains", flush=True)
        seconds, cpu = time.perf_counter() - began, time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"{peak:6.1f} MB at most; load of the machine {os.getloadavg()[0]:.1f}")
        print(
            f"{1000 * seconds / chains:.2f} ms a chain, {1000 * cpu / chains:.2f} ms of them CPU of the driver"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
