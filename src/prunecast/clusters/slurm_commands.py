"""Slurm's commands as functions. None needs an accounting database."""

import contextlib
import importlib.util
import io
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.sweep import Resources

COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "srun")
FIELDS = ("ArrayJobID", "ArrayTaskID", "Name", "State", "RestartCnt", "Reason")
SILENCE = ("unable to contact", "timed out", "connection refused", "communication", "temporarily")
TOO_MANY = ("accounting/qos policy", "array specification")
"""Words with which Slurm refuses too many jobs."""
ANSWER = 300
"""Seconds after which a command that does not answer is ended."""
REPORT = 30
"""Seconds after its worker's grace in which a job reports how it ended."""
OURS = {
    "time": "--minutes",
    "mem": "--memory-gb",
    "cpus-per-task": "--cpus",
    "gpus": "--gpus",
    "gpus-per-node": "--gpus",
    **dict.fromkeys(("array", "job-name", "output", "error", "signal", "requeue", "nodes", "ntasks")),
}
"""Options of sbatch that the backend sets, and the options of the command that set them, if any."""


class NoAnswerError(Exception):
    """Slurm's controller does not answer at the moment."""


class TooManyError(Exception):
    """Slurm does not accept so many jobs at once, or no more from this user for now."""


@dataclass(frozen=True, kw_only=True)
class QueuedJob:
    """A job that is in the queue, waiting or running."""

    name: str
    job: str
    """The name that Slurm's commands use: 17_3, or 17 outside an array."""
    state: str
    restarts: int
    reason: str


def check_tools() -> None:
    """Refuse to begin without submitit and Slurm's commands."""
    if importlib.util.find_spec("submitit") is None:
        raise PrunecastError("--on slurm needs submitit; install it with: pip install 'prunecast[slurm]'.")
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise PrunecastError(
            f"--on slurm needs Slurm's command {missing[0]}, which was not found; run prunecast where jobs are "
            "submitted, usually on the login node of the cluster."
        )


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options that the driver sets itself."""
    for key in options:
        if key in OURS:
            remedy = f"give {OURS[key]} instead" if OURS[key] else "prunecast sets it itself"
            raise PrunecastError(f"--sbatch {key}={options[key]}: {remedy}.")


def parameters(need: Resources, options: Mapping[str, str]) -> dict[str, Any]:
    """submitit's parameters for a worker's resources; `options` go to sbatch as they are."""
    if need.gpus != int(need.gpus):
        raise PrunecastError(
            f"gpus is {need.gpus}, but Slurm allocates whole GPUs; give 1, which a fleet of chains fills."
        )
    cpus = math.ceil(need.cpus)
    delay = int(need.grace) + REPORT
    known: dict[str, Any] = {
        "time": need.minutes,
        "signal_delay_s": min(delay, 15 * need.minutes) if need.minutes else delay,
        "cpus_per_task": cpus,
        "srun_args": [f"--cpus-per-task={cpus}"],  # srun does not inherit it from sbatch since Slurm 22.05
        "mem": f"{math.ceil(need.memory_gb * 1024)}M" if need.memory_gb else None,
        "gpus_per_node": int(need.gpus) if need.gpus and "gres" not in options else None,
        "additional_parameters": {"requeue": True, **options},
    }
    return {key: value for key, value in known.items() if value is not None or key == "time"}


def submit(
    folder: Path,
    name: str,
    work: Callable[..., None],
    tasks: Sequence[tuple[Any, ...]],
    settings: Mapping[str, Any],
) -> list[str]:
    """Submit an array with an element per tuple of arguments; return Slurm's names of the elements."""
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = submitit.SlurmExecutor(folder=folder, python=_python())
    executor.update_parameters(job_name=name, **settings)
    try:
        with (
            _outside_of_any_job(),
            contextlib.redirect_stderr(io.StringIO()),
        ):  # its words come with the error
            return [job.job_id for job in executor.map_array(work, *zip(*tasks, strict=True))]
    except (FailedJobError, FailedSubmissionError) as failure:
        raise _submission_error(" ".join(str(failure).split())) from failure


def _python() -> str:
    """The command of a worker's Python, without the current folder on its path unless prunecast itself is there.

    Otherwise a `torch.py` in the folder of a plan would replace the installed one.
    """
    installed = Path(__file__).resolve().parents[2] != Path.cwd().resolve()
    return shlex.join([sys.executable, "-P"] if installed else [sys.executable])


@contextlib.contextmanager
def _outside_of_any_job() -> Iterator[None]:
    """Hide the variables of the job that the driver may run in, except the path of Slurm's configuration."""
    from submitit.helpers import clean_env

    where = {key: value for key, value in os.environ.items() if key == "SLURM_CONF"}
    with clean_env():
        os.environ.update(where)
        yield


def _submission_error(words: str) -> Exception:
    low = words.lower()
    if any(part in low for part in TOO_MANY):
        return TooManyError(words)
    if any(part in low for part in SILENCE):
        return NoAnswerError(words)
    said = words[words.find("sbatch: error:") :] if "sbatch: error:" in words else words
    return PrunecastError(f"Slurm does not accept the jobs ({said}); correct --sbatch or the resources.")


def queue(names: Iterable[str]) -> list[QueuedJob]:
    """The jobs of these names that are in the queue, from one call."""
    wanted = ",".join(names)
    if not wanted:
        return []
    form = ",".join(f"{field}:|" for field in FIELDS)
    lines = _asked("squeue", "--noheader", "--array", f"--name={wanted}", f"--Format={form}").splitlines()
    return [_row(line) for line in lines if line.count("|") >= len(FIELDS) - 1]


def _row(line: str) -> QueuedJob:
    array, index, name, state, restarts, reason = line.split("|")[: len(FIELDS)]
    alone = not index.isdigit()
    return QueuedJob(
        name=name,
        job=array if alone else f"{array}_{index}",
        state=state,
        restarts=int(restarts) if restarts.isdigit() else 0,
        reason=reason,
    )


def largest_array() -> int:
    """The largest number of elements of an array on this cluster."""
    for line in _asked("scontrol", "show", "config").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "MaxArraySize" and value.strip().isdigit():
            return max(1, int(value))
    return 1


def job_facts(job: str) -> dict[str, str]:
    """Facts about a job that left the queue; Slurm forgets them after some minutes."""
    try:
        text = _asked("scontrol", "--oneliner", "show", "job", job)
    except NoAnswerError:
        return {}
    words = [word.partition("=") for word in text.split()]
    return {key: value for key, sign, value in words if sign}


def cancel(jobs: Sequence[str]) -> None:
    """Cancel waiting and running jobs; jobs that have left the queue do not matter."""
    if jobs:
        _tried("scancel", "--quiet", *jobs)


def _asked(*command: str) -> str:
    done = _tried(*command)
    if done.returncode != 0:
        raise NoAnswerError(" ".join(done.stderr.split()) or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def _tried(*command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command without the user's own format and filters of squeue."""
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("SQUEUE_")}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=surroundings, timeout=ANSWER
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} took more than {ANSWER} seconds")
