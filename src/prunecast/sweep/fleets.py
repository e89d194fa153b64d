"""Chains packed together on one GPU, with the same face and the same care for failures as chains alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from prunecast.errors import BusyError
from prunecast.sweep.events import Busy, Job, Outcome, Progress
from prunecast.sweep.failures import forget_failure
from prunecast.sweep.work import Loaded, failed, loader, one_by_one


def in_a_fleet(
    jobs: Sequence[Job], store: Path, device: torch.device, loaded: Loaded | None = None
) -> Iterator[Outcome]:
    """Run jobs packed together; one that raises fails alone, one that others work on is passed over.

    Chains of several devices are no part of a pack: each has its team when the fleet is done.
    """
    from prunecast import fleet

    loaded = {} if loaded is None else loaded
    teams = [job for job in jobs if job.chain.devices > 1]
    jobs = [job for job in jobs if job.chain.devices == 1]
    members = [
        fleet.Job(
            spec=job.chain.spec,
            rules=job.chain.rules,
            dataset=loader(job.chain, device, loaded),
            keep_weights=job.chain.keep_weights,
        )
        for job in jobs
    ]
    for event in fleet.fleet_events(members, store, device=device):
        job = jobs[event.number]
        if isinstance(event, fleet.Finished):
            if event.ended:
                forget_failure(store, job.chain.spec)
            if event.record.level >= job.done:
                yield Progress(number=job.number, chain=job.chain, record=event.record, ended=event.ended)
        elif isinstance(event.problem, BusyError):
            yield Busy(number=job.number, chain=job.chain)
        else:
            yield failed(job, store, event.problem)
    if teams and device.type == "cuda":
        torch.cuda.empty_cache()  # a team is other processes, which need the room on the same GPU
    yield from one_by_one(teams, store, device, loaded)
