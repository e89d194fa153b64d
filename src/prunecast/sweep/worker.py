"""A worker: it locks a chain that no other process holds, runs it to its end, and takes the next one.

Workers do not communicate. The store shows which chains are locked, which levels are finished, which chains failed in
this run, and on which chains workers died.
"""

import contextlib
import functools
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from prunecast.data import Dataset
from prunecast.distributed import GroupTask, run_group
from prunecast.errors import BusyError, PrunecastError, StoreError, sentence
from prunecast.pruning import (
    DeathsError,
    Record,
    TimeLimitReached,
    chain_folder,
    footprint,
    holder_of,
    run_chain,
    why_ended,
)
from prunecast.sweep.events import (
    Busy,
    Failed,
    Job,
    Outcome,
    Progress,
    forget_failure,
    in_one_line,
    new_failure,
    record_failure,
)
from prunecast.sweep.plan import Datasets, loader
from prunecast.sweep.resources import Resources
from prunecast.sweep.shared_store import check_code, check_store
from prunecast.sweep.signals import raising_after, stop_after
from prunecast.sweep.status import is_locked

if TYPE_CHECKING:
    from prunecast.fleet import ChainFailed, ChainJob, LevelFinished

PARTIAL_DEATH = 0.25
"""The weight of a death that a chain probably did not cause: the worker had other chains, or its node was lost."""
OUT_OF_TIME = 75
"""Exit code of a worker that did not stop by itself at its time limit."""
COMMAND = (sys.executable, "-P", "-c", "from prunecast.sweep.worker import main; main()")
"""The command of a worker. It reads a pickled `WorkerSpec` from its standard input, and stops when that is closed."""


def work(
    jobs: Sequence[Job],
    store: Path,
    *,
    device: str = "cpu",
    packed: bool = False,
    most_width: float | None = None,
    loaded: Datasets | None = None,
) -> Generator[Outcome, None, None]:
    """Run every chain that can be locked to its end, in order; yield new levels, failures and busy chains.

    With `packed`, chains train together as fleets, each of a total width of at most `most_width`. Chains on which
    workers died come last. A chain that raises fails alone. A store that cannot be written ends everything, and so does
    a fleet that fails as a whole, with a FleetError.
    """
    place, loaded = torch_device(device), {} if loaded is None else loaded
    together = [job for job in jobs if packed and job.chain.devices == 1]
    alone = [job for job in jobs if not packed or job.chain.devices > 1]
    for job, problem in count_deaths(together, store):
        together.remove(job)
        yield failed(job, store, problem)
    for group in _fleets(together, store):
        from prunecast import fleet

        taken: dict[int, Job] = {}
        members = _members(group, store, place, loaded, taken)
        options = fleet.FleetOptions(most_width=most_width)
        try:
            for event in fleet.fleet_events(members, store, device=place, options=options):
                if outcome := _outcome(group[event.number], event, store, taken):
                    yield outcome
        except PrunecastError:
            raise
        except Exception as problem:  # as after an illegal memory access on the GPU
            raise FleetError(taken.values(), problem) from problem
    if together and alone and place.type == "cuda":
        torch.cuda.empty_cache()  # the processes of a group need the memory of the same GPU
    for job in sorted(alone, key=lambda job: _deaths(job, store)):
        chain, records = job.chain, list[Record]()
        try:
            for record in _records(job, store, place, loaded):
                records.append(record)
                if len(records) > job.done:
                    ended = why_ended(records, chain.rules)
                    yield Progress(number=job.number, chain=chain, record=record, ended=ended)
            forget_failure(store, chain.spec)
        except BusyError:
            yield Busy(number=job.number, chain=chain)
        except StoreError:
            raise
        except Exception as problem:
            yield failed(job, store, problem)


def _records(job: Job, store: Path, device: torch.device, loaded: Datasets) -> Iterator[Record]:
    """The levels of one chain, trained in this process, or in a process group if the chain has several devices."""
    _refuse_failed(job, store)
    chain = job.chain
    if chain.devices == 1:
        data = loader(chain, device, loaded)
        return run_chain(chain.spec, store, data, rules=chain.rules, keep_weights=chain.keep_weights)
    return run_group(
        GroupTask(
            spec=chain.spec,
            store=store,
            root=chain.root,
            rules=chain.rules,
            keep_weights=chain.keep_weights,
            device=str(device),
            size=chain.devices,
        )
    )


def _deaths(job: Job, store: Path) -> float:
    """How many workers died on a chain since its last progress."""
    folder = chain_folder(store, job.chain.spec).path
    holder = holder_of(folder)
    if holder is None or is_locked(folder / "lock"):
        return 0
    return holder.deaths_without_progress(footprint(folder))


def count_deaths(
    jobs: Iterable[Job], store: Path, *, whole_node: bool = False
) -> Iterator[tuple[Job, DeathsError]]:
    """Count the deaths of workers against the chains that they held; yield chains on which too many died."""
    left: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        folder = chain_folder(store, job.chain.spec).path
        holder = holder_of(folder)
        if holder and not holder.left and not is_locked(folder / "lock"):
            left.setdefault((holder.host, holder.pid), []).append(job)
    for abandoned in left.values():
        weight = PARTIAL_DEATH if whole_node or len(abandoned) > 1 else 1
        for job in abandoned:
            try:
                with chain_folder(store, job.chain.spec).locked(weight=weight):
                    pass
            except BusyError:  # another worker has just taken it, and counted the death
                continue
            except DeathsError as problem:
                yield job, problem


def _fleets(jobs: Sequence[Job], store: Path) -> Iterator[list[Job]]:
    """Put all chains into one fleet, but halve fleets that died, down to one chain.

    This isolates the chain that causes the deaths. The others make progress, which resets their count.
    """
    by_deaths: dict[float, list[Job]] = {}
    for job in jobs:
        by_deaths.setdefault(_deaths(job, store), []).append(job)
    for deaths, alike in sorted(by_deaths.items()):
        halvings = max(
            0, math.ceil(deaths / PARTIAL_DEATH) - 1
        )  # the first death may not be the fault of a chain
        size = math.ceil(len(alike) / 2**halvings)
        yield from (alike[first : first + size] for first in range(0, len(alike), size))


def _members(
    jobs: Sequence[Job], store: Path, device: torch.device, loaded: Datasets, taken: dict[int, Job]
) -> "list[ChainJob]":
    """The jobs of a fleet; `taken` collects the chains that it has locked."""
    from prunecast.fleet import ChainJob

    return [
        ChainJob(
            spec=job.chain.spec,
            rules=job.chain.rules,
            dataset=partial(_take, job, store, taken, loader(job.chain, device, loaded)),
            keep_weights=job.chain.keep_weights,
        )
        for job in jobs
    ]


def _outcome(
    job: Job, event: "LevelFinished | ChainFailed", store: Path, taken: dict[int, Job]
) -> Outcome | None:
    """The outcome that a fleet's event stands for; None for a level that was finished before."""
    from prunecast.fleet import ChainFailed

    if isinstance(event, ChainFailed):
        taken.pop(job.number, None)
        if isinstance(event.problem, BusyError):
            return Busy(number=job.number, chain=job.chain)
        return failed(job, store, event.problem)
    if event.ended:
        taken.pop(job.number, None)
        forget_failure(store, job.chain.spec)
    if event.record.level < job.done:
        return None
    return Progress(number=job.number, chain=job.chain, record=event.record, ended=event.ended)


class FleetError(Exception):
    """A fleet failed as a whole."""

    def __init__(self, jobs: Iterable[Job], problem: Exception) -> None:
        """`jobs` are the chains that it had taken and not finished."""
        super().__init__(f"a fleet failed with {in_one_line(problem)}")
        self.jobs, self.problem = tuple(jobs), problem


def _take(job: Job, store: Path, taken: dict[int, Job], load_dataset: Callable[[], Dataset]) -> Dataset:
    """Note that a fleet has locked a chain, and load its data. Raises if the chain has failed in this run."""
    _refuse_failed(job, store)
    taken[job.number] = job
    return load_dataset()


class _FailedBeforeError(Exception):
    """Another worker has failed with this chain in this run, and recorded that."""


def _refuse_failed(job: Job, store: Path) -> None:
    if new_failure(job, store):
        raise _FailedBeforeError


def failed(job: Job, store: Path, problem: Exception) -> Failed:
    """Record in the store that a chain raised, unless another worker did."""
    known = new_failure(job, store) if isinstance(problem, _FailedBeforeError) else None
    failure = known or record_failure(store, job, problem)
    return Failed(number=job.number, chain=job.chain, error=failure.error, traceback=failure.traceback)


def torch_device(device: str) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        found = torch.device(device)
    except RuntimeError as failure:
        raise PrunecastError(f"There is no device {device!r}; give cpu or cuda.") from failure
    if found.type == "cuda" and not torch.cuda.is_available():
        raise PrunecastError("torch finds no CUDA device here; give --device cpu.")
    return found


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The instructions for a worker process; they can be pickled."""

    jobs: tuple[Job, ...]
    """All chains that it may take, the longest first."""
    store: Path
    device: str = "cpu"
    packed: bool = False
    """Whether it trains chains together as a fleet."""
    most_width: float | None = None
    """The largest total width of its fleet, so that other workers get chains, too; None for no limit."""
    resources: Resources = field(default_factory=Resources)
    store_id: str = ""
    """The store's identity; empty to skip the check."""
    code: str = ""
    """The driver's version of the code; empty to skip the check."""
    paths: tuple[str, ...] = ()
    """Where the driver finds modules, a user's own families among them."""
    work: Callable[..., Generator[Outcome, None, None]] = work
    """What runs the chains; tests and benchmarks replace it."""


def run_worker(spec: WorkerSpec) -> bool:
    """Run chains until none is left to take; return whether the time limit came first.

    Raises a PrunecastError if no chain can run here: another store, other code, or a missing device.
    """
    prepare(spec)
    return pull_chains(spec)


def prepare(spec: WorkerSpec, *, driver_lives: bool = True) -> None:
    """Add the driver's module paths, and check that this process has its code and sees its store and locks."""
    sys.path += [path for path in spec.paths if path not in sys.path]
    if spec.code:
        check_code(spec.code)
    if spec.store_id:
        check_store(spec.store, spec.store_id, held=driver_lives)
    torch.set_num_threads(1)


def pull_chains(spec: WorkerSpec, grace: float | None = None) -> bool:
    """Run chains until none is left to take; return whether the time limit came first.

    If a fleet fails as a whole, the chains that it had taken fail. The worker ends, because its GPU may be unusable,
    and another worker continues with the other chains. If the fleet had taken none, all chains that no process holds
    fail; otherwise workers would fail forever.
    """
    left = {job.number: job for job in spec.jobs}
    options = {"device": spec.device, "packed": spec.packed, "most_width": spec.most_width}
    outcomes = spec.work(spec.jobs, spec.store, **options, loaded=_datasets())
    limit = _time_limit(spec.resources.minutes, spec.resources.grace if grace is None else grace)
    try:
        with limit, contextlib.closing(outcomes):
            for outcome in outcomes:
                if not isinstance(outcome, Progress) or outcome.ended:
                    left.pop(outcome.number, None)
    except TimeLimitReached:
        return True
    except PrunecastError:  # a store that cannot be written, or a device that is not there
        raise
    except FleetError as failure:
        _fail(failure.jobs or left.values(), spec.store, failure.problem)
    except Exception as problem:
        _fail(left.values(), spec.store, problem)
    return False


def _fail(jobs: Iterable[Job], store: Path, problem: Exception) -> None:
    """Record a failure of chains that have not ended and that no other worker holds."""
    for job in jobs:
        try:
            with chain_folder(store, job.chain.spec).locked():
                if not has_ended(job, store):
                    failed(job, store, problem)
        except BusyError:
            continue
        except DeathsError as deaths:
            failed(job, store, deaths)


def has_ended(job: Job, store: Path) -> bool:
    """Whether the store shows that a chain has ended; false if its records are damaged."""
    with contextlib.suppress(PrunecastError):
        return bool(why_ended(chain_folder(store, job.chain.spec).records(), job.chain.rules))
    return False


@functools.cache
def _datasets() -> Datasets:
    """Datasets in memory, for all workers that this process runs, one after the other."""
    return {}


@contextlib.contextmanager
def _time_limit(minutes: float | None, grace: float) -> Iterator[None]:
    """Raise TimeLimitReached after so many minutes; end the process if it does not stop within the grace."""
    if minutes is None:
        yield
        return
    last = threading.Timer(60 * minutes + grace, os._exit, (OUT_OF_TIME,))
    last.daemon = True
    last.start()
    try:
        with raising_after(60 * minutes, TimeLimitReached):
            yield
    finally:
        last.cancel()


def main() -> None:
    """Run the worker that standard input describes, until the input is closed or nothing is left to do.

    A worker that cannot work here prints one line on standard error and ends with status 2.
    """
    try:
        with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as given:
            spec: WorkerSpec = pickle.load(given)
            stop_after(given.readall, spec.resources.grace)
            run_worker(spec)
    except PrunecastError as problem:
        print(sentence(problem), file=sys.stderr)
        sys.exit(2)
