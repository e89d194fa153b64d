"""Run a sweep: every chain of a plan to its end, in this process or in the workers of a backend."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from prunecast.data import cores
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, store_start, why_ended, within
from prunecast.sweep.driver import drive
from prunecast.sweep.events import Busy, Event, Executor, Failed, Job, failure_of, forget_failure
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.inspection import inspect
from prunecast.sweep.plan import Plan
from prunecast.sweep.processes import Processes
from prunecast.sweep.status import SweepProgress, chain_status, chain_statuses, selection
from prunecast.sweep.worker import torch_device, work

OnEvent = Callable[[Event], object]
"""Called with each event of a sweep as it happens."""
PAUSE = 0.5
"""Seconds between two checks of chains that another run is working on."""


def run_plan(
    plan: Plan,
    store: Path,
    *,
    device: str = "cpu",
    jobs: int = 1,
    plain: bool = False,
    executor: Executor | None = None,
) -> Generator[Event, None, None]:
    """Run every chain of a plan to its end; yield each level when it is finished, and each failure.

    Levels that are in the store already are not reported again. `jobs` chains train at the same time, each in its own
    process; a GPU trains many as a fleet, unless `plain`. `executor` replaces these options, for example by
    `partial(drive, backend=...)`. A plan that cannot run is refused at once.
    """
    executor = executor or executor_for(device, jobs, plain=plain)
    if any(chain.seen is None for chain in plan.chains):
        inspect(plan)
    store_starts(plan, store)
    return run_chains(list(enumerate(plan.chains, 1)), store, executor)


def run_to_end(
    plan: Plan,
    store: Path,
    *,
    on_event: OnEvent | None = None,
    progress: SweepProgress | None = None,
    device: str = "cpu",
    jobs: int = 1,
    plain: bool = False,
    executor: Executor | None = None,
) -> SweepProgress:
    """Run every chain of a plan to its end, as `run_plan` does; return what is finished and what failed.

    `on_event` is called in this thread with each event, which `progress` has counted. If it raises, the sweep ends;
    finished levels stay in the store.
    """
    progress = progress or SweepProgress(chain_statuses(plan, store))
    events = run_plan(plan, store, device=device, jobs=jobs, plain=plain, executor=executor)
    with contextlib.closing(events):
        for event in events:
            progress.update(event)
            if on_event:
                on_event(event)
    return progress


def executor_for(device: str, jobs: int, *, plain: bool = False) -> Executor:
    """The function that runs `jobs` chains at a time on a device; on GPUs it runs fleets, unless `plain`."""
    place = torch_device(device)
    if jobs < 1:
        raise PrunecastError(f"--jobs is {jobs}; give 1 or more.")
    packed = place.type == "cuda" and not plain
    gpus = torch.cuda.device_count() if packed and place.index is None else 1
    if gpus > 1:
        devices = [f"cuda:{number}" for number in range(gpus)]
        return partial(drive, backend=partial(Processes, devices, packed=True))
    if packed or jobs == 1:
        return partial(work, device=device, packed=packed, loaded={})
    return partial(drive, backend=partial(Processes, [device] * jobs))


def usual_jobs(device: str, chains: Iterable[PlannedChain] = ()) -> int:
    """How many chains to train at a time: as many as the cores have room for; one on a GPU, where fleets train."""
    if device != "cpu":
        return 1
    return max(1, cores() // max((chain.spec.threads for chain in chains), default=1))


def store_starts(plan: Plan, store: Path) -> None:
    """Copy the weights that chains start from to the store, so that all workers find them."""
    for path, digest in {(chain.start, chain.spec.start) for chain in plan.chains}:
        if path is not None and digest is not None:
            store_start(store, path, digest)


def run_chains(
    chains: Sequence[tuple[int, PlannedChain]], store: Path, executor: Executor
) -> Generator[Event, None, None]:
    """Run chains, each with its number in the plan, until all have ended, failed or been left out.

    If the plan has a selection rule, unpruned networks are trained first, and those that are too large are left out.
    Chains that another process holds are tried again until it releases them.
    """
    left = dict(chains)
    selecting = {
        number: dataclasses.replace(chain, rules=dataclasses.replace(chain.rules, level_cap=0))
        for number, chain in chains
        if chain.select
    }
    for stage in (selecting, left):
        jobs = unfinished(stage.items(), store)
        reported: set[int] = set()
        while jobs:
            busy: set[int] = set()
            for outcome in executor(jobs, store):
                number = outcome.number
                if isinstance(outcome, Busy):
                    busy.add(number)
                    if number in reported:
                        continue
                    reported.add(number)
                elif isinstance(outcome, Failed):
                    busy.discard(number)
                    left.pop(number, None)
                yield outcome
            if len(busy) == len(jobs):
                time.sleep(PAUSE)
            jobs = unfinished([(number, chain) for number, chain in stage.items() if number in busy], store)
        if selecting and stage is selecting:
            for out in selection([chain_status(number, chain, store) for number, chain in chains]):
                left.pop(out.number, None)
                yield out


def unfinished(chains: Iterable[tuple[int, PlannedChain]], store: Path) -> list[Job]:
    """The chains that have not ended, and how many levels they have."""
    found: list[Job] = []
    for number, chain in chains:
        folder = chain_folder(store, chain.spec)
        try:
            records = folder.records()
        except PrunecastError:  # the worker that takes the chain reports what is wrong
            records = []
        if not why_ended(records, chain.rules) or folder.stale(len(records)):
            failure = failure_of(store, chain.spec)
            done, failures = len(within(records, chain.rules)), failure.times if failure else 0
            found.append(Job(number=number, chain=chain, done=done, failures=failures))
        else:
            forget_failure(store, chain.spec)  # a worker was killed before it could remove it
    return found
