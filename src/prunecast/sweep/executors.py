"""Where chains run: in this process, in a pool of processes, or as a fleet on a GPU; all with one face."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from prunecast.errors import PrunecastError
from prunecast.sweep.events import Executor, Job, Outcome, Progress
from prunecast.sweep.processes import processes
from prunecast.sweep.work import Loaded, loader, torch_device, work


def executor_for(device: str, jobs: int, *, plain: bool = False) -> Executor:
    """The executor for a device and a number of chains at the same time: a fleet on a GPU unless `plain`."""
    place = torch_device(device)
    if jobs < 1:
        raise PrunecastError(f"--jobs is {jobs}; give 1 or more.")
    if place.type == "cuda" and not plain:
        return partial(fleet, device=place)
    if jobs == 1:
        return partial(inline, device=device)
    return partial(processes, count=jobs, device=device)


def usual_jobs(device: str) -> int:
    """As many chains at the same time as there are cores for this process; one fleet on a GPU."""
    return len(os.sched_getaffinity(0)) if device == "cpu" else 1


def inline(jobs: Sequence[Job], store: Path, *, device: str = "cpu") -> Iterator[Outcome]:
    """Run jobs one after the other in this process."""
    place = torch_device(device)
    loaded: Loaded = {}
    for job in jobs:
        yield from work(job, store, place, loaded)


def fleet(jobs: Sequence[Job], store: Path, *, device: torch.device) -> Iterator[Outcome]:
    """Run jobs packed together on one GPU."""
    from prunecast import fleet as packed

    loaded: Loaded = {}
    members = [
        packed.Job(
            spec=job.chain.spec,
            rules=job.chain.rules,
            dataset=loader(job.chain, device, loaded),
            keep_weights=job.chain.keep_weights,
        )
        for job in jobs
    ]
    for done in packed.run_fleet(members, store, device=device):
        job = jobs[done.number]
        if done.record.level >= job.done:
            yield Progress(number=job.number, chain=job.chain, record=done.record, ended=done.ended)
