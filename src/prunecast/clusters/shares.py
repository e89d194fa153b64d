"""What a worker on any node is given at once, and the plain function by which it does that."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from prunecast.clusters.resources import Resources, devices_of, needs
from prunecast.sweep.cost import chain_work
from prunecast.sweep.events import Job, Outcome, Share
from prunecast.sweep.executors import fleet
from prunecast.sweep.work import Loaded, one_by_one, torch_device

FLEET = 64.0
"""Widths added up that keep a whole GPU busy: two packs in training, and two to take their place."""


def shares(jobs: Sequence[Job], resources: Resources, *, workers: int = 1) -> list[Share]:
    """Divide jobs into what one worker does in one go, the longest first.

    That is one chain on a CPU and for a chain on several devices; for a worker with a GPU it is a fleet's
    worth of chains that need the same, fewer where there would be none left for some of the `workers`.
    """
    groups: dict[tuple[Resources, bool], list[Job]] = {}
    for job in jobs:
        need = needs(job.chain, resources)
        groups.setdefault((need, need.gpus > 0 and devices_of(job.chain) == 1), []).append(job)
    found: list[Share] = []
    for (need, packed), members in groups.items():
        found += _fleets(members, need.gpus, workers) if packed else [(job,) for job in members]
    return sorted(found, key=lambda share: -sum(chain_work(job.chain, job.done) for job in share))


def _fleets(jobs: Sequence[Job], gpus: float, workers: int) -> Iterator[Share]:
    """Cut jobs into fleets, networks that fit into one pack side by side."""
    alike = sorted(jobs, key=lambda job: (_kind(job), -job.chain.spec.width))
    total = sum(job.chain.spec.width for job in jobs)
    most = min(FLEET * gpus, total / workers)
    ends = itertools.accumulate(job.chain.spec.width for job in alike)
    numbered = [(int(max(0.0, end - 1e-9) // most), job) for end, job in zip(ends, alike, strict=True)]
    for _, group in itertools.groupby(numbered, key=lambda pair: pair[0]):
        yield tuple(job for _, job in group)


def _kind(job: Job) -> tuple[str, str, int, str, int]:
    spec = job.chain.spec
    return spec.family, spec.dataset, spec.depth, spec.recipe.name, spec.num_examples


def device_for(need: Resources) -> str:
    """The device of a worker that has these resources."""
    return "cuda" if need.gpus else "cpu"


def work_share(share: Share, store: Path, device: str, loaded: Loaded | None = None) -> Iterator[Outcome]:
    """Run a share to its end wherever this is called: as a fleet on GPUs, else one chain after the other."""
    alone = len(share) == 1 and devices_of(share[0].chain) > 1
    if torch_device(device).type == "cuda" and not alone:
        yield from fleet(share, store, device=device)
    else:
        yield from one_by_one(share, store, torch_device(device), loaded)
