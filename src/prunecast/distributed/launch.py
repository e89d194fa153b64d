"""Start a group of processes for one chain, pass on what they report, and end all of them together."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from torch import distributed

from prunecast.errors import PrunecastError
from prunecast.pruning import Record, StopRules, chain_folder
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
TRIES = 2
"""The chain fails when so many groups in a row lose a member without a new level."""
GRACE = 5.0
"""The most seconds between a broken connection and the death of the member that broke it."""
OUTPUT_KEPT = 2000
"""Characters of a dead member's output that are kept."""


@dataclass(frozen=True, kw_only=True)
class GroupTask:
    """A chain for a group of processes."""

    spec: ChainSpec
    store: Path
    root: Path | None
    """Where the data is."""
    rules: StopRules
    keep_weights: bool
    device: str
    """cpu, or cuda with the number of the first member's GPU."""
    size: int
    """Processes."""


@dataclass(frozen=True, kw_only=True)
class MemberTask:
    """The message that starts one member."""

    task: GroupTask
    rank: int
    port: int
    """The port on the loopback at which the members meet."""


@dataclass(frozen=True, kw_only=True)
class Raised:
    """A member raised; the others cannot continue without it."""

    problem: Exception
    traceback: str


class MemberDiedError(PrunecastError):
    """A member was killed or crashed. The next try continues from the chain's last checkpoint."""


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A process at the other end of a pipe."""

    rank: int
    process: "subprocess.Popen[bytes]"
    pipe: Connection
    output: Path


def run_group(task: GroupTask, *, tries: int = TRIES) -> Iterator[Record]:
    """Run a chain in as many processes as the task says; yield its records, those of finished levels first.

    If a member dies, all are ended, and another group continues from the last checkpoint, up to `tries` times without
    progress. Exceptions of members are raised here.
    """
    check(task)
    reported = deaths = 0
    while True:
        try:
            for number, record in enumerate(_one_group(task)):
                if number >= reported:
                    reported, deaths = number + 1, 0
                    yield record
            return
        except MemberDiedError as death:
            deaths += 1
            if deaths == tries:
                raise
            LOG.warning("%s The chain continues in another group.", death)


def check(task: GroupTask) -> None:
    """Refuse more devices than there are, a chain that is locked, and a store that cannot be written."""
    if not distributed.is_available():
        raise PrunecastError("This torch was built without torch.distributed; remove devices from the plan.")
    found = torch.cuda.device_count() if task.device.startswith("cuda") else task.size
    if task.size > found:
        raise PrunecastError(
            f"The plan asks for devices = {task.size}, but torch finds {found} GPUs here; "
            "lower devices, or run it on a machine with enough GPUs."
        )
    with chain_folder(task.store, task.spec).locked():
        pass


def _one_group(task: GroupTask) -> Iterator[Record]:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in every build of torch

    # Port 0 binds a free port at once, so no other process can take it in between.
    meeting = TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
    members: list[_Member] = []
    with tempfile.TemporaryDirectory(prefix="prunecast-group-") as folder:
        try:
            tasks = (MemberTask(task=task, rank=rank, port=meeting.port) for rank in range(task.size))
            members.extend(_started(member_task, Path(folder)) for member_task in tasks)
            yield from _received(members)
        finally:
            _release_chain(members[:1])
            for member in members:
                member.process.kill()
            for member in members:
                member.process.wait()
                member.pipe.close()


def _release_chain(first: list[_Member]) -> None:
    """Let the first member, which holds the chain, release it: a kill would count against the chain."""
    for member in first:
        member.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            member.process.wait(GRACE)


def _started(given: MemberTask, folder: Path) -> _Member:
    """Start a plain process: daemonic workers may do that, but may not use multiprocessing."""
    here, there = Pipe()
    output = folder / f"member-{given.rank}.log"
    command = [sys.executable, "-P", "-m", "prunecast.distributed.member", str(there.fileno())]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            pass_fds=[there.fileno()],
            env=_environment(given.task),
        )
    there.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the receiver notices the death
        here.send(given)
    return _Member(rank=given.rank, process=process, pipe=here, output=output)


def _environment(task: GroupTask) -> dict[str, str]:
    """This process's environment and import path. All members are on this machine, so they use its loopback."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    usual = {
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "OMP_NUM_THREADS": str(task.spec.threads),
    }
    path = os.pathsep.join(place or str(Path.cwd()) for place in sys.path)
    return {**usual, **os.environ, "PYTHONPATH": path}


def _received(members: list[_Member]) -> Iterator[Record]:
    """Yield records until None says that the chain has ended; raise a member's exception, or its death."""
    by_pipe = {member.pipe: member for member in members}
    while True:
        for pipe in wait(list(by_pipe)):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):  # OSError if it died in the middle of a message
                raise _death(by_pipe[pipe], len(members)) from None
            if isinstance(message, Record):
                yield message
            elif message is None:
                return
            else:
                _raise(message, members)


def _raise(message: Raised, members: list[_Member]) -> None:
    """Raise a member's exception, or the death that caused it: connections break when a member dies."""
    if not isinstance(message.problem, PrunecastError):
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            for member in members:
                if member.process.poll() is not None:
                    raise _death(member, len(members))
            time.sleep(GRACE / 100)
    message.problem.add_note(message.traceback)
    raise message.problem


def exit_words(code: int) -> str:
    """How a process ended, such as "was ended by SIGKILL"."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _death(member: _Member, size: int) -> MemberDiedError:
    """The error for a member that died, with the end of its output as a note."""
    code = member.process.wait()
    how = exit_words(code)
    death = MemberDiedError(
        f"Process {member.rank + 1} of the {size} that train this chain {how}, so the others were ended too; the next "
        "try continues from the last checkpoint."
    )
    death.add_note(member.output.read_bytes()[-OUTPUT_KEPT:].decode(errors="replace"))
    return death
