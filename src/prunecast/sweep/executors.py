"""Where chains run: in this process, in a pool of processes, or as a fleet on every GPU; all with one face."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from prunecast.errors import PrunecastError
from prunecast.sweep.events import Executor, Job, Outcome
from prunecast.sweep.fleets import in_a_fleet
from prunecast.sweep.gpus import on_all_gpus
from prunecast.sweep.processes import processes
from prunecast.sweep.work import one_by_one, torch_device


def executor_for(device: str, jobs: int, *, plain: bool = False) -> Executor:
    """The executor for a device and a number of chains at the same time: fleets on GPUs unless `plain`."""
    place = torch_device(device)
    if jobs < 1:
        raise PrunecastError(f"--jobs is {jobs}; give 1 or more.")
    if place.type == "cuda" and not plain:
        return partial(fleet, device=device)
    if jobs == 1:
        return partial(inline, device=device)
    return partial(processes, devices=[device] * jobs)


def usual_jobs(device: str) -> int:
    """As many chains at the same time as there are cores for this process; a GPU has its fleet."""
    return len(os.sched_getaffinity(0)) if device == "cpu" else 1


def inline(jobs: Sequence[Job], store: Path, *, device: str = "cpu") -> Iterator[Outcome]:
    """Run jobs one after the other in this process."""
    yield from one_by_one(jobs, store, torch_device(device))


def fleet(jobs: Sequence[Job], store: Path, *, device: str = "cuda") -> Iterator[Outcome]:
    """Run jobs packed together: on one GPU in this process, on several in a process for each."""
    place = torch_device(device)
    several = place.type == "cuda" and place.index is None and torch.cuda.device_count() > 1
    if several:
        yield from on_all_gpus(jobs, store, torch.cuda.device_count())
    else:
        yield from in_a_fleet(jobs, store, place)
