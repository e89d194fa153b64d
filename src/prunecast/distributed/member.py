"""`python -m prunecast.distributed.member DESCRIPTOR`: one member of a process group, at the other end of a pipe."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from types import FrameType
from typing import NoReturn

import torch
from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from prunecast.data import Dataset, load_for
from prunecast.distributed.launch import LOOPBACK, GroupTask, MemberTask, Raised
from prunecast.pruning import Record, follow_chain, run_chain
from prunecast.training import ProcessGroup

PATIENCE = timedelta(days=1)
"""How long members wait for each other. The process that started the group notices a death at once."""


def main(pipe: Connection) -> None:
    """Run the task that the pipe sends; the first member reports every level."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the starter, which then ends its members
    signal.signal(signal.SIGTERM, _stop)
    given: MemberTask = pipe.recv()
    threading.Thread(target=_exit_with_starter, args=(pipe,), daemon=True).start()
    try:
        for record in records_of(given):
            pipe.send(record)
        pipe.send(None)
    except SystemExit:  # the chain is released; torch's clean-up would wait for the other members
        os._exit(0)
    except Exception as problem:
        pipe.send(Raised(problem=_picklable(problem), traceback=traceback.format_exc()))
    # The starter ends all members at once: to the others, one that left first would look dead.
    threading.Event().wait()


def _stop(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit


def records_of(given: MemberTask) -> Iterator[Record]:
    """Join the group and train; only the first member yields records."""
    task = given.task
    device = device_of(task.device, given.rank)
    os.environ["LOCAL_WORLD_SIZE"] = str(task.size)
    torch.set_num_threads(task.spec.threads)
    group = joined(given, device)
    if given.rank:
        follow_chain(task.spec, task.store, _dataset(task, device), group)
    yield from run_chain(
        task.spec,
        task.store,
        lambda: _dataset(task, device),
        rules=task.rules,
        keep_weights=task.keep_weights,
        group=group,
    )


def joined(given: MemberTask, device: torch.device) -> ProcessGroup:
    """Join torch's default group: nccl between GPUs, gloo between processes on the CPU."""
    group = ProcessGroup(rank=given.rank, size=given.task.size)
    store = TCPStore(LOOPBACK, given.port, is_master=False, timeout=PATIENCE)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=group.rank,
        world_size=group.size,
        timeout=PATIENCE,
        device_id=device if device.type == "cuda" else None,
    )
    return group


def device_of(first: str, rank: int) -> torch.device:
    """The device of a member: consecutive GPUs from the first, continuing with GPU 0 after the last."""
    place = torch.device(first)
    if place.type != "cuda":
        return place
    return torch.device("cuda", ((place.index or 0) + rank) % torch.cuda.device_count())


def _dataset(task: GroupTask, device: torch.device) -> Dataset:
    return load_for(task.spec, root=task.root, device=device)


def _exit_with_starter(pipe: Connection) -> None:
    """End this process when the one that started it has ended."""
    try:
        pipe.recv()
    finally:
        os._exit(0)


def _picklable(problem: Exception) -> Exception:
    """An exception that any process can unpickle; unknown types become a RuntimeError."""
    if type(problem).__module__ in ("builtins", "prunecast.errors"):
        return problem
    return RuntimeError(f"{type(problem).__name__}: {problem}")


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
