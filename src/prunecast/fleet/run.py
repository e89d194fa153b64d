"""The fleet: chains are repacked at every level, and packs train side by side on their own streams of one device."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from prunecast.errors import StoreError
from prunecast.fleet.chains import Opener
from prunecast.fleet.device import DeviceThread
from prunecast.fleet.members import Failed, Finished, Job, Options
from prunecast.fleet.scheduler import Event, Scheduler
from prunecast.pruning import Record, open_chain, run_chain, why_ended
from prunecast.training import settings


def run_fleet(
    jobs: Sequence[Job],
    store: Path,
    *,
    device: torch.device,
    options: Options | None = None,
    opener: Opener = open_chain,
) -> Iterator[Finished]:
    """Run every chain to its end and yield each level as it is finished; the first failure is raised."""
    for event in fleet_events(jobs, store, device=device, options=options, opener=opener):
        if isinstance(event, Failed):
            raise event.problem
        yield event


def fleet_events(
    jobs: Sequence[Job],
    store: Path,
    *,
    device: torch.device,
    options: Options | None = None,
    opener: Opener = open_chain,
) -> Iterator[Event]:
    """Run every chain as far as it goes and yield each level as it is finished, stored ones at once.

    A chain that raises, or that another process works on, is reported and left out. The store sees finished levels
    only; one that cannot be written ends everything with a StoreError. Meanwhile the device belongs to a thread of its
    own. Chains that a fleet cannot train are then trained by the plain loop, in the caller's thread.
    """
    options = options or Options()
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    for precision in sorted({job.spec.recipe.precision for job in jobs}):
        alike = [(number, job) for number, job in enumerate(jobs) if job.spec.recipe.precision == precision]
        scheduler = Scheduler(alike, store, device, options, opener)
        threads = max((job.spec.threads for _, job in alike), default=1)
        with settings(precision, device, threads, trials=False):
            yield from DeviceThread(device, scheduler.run, scheduler.stop).run()
        for number in scheduler.left:
            yield from _run_plain(number, jobs[number], store, scheduler.told[number])


def _run_plain(number: int, job: Job, store: Path, reported: int) -> Iterator[Event]:
    """Continue a chain with the plain loop, alone on the device; levels already reported are left out."""
    records: list[Record] = []
    try:
        for record in run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=job.keep_weights):
            records.append(record)
            if len(records) > reported:
                yield Finished(number=number, record=record, ended=why_ended(records, job.rules))
    except StoreError:
        raise
    except Exception as problem:
        yield Failed(number=number, problem=problem)
