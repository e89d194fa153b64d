"""Sweeps: inline against processes on the same plan, and ten thousand planned chains.

    python benchmarks/sweep.py            # about a minute on a quiet machine with two cores

Scheduling is what a sweep costs more than the same chains run by a bare loop, in CPU time because that bears other
work on the machine better. Two processes can be twice as fast as one only where two cores are idle; the load of the
machine is printed.
"""

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path

import torch

from prunecast.data import load
from prunecast.pruning import Pruned, Record, chain_folder, run_chain
from prunecast.sweep import (
    Executor,
    Job,
    Plan,
    Processes,
    SweepProgress,
    chain_statuses,
    drive,
    parse_plan,
    rows_of,
    run_plan,
    work,
)
from prunecast.sweep.events import Outcome
from prunecast.sweep.overview import overview

PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = [3, 4]
width = [0.5, 1]
num_examples = 600
replicates = 3
level_cap = {cap}
[recipe]
preset = "digits"
epochs = {epochs}
name = "bench"
[stop]
at_chance = 0
disconnected = false
"""
MANY = """
family = "cifar_resnet"
dataset = "cifar10"
recipe = "cifar10"
depth = [8, 14, 20, 26, 32]
width = [0.0625, 0.125, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5]
num_examples = [781, 1562, 3125, 6250, 12500, 25000, 37500, 50000]
replicates = 25
"""
LEVELS = 20
"""Levels in the store of every second one of the ten thousand chains."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--epochs", type=int, default=10, help="length of each training of the throughput part"
    )
    parser.add_argument("--level-cap", type=int, default=7)
    parser.add_argument("--skip-throughput", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f} (above 0.5 the numbers below mean little)"
    )
    with tempfile.TemporaryDirectory() as folder:
        if not given.skip_throughput:
            throughput(Path(folder), PLAN.format(epochs=given.epochs, cap=given.level_cap))
        ten_thousand(Path(folder) / "many")


def throughput(folder: Path, text: str) -> None:
    plan = parse_plan(text, name="bench", place="bench", folder=Path())
    levels = sum(chain.rules.level_cap + 1 for chain in plan.chains)
    print(f"\n{len(plan.chains)} chains, {levels} training runs")
    print(f"{'way':<30}{'seconds':>9}{'runs/s':>13}{'against 1':>11}{'CPU s of this process':>24}")
    bare, own = timed(lambda: loop(plan, folder / "bare"))
    show("a bare loop over run_chain", (bare, own), levels, bare)
    ways: list[tuple[str, Executor]] = [
        ("inline", work),
        ("1 process", partial(drive, backend=partial(Processes, ["cpu"]))),
        ("2 processes", partial(drive, backend=Processes)),
    ]
    taken = {}
    for name, executor in ways:
        taken[name] = timed(partial(sweep, plan, folder / name, executor))
        show(name, taken[name], levels, taken.get("1 process", taken["inline"])[0])
    driver = taken["2 processes"][1]
    print(f"scheduling, in CPU time: inline {taken['inline'][1] / own - 1:+.1%} of the work,", end=" ")
    print(f"the driver of 2 processes {driver / own:.1%}")
    idle, _ = timed(lambda: list(processes_of_nothing(plan, folder / "bare")))
    print(f"start and stop of 2 processes with nothing to train: {idle:.2f} s")


def processes_of_nothing(plan: Plan, store: Path) -> list[object]:
    jobs = [Job(number=number, chain=chain, done=99) for number, chain in enumerate(plan.chains, 1)]
    return list(drive(jobs, store, backend=Processes, work=nothing))


def nothing(jobs: Sequence[Job], store: Path, **options: object) -> Generator[Outcome, None, None]:
    """Take no chain."""
    yield from ()


def show(name: str, taken: tuple[float, float], levels: int, one: float) -> None:
    seconds, own = taken
    speed = f"{levels / seconds:>13.2f}{one / seconds:>10.2f}x"
    print(f"{name:<30}{seconds:>9.2f}{speed}{own:>24.2f}", flush=True)


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and those of them that this process spent computing."""
    began, computed = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - began, time.process_time() - computed


def clocked(function: Callable[[], object]) -> float:
    return timed(function)[0]


def loop(plan: Plan, store: Path) -> None:
    data = load("digits")
    for chain in plan.chains:
        list(run_chain(chain.spec, store, lambda: data, rules=chain.rules))


def sweep(plan: Plan, store: Path, executor: Executor) -> None:
    for _ in run_plan(plan, store, executor=executor):
        pass


def ten_thousand(store: Path) -> None:
    """Plan, list and resume ten thousand chains, half of them with twenty levels in the store."""
    found: list[Plan] = []
    planned = clocked(lambda: found.append(parse_plan(MANY, name="many", place="many", folder=Path())))
    plan = found[0]
    counted = clocked(lambda: overview(plan))
    fresh = clocked(lambda: chain_statuses(plan, store))
    fill(plan, store)
    listed = clocked(lambda: SweepProgress(chain_statuses(plan, store)).seconds_left())
    table = clocked(lambda: rows_of(chain_statuses(plan, store)))
    asked: list[Job] = []

    def only_ask(jobs: Sequence[Job], _: Path) -> Generator[Outcome, None, None]:
        asked.extend(jobs)
        yield from ()

    resumed = clocked(lambda: list(run_plan(plan, store, executor=only_ask)))
    print(f"\n{len(plan.chains):,} chains, {len(plan.chains) // 2 * LEVELS:,} training runs in the store")
    for name, seconds in (
        ("read the plan", planned),
        ("count networks and training runs", counted),
        ("status of an empty store", fresh),
        ("status", listed),
        ("table", table),
        (f"resume, to the first of {len(asked):,} chains", resumed),
    ):
        print(f"{name:<44}{seconds:>8.2f} s")


def fill(plan: Plan, store: Path) -> None:
    """Give every second chain the records of finished levels."""
    for chain in plan.chains[::2]:
        folder = chain_folder(store, chain.spec)
        folder.path.mkdir(parents=True)
        folder.write_records([record(level) for level in range(LEVELS)])


def record(level: int) -> Record:
    following = Pruned(nonzero=1000, alive=990, connected=True)
    whole = Record(
        level=level,
        density=0.8**level,
        error=0.1 + level / 1000,
        loss=0.5,
        train_error=0.01,
        validation_error=None,
        parameters=272474,
        weights=270896,
        nonzero=int(270896 * 0.8**level),
        effective_density=0.8**level,
        steps=62500,
        seconds=30.0,
        status="ok",
        chance_error=0.9,
        device="none",
        code="benchmark",
    )
    return dataclasses.replace(whole, following=following)


if __name__ == "__main__":
    main()
