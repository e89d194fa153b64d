"""The backend for Slurm: workers as elements of job arrays, which submitit submits.

slurm/<driver>/lock                    locked by the driver while it runs
slurm/<driver>/<number>/worker.pickle  the instructions for the workers of one array
slurm/<driver>/<number>/...            submitit's files, logs, and the reports of the workers

If a driver dies, its running jobs continue to take chains from the store; the next driver cancels those that wait.
submitit itself monitors jobs by `sacct`, which needs an accounting database; `squeue` needs none.
"""

import contextlib
import dataclasses
import fcntl
import math
import os
import pickle
import shutil
import signal
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from prunecast.clusters.slurm_commands import (
    NoAnswerError,
    QueuedJob,
    TooManyError,
    cancel,
    check_options,
    check_tools,
    job_facts,
    largest_array,
    parameters,
    queue,
    submit,
)
from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import TimeLimitReached, make_folder, read_json, write_json
from prunecast.sweep import (
    FLEET,
    Backend,
    Ended,
    Resources,
    Stopped,
    WorkerSpec,
    check_store,
    is_locked,
    prepare,
    pull_chains,
    stop_on,
)

FOLDER = "slurm"
HOPELESS = ("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS")
"""Reasons of a job that would wait forever."""
IN_QUEUE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING")
LAUNCH_FAILED = "launch"
"""Part of the reason of a job that Slurm holds because a node could not start it."""
MOST_WORKERS = 1000
"""The most workers without `at_once`."""
PATIENCE = 20
"""How many queries in a row Slurm may leave unanswered."""
SILENT = 2
"""How many jobs on a node may fail to write to the store before an error names the node."""
UNBEGUN = 3
"""How many jobs may end without having begun to work, if none has ever begun."""
SIGNALS = {
    signal.SIGTERM: Stopped,
    signal.SIGUSR1: TimeLimitReached,
    signal.SIGUSR2: TimeLimitReached,
}
"""Slurm sends SIGTERM when it cancels or pre-empts a job, and one of the others before a time limit."""
REMEDIES = {
    "OUT_OF_MEMORY": "Give more --memory-gb.",
    "TIMEOUT": "Give more --minutes, or a recipe with fewer checkpoint_steps.",
}


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds between two queries to Slurm."""

    least: float = 5.0
    """While jobs start and end."""
    most: float = 60.0
    """When nothing has changed for a long time."""


@dataclass(kw_only=True)
class _Job:
    """An element of a job array."""

    folder: Path
    """The folder of its array."""
    index: int
    need: Resources
    begun: bool = False
    """Whether its worker's first report has been read."""


class SlurmBackend(Backend):
    """Workers as jobs. One query asks Slurm about all of them, rarely while nothing changes."""

    def __init__(
        self, options: Mapping[str, str] | None = None, *, chains_per_job: int = 1, pace: Pace | None = None
    ) -> None:
        """`options` go to sbatch as they are. On CPUs there is one job for every `chains_per_job` chains."""
        self._options, self._chains_per_job, self._pace = options or {}, chains_per_job, pace or Pace()
        self._jobs: dict[str, _Job] = {}
        self._open = contextlib.ExitStack()
        self._folder: Path | None = None
        self._name = ""
        self._arrays = 0
        self._others: list[str] = []
        """Names of the jobs of dead drivers, which may still run."""
        self._foreign = 0
        self._largest = MOST_WORKERS
        self._may_submit = True
        self._unanswered = 0
        self._wait, self._next_query = self._pace.least, 0.0
        self._silent: Counter[str] = Counter()
        self._unbegun, self._any_begun = 0, False
        self._died: set[Path] = set()
        """Folders with logs of jobs that died."""
        self._withdrawn: list[str] = []
        """Jobs that were cancelled before they began, because no chain was left."""

    def __enter__(self) -> Self:
        check_tools()
        check_options(self._options)
        return self

    def room(self, spec: WorkerSpec) -> int:
        """As many jobs as the chains need and `at_once` allows, less those in the queue."""
        parameters(spec.resources, self._options)  # refuses resources that Slurm cannot give
        self._begin(spec.store)
        need = spec.resources
        most = min(self._wanted(spec), need.at_once or MOST_WORKERS)
        mine = sum(job.need == need for job in self._jobs.values())
        return most - mine - self._foreign if self._may_submit else 0

    def _wanted(self, spec: WorkerSpec) -> int:
        """The number of workers for these chains; one fleet fills a GPU, and a worker takes seconds to start."""
        if not spec.resources.gpus:
            return math.ceil(len(spec.jobs) / self._chains_per_job)
        if spec.resources.at_once or any(job.chain.devices > 1 for job in spec.jobs):
            return len(spec.jobs)
        width = sum(job.chain.spec.width for job in spec.jobs)
        return math.ceil(width / (FLEET * spec.resources.gpus))

    def _begin(self, store: Path) -> None:
        """Make a folder for this driver, and cancel the waiting jobs of drivers that died."""
        if self._folder is not None:
            return
        try:
            self._largest = min(MOST_WORKERS, largest_array())
            dead = _dead_drivers(store)
            rows = queue(map(_job_name, dead))
            cancel([row.job for row in rows if row.state == "PENDING"])
        except NoAnswerError as silence:
            raise PrunecastError(f"Slurm does not answer ({silence}); try again when it does.") from silence
        running = {row.name for row in rows if row.state != "PENDING"}
        for folder in dead:
            if _job_name(folder) not in running:
                shutil.rmtree(folder, ignore_errors=True)
        self._others = sorted(running)
        self._foreign = sum(row.name in running and row.state != "PENDING" for row in rows)
        self._folder = self._open.enter_context(_driver_folder(store))
        self._name = _job_name(self._folder)

    def start(self, spec: WorkerSpec, count: int) -> list[str]:
        """Submit arrays, smaller ones where Slurm refuses large ones."""
        assert self._folder is not None
        # Slurm itself ends a job in time, after a signal.
        worker_spec = dataclasses.replace(spec, resources=dataclasses.replace(spec.resources, minutes=None))
        started: list[str] = []
        while len(started) < count and self._may_submit:
            self._arrays += 1
            folder = self._folder / str(self._arrays)
            make_folder(folder)
            (folder / "worker.pickle").write_bytes(pickle.dumps(worker_spec))
            started += self._submit(folder, spec.resources, min(count - len(started), self._largest))
        return started

    def _submit(self, folder: Path, need: Resources, size: int) -> list[str]:
        settings = {**parameters(need, self._options), "array_parallelism": size}
        try:
            names = submit(folder, self._name, run_job, [(folder, index) for index in range(size)], settings)
        except TooManyError as refusal:
            shutil.rmtree(folder)
            if size == 1 and not self._jobs:
                raise PrunecastError(
                    f"Slurm does not accept even one job ({refusal}); correct --sbatch or the resources."
                ) from refusal
            self._may_submit = size > 1  # else when others have left the queue
            self._largest = max(1, size // 2)
            return []
        except NoAnswerError:  # the job may have been submitted all the same; then it takes chains
            self._may_submit = False
            return []
        for index, name in enumerate(names):
            self._jobs[name] = _Job(folder=folder, index=index, need=need)
        self._wait, self._next_query = self._pace.least, time.monotonic() + self._pace.least
        return names

    def ended(self, seconds: float) -> Iterator[Ended]:
        """Jobs that have left the queue, or that Slurm has queued again: those would wait for minutes."""
        time.sleep(seconds)
        withdrawn, self._withdrawn = self._withdrawn, []
        yield from (Ended(worker=name) for name in withdrawn)
        if time.monotonic() < self._next_query:
            return
        rows, before = self._rows(), len(self._jobs)
        if rows is not None:
            for name, job in list(self._jobs.items()):
                ended = self._in_queue(job, rows[name]) if name in rows else self._left_queue(name, job)
                yield from ended
        changed = len(self._jobs) != before
        self._wait = self._pace.least if changed else min(self._pace.most, 2 * self._wait)
        self._next_query = time.monotonic() + self._wait

    def _rows(self) -> dict[str, QueuedJob] | None:
        """This driver's jobs in the queue, from one query; None if Slurm does not answer at the moment."""
        try:
            found = queue([self._name, *self._others]) if self._name else []
        except NoAnswerError as silence:
            self._unanswered += 1
            if self._unanswered > PATIENCE:
                hope = "the jobs continue; run the same command again to follow them"
                raise PrunecastError(f"Slurm no longer answers ({silence}); {hope}.") from silence
            return None
        self._unanswered, self._may_submit = 0, True
        self._foreign = sum(row.name != self._name for row in found)
        return {row.job: row for row in found if row.name == self._name}

    def _in_queue(self, job: _Job, row: QueuedJob) -> Iterator[Ended]:
        waits = row.state == "PENDING"
        if waits and row.reason in HOPELESS:
            raise PrunecastError(
                f"Job {row.job} would wait in Slurm forever ({row.reason}); "
                "ask for less, or for another partition or account with --sbatch."
            )
        if not waits and not job.begun and (report := _read(job, "began")):
            job.begun = self._any_begun = True
            if report["locks"]:
                raise PrunecastError(report["locks"])
        if waits and (row.restarts or LAUNCH_FAILED in row.reason.lower()):
            cancel([row.job])
            del self._jobs[row.job]
            yield Ended(worker=row.job, died="was queued again by Slurm", whole_node=True)

    def _left_queue(self, name: str, job: _Job) -> Iterator[Ended]:
        report, facts = _read(job, "ended"), {}
        if report is None or report["stopped"]:
            facts = job_facts(name)  # what squeue says may be some seconds old
            if facts.get("JobState") in IN_QUEUE:
                return
        del self._jobs[name]
        if report and report["refused"]:
            yield Ended(worker=name, refusal=PrunecastError(report["refused"]))
            return
        state = facts.get("JobState", "how it ended is not known")
        if state.startswith("CANCELLED"):
            yield Ended(worker=name, died=f"job {name} was cancelled", cancelled=True)
        elif report and not report["stopped"]:
            yield Ended(worker=name)
        else:
            yield self._death(name, job, facts, report["stopped"] if report else "")

    def _death(self, name: str, job: _Job, facts: Mapping[str, str], stopped: str) -> Ended:
        """The death of a job, with the last line of its log; an error if jobs never start."""
        self._died.add(job.folder)
        begun = _read(job, "began")
        node = begun["node"] if begun else facts.get("NodeList", "(null)")
        self._any_begun |= begun is not None
        said = _last_line(job, name)
        if begun is None:
            self._check_node(name, job, "" if node == "(null)" else node, said)
        state = f"stopped by {stopped}" if stopped else facts.get("JobState", "how it ended is not known")
        remedy = REMEDIES.get("TIMEOUT" if stopped else state, f"See its log in {job.folder}.")
        words = f", and its last output was: {said}" if said and not stopped else ""
        return Ended(worker=name, died=f"was job {name} on {node} ({state}{words})", remedy=remedy)

    def _check_node(self, name: str, job: _Job, node: str, said: str) -> None:
        """Refuse to continue if jobs never start, because a node does not see the store or Python is missing there."""
        self._unbegun += 1
        if node and not _logs(job, name):  # the node could not write to the store
            self._silent[node] += 1
            if self._silent[node] >= SILENT:
                raise StoreError(
                    f"{node} does not see the store {job.folder.parents[2]}: job {name} could write nothing there; "
                    "every node must see the store, so give --store a path on a shared file system, "
                    f"or keep the node out with --sbatch exclude={node}."
                )
        if self._unbegun >= UNBEGUN and not self._any_begun:
            raise PrunecastError(
                f"No worker could start; the last, job {name} on {node or 'no node'}, said: {said or 'nothing'} "
                "(every node needs this Python with prunecast at the same path)."
            )

    def no_more(self) -> None:
        """Cancel jobs that wait."""
        rows = self._rows() or {}
        waiting = [name for name, row in rows.items() if row.state == "PENDING"]
        cancel(waiting)
        self._withdrawn += [name for name in waiting if self._jobs.pop(name, None)]
        self._pace = dataclasses.replace(self._pace, most=self._pace.least)
        self._wait, self._next_query = 0.0, 0.0

    def stop(self) -> None:
        """Cancel all jobs in the queue. Logs of jobs that died are kept until the next run."""
        with self._open, contextlib.suppress(NoAnswerError):
            self._remove_folders()
            if self._name:
                cancel(sorted({row.job.split("_")[0] for row in queue([self._name])}))
        self._jobs.clear()

    def _remove_folders(self) -> None:
        """Remove the folders of arrays that have no job in the queue and no job that died."""
        kept = self._died | {job.folder for job in self._jobs.values()}
        for array in self._folder.glob("*/") if self._folder else ():
            if array not in kept:
                shutil.rmtree(array, ignore_errors=True)


def _job_name(driver: Path) -> str:
    return f"prunecast-{driver.name}"


def _dead_drivers(store: Path) -> list[Path]:
    """The folders of drivers that have ended."""
    return [folder for folder in sorted((store / FOLDER).glob("*/")) if not is_locked(folder / "lock")]


@contextlib.contextmanager
def _driver_folder(store: Path) -> Iterator[Path]:
    """A folder for this driver, locked while it runs, and removed at the end unless logs are left in it."""
    folder = store / FOLDER / uuid.uuid4().hex[:8]
    make_folder(folder)
    try:
        file = (folder / "lock").open("a")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as failure:
        raise StoreError(
            f"Cannot lock {folder}: {failure.strerror}; give --store a folder on a file system with locks."
        ) from failure
    with file:
        try:
            yield folder
        finally:
            if not any(folder.glob("*/")):
                shutil.rmtree(folder, ignore_errors=True)


def _read(job: _Job, kind: str) -> dict[str, Any] | None:
    path = job.folder / f"{kind}-{job.index}.json"
    return read_json(path) if path.exists() else None


def _logs(job: _Job, name: str) -> list[Path]:
    paths = (job.folder / f"{name}_0_log.{kind}" for kind in ("err", "out"))
    return [path for path in paths if path.exists()]


def _last_line(job: _Job, name: str) -> str:
    """The last line of a job's log, of standard error if it has any."""
    for path in _logs(job, name):
        lines = [line for line in path.read_text(errors="replace").split("\n") if line.strip()]
        if lines:
            return " ".join(lines[-1].split())
    return ""


def run_job(folder: Path, index: int) -> None:
    """Run the worker of one job; write how it began and ended to the folder of its array."""
    stop_on(SIGNALS)
    ended = folder / f"ended-{index}.json"
    ended.unlink(missing_ok=True)
    refused = stopped = ""
    try:
        spec: WorkerSpec = pickle.loads((folder / "worker.pickle").read_bytes())
        prepare(spec, driver_lives=False)
        node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
        write_json(folder / f"began-{index}.json", {"node": node, "locks": _lock_problem(spec)})
        stopped = "a time limit" if pull_chains(spec) else ""
    except (Stopped, TimeLimitReached) as stop:
        stopped = getattr(stop, "signal", "a time limit")
    except PrunecastError as problem:
        refused = str(problem)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    write_json(ended, {"refused": refused, "stopped": stopped})


def _lock_problem(spec: WorkerSpec) -> str:
    """Why the driver's lock is not seen here; only a driver that still runs knows that it holds it."""
    try:
        check_store(spec.store, spec.store_id)
    except PrunecastError as problem:
        return str(problem)
    return ""
