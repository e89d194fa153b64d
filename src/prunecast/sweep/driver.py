"""The driver of all backends: it keeps workers running while chains are left, and reports what the store shows.

Workers take chains from the store themselves, so a driver carries no results and may die at any time. It reports every
level once, replaces workers that die, and decides from the store when a chain causes deaths.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning import (
    HOLDER_FILE,
    NO_FILE,
    DeathsError,
    FileVersion,
    chain_folder,
    code_version,
    file_version,
    why_ended,
    within,
)
from prunecast.sweep.backend import Backend, Ended
from prunecast.sweep.cost import chain_work
from prunecast.sweep.events import (
    Busy,
    Failed,
    Job,
    Outcome,
    Progress,
    failure_path,
    new_failure,
    write_failure,
)
from prunecast.sweep.resources import Resources
from prunecast.sweep.shared_store import identified
from prunecast.sweep.status import is_locked
from prunecast.sweep.worker import WorkerSpec, count_deaths, has_ended, work

FLEET = 64.0
"""Total width that keeps a whole GPU busy: two packs that train, and two that wait."""
PAUSE = 0.2
"""Minimum seconds between two reads of the store."""
MOST_PAUSE = 30.0
"""Maximum seconds between two starts of workers that end without doing anything."""
MOST_FAILED_STARTS = 3
"""How many workers in a row may die before they take a chain, once the pause between starts has its maximum."""
END_SECONDS = 30.0
"""Seconds that workers have to end by themselves when all chains have ended."""


def drive(
    jobs: Sequence[Job],
    store: Path,
    *,
    backend: Callable[[], Backend],
    resources: Resources | None = None,
    work: Callable[..., Generator[Outcome, None, None]] = work,
) -> Generator[Outcome, None, None]:
    """Run jobs in the workers of a backend until all have ended or failed; yield what the store shows.

    `resources` are for chains whose plan names none. `work` is the function that workers call.
    """
    store = store.absolute()
    with identified(store) as store_id, backend() as started:
        template = WorkerSpec(
            jobs=(),
            store=store,
            store_id=store_id,
            code=code_version(),
            paths=tuple(str(Path(path).absolute()) for path in sys.path),
            work=work,
        )
        yield from _Driver(jobs, started, template, resources or Resources()).run()


@dataclass(kw_only=True)
class _Pool:
    """Chains whose workers need the same resources, and these workers."""

    spec: WorkerSpec
    open: dict[int, Job]
    """Chains that have neither ended nor failed, by number, the longest first."""
    workers: set[Hashable] = field(default_factory=set)
    cancelled: list[str] = field(default_factory=list)
    """How cancelled workers ended; they are not replaced."""
    given_up: bool = False
    """Whether no worker is started any more, because too many were cancelled."""
    pause: float = PAUSE
    next_start: float = 0.0
    failed_starts: int = 0
    """How many workers in a row have died before they took a chain."""


class _Driver:
    """Tracks the chains that have not ended, the levels that were reported, and the workers."""

    def __init__(
        self, jobs: Sequence[Job], backend: Backend, template: WorkerSpec, resources: Resources
    ) -> None:
        self._backend, self._store = backend, template.store
        self._reported = {job.number: job.done for job in jobs}
        self._versions: dict[Path, FileVersion] = {}
        self._pools: dict[Resources, _Pool] = {}
        for job in sorted(map(_absolute, jobs), key=lambda job: -chain_work(job.chain, job.done)):
            need = backend.needs(job.chain, resources)
            device = "cuda" if need.gpus else "cpu"
            spec = dataclasses.replace(template, resources=need, device=device, packed=need.gpus > 0)
            self._pools.setdefault(need, _Pool(spec=spec, open={})).open[job.number] = job
        self._at_once = min((need.at_once for need in self._pools if need.at_once), default=None)
        """The most workers at the same time: the smallest number that the plan or an option names."""

    def run(self) -> Iterator[Outcome]:
        yield from self._begin()
        pause = PAUSE
        while any(pool.open for pool in self._pools.values()):
            for pool in self._pools.values():
                self._start(pool)
            for ended in self._backend.ended(pause):
                self._worker_ended(ended)
            began = time.monotonic()
            for pool in self._pools.values():
                yield from self._new_outcomes(pool)
                self._give_up(pool)
            # Reading many chains from a slow disk takes long, so do it less often then.
            pause = max(PAUSE, 10 * (time.monotonic() - began))
        self._backend.no_more()
        until = time.monotonic() + END_SECONDS
        while any(pool.workers for pool in self._pools.values()) and time.monotonic() < until:
            ended_now = {ended.worker for ended in self._backend.ended(PAUSE)}
            for pool in self._pools.values():
                pool.workers -= ended_now

    def _begin(self) -> Iterator[Outcome]:
        """Finish chains whose last worker was killed after the last level, and report busy ones."""
        for pool in self._pools.values():
            for job in list(pool.open.values()):
                if has_ended(job, self._store):
                    del pool.open[job.number]
                    yield from work([job], self._store)
                elif self._is_held(job):
                    yield Busy(number=job.number, chain=job.chain)

    def _is_held(self, job: Job) -> bool:
        return is_locked(chain_folder(self._store, job.chain.spec).path / "lock")

    def _start(self, pool: _Pool) -> None:
        """Start as many workers as there is room for, at most one per open chain that no process holds."""
        missing = len(pool.open) - len(pool.workers) - len(pool.cancelled)
        if pool.given_up or missing <= 0 or time.monotonic() < pool.next_start:
            return
        if self._at_once:
            missing = min(missing, self._at_once - sum(len(other.workers) for other in self._pools.values()))
        spec = dataclasses.replace(pool.spec, jobs=tuple(pool.open.values()))
        count = min(missing, self._backend.room(spec))
        if count > 0:
            count = min(count, sum(not self._is_held(job) for job in spec.jobs))
        if count > 0:
            most_width = _most_width(spec, count + len(pool.workers))
            pool.workers |= {*self._backend.start(dataclasses.replace(spec, most_width=most_width), count)}
            pool.next_start = time.monotonic() + pool.pause
            pool.pause = min(MOST_PAUSE, 2 * pool.pause)

    def _new_outcomes(self, pool: _Pool) -> Iterator[Outcome]:
        """Report levels and failures that are new in the store."""
        for job in list(pool.open.values()):
            outcomes: list[Outcome] = [*self._levels(job), *self._failures(job)]
            for outcome in outcomes:
                pool.pause = PAUSE
                if not isinstance(outcome, Progress) or outcome.ended:
                    pool.open.pop(job.number, None)
                yield outcome

    def _levels(self, job: Job) -> Iterator[Progress]:
        folder = chain_folder(self._store, job.chain.spec)
        if not self._is_new(folder.path / "records.json"):
            return
        try:
            records = within(folder.records(), job.chain.rules)
        except PrunecastError:  # the worker that takes the chain reports what is wrong
            return
        for count in range(self._reported[job.number], len(records)):
            self._reported[job.number] = count + 1
            ended = why_ended(records[: count + 1], job.chain.rules)
            yield Progress(number=job.number, chain=job.chain, record=records[count], ended=ended)

    def _failures(self, job: Job) -> Iterator[Failed]:
        if self._is_new(failure_path(self._store, job.chain.spec)) and (
            failure := new_failure(job, self._store)
        ):
            error, traceback = failure.error, failure.traceback
            yield Failed(number=job.number, chain=job.chain, error=error, traceback=traceback)

    def _is_new(self, path: Path) -> bool:
        """Whether a file has changed since the last check."""
        before, now = self._versions.get(path, NO_FILE), file_version(path)
        self._versions[path] = now
        return now not in (before, NO_FILE)

    def _worker_ended(self, ended: Ended) -> None:
        """Remove a worker that has ended, and count its death if it died."""
        if ended.refusal:
            raise ended.refusal
        pool = next((pool for pool in self._pools.values() if ended.worker in pool.workers), None)
        if pool is None:
            return
        pool.workers.remove(ended.worker)
        self._refresh(pool.open.values())
        if ended.cancelled:
            pool.cancelled.append(ended.died)
            pool.given_up = not pool.workers
        elif ended.died:
            self._count_death(pool, ended)

    def _refresh(self, jobs: Iterable[Job]) -> None:
        """List the folders of chains, so that NFS drops its cached attributes of the files in them."""
        for job in jobs:
            with contextlib.suppress(OSError):
                next(chain_folder(self._store, job.chain.spec).path.iterdir(), None)

    def _count_death(self, pool: _Pool, ended: Ended) -> None:
        """Count a worker's death against the chains that it held; the store has the number of earlier deaths."""
        for job, deaths in count_deaths(pool.open.values(), self._store, whole_node=ended.whole_node):
            problem = DeathsError(deaths.deaths, f"the last one {ended.died}. {ended.remedy}")
            write_failure(self._store, job, str(problem), "")
        folders = [chain_folder(self._store, job.chain.spec).path for job in pool.open.values()]
        taken = [self._is_new(folder / HOLDER_FILE) for folder in folders]
        pool.failed_starts = 0 if any(taken) or ended.whole_node else pool.failed_starts + 1
        if pool.failed_starts >= MOST_FAILED_STARTS and pool.pause >= MOST_PAUSE:
            raise PrunecastError(
                f"Workers die before they take a chain: the last one {ended.died}. {ended.remedy} Nothing finished is "
                "lost; `python -m prunecast.sweep PLAN --jobs 1` shows what is wrong."
            )

    def _give_up(self, pool: _Pool) -> None:
        """Fail chains that no worker of this run will take, because all workers, or as many as chains, were cancelled.

        Chains that another run holds do not fail.
        """
        if pool.workers or not pool.cancelled:
            return
        pool.given_up |= len(pool.cancelled) >= len(pool.open)
        for job in pool.open.values() if pool.given_up else ():
            if not self._is_held(job) and not has_ended(job, self._store):
                error = f"{pool.cancelled[-1]}; the next run continues this chain"
                write_failure(self._store, job, error, "")


def _most_width(spec: WorkerSpec, workers: int) -> float | None:
    """The largest total width of each of so many fleets: enough for its GPUs, or a fair share of few chains."""
    fair = sum(job.chain.spec.width for job in spec.jobs) / workers
    return min(FLEET * spec.resources.gpus, fair) if spec.resources.gpus else fair


def _absolute(job: Job) -> Job:
    """The job with an absolute path of its data, for processes in other folders."""
    root = job.chain.root and job.chain.root.absolute()
    return dataclasses.replace(job, chain=dataclasses.replace(job.chain, root=root))
