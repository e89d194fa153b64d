"""Chains on all GPUs of a machine: a fleet on each, and teams on as many as their chains ask for."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from prunecast.sweep.events import Job, Outcome
from prunecast.sweep.processes import processes


def on_all_gpus(jobs: Sequence[Job], store: Path, count: int) -> Iterator[Outcome]:
    """Run jobs on so many GPUs: those of one device packed, then those of several, so that no GPU is shared."""
    for devices in sorted({job.chain.devices for job in jobs}):
        own = [job for job in jobs if job.chain.devices == devices]
        yield from processes(own, store, devices=first_gpus(count, devices), packed=devices == 1)


def first_gpus(count: int, devices: int) -> list[str]:
    """The first GPU of every team that has room at the same time; where not even one has, that team says so."""
    return [f"cuda:{first}" for first in range(0, max(1, count - devices + 1), devices)]
