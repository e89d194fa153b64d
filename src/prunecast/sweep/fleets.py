"""Chains packed together on one GPU, with the same face and the same care for failures as chains alone."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from prunecast.data import Dataset
from prunecast.errors import BusyError, PrunecastError, StoreError
from prunecast.pruning import Chain, chain_folder, open_chain
from prunecast.spec import ChainSpec
from prunecast.sweep.events import Busy, Job, Outcome, Progress
from prunecast.sweep.failures import forget_failure
from prunecast.sweep.look import is_held
from prunecast.sweep.work import Loaded, failed, loader, one_by_one

LOG = logging.getLogger(__name__)


def in_a_fleet(
    jobs: Sequence[Job], store: Path, device: torch.device, loaded: Loaded | None = None
) -> Iterator[Outcome]:
    """Run jobs packed together; one that cannot even be opened fails alone, and the others start again.

    Should the fleet itself fail while it trains, what is left is trained chain by chain, which tells whose
    fault it was.
    """
    left, loaded = list(jobs), {} if loaded is None else loaded
    while left:
        ready: list[Job] = []
        for job in left:
            outcome = _unfit(job, store)
            if outcome is None:
                ready.append(job)
            else:
                yield outcome
        opening: list[ChainSpec] = []
        try:
            yield from _packed(ready, store, device, loaded, opening)
            return
        except BusyError:
            left = ready
        except StoreError:
            raise
        except Exception as problem:
            guilty = [job for job in ready if job.chain.spec in opening]
            left = [job for job in ready if job not in guilty]
            for job in guilty:
                yield failed(job, store, problem)
            if not guilty:
                LOG.warning("The fleet failed (%s); its chains are trained one by one.", problem)
                yield from one_by_one(left, store, device, loaded)
                return


def _unfit(job: Job, store: Path) -> Outcome | None:
    """What keeps a chain from being trained now: another process, or a damaged record."""
    folder = chain_folder(store, job.chain.spec)
    if is_held(folder.path / "lock"):
        return Busy(number=job.number, chain=job.chain)
    try:
        folder.records()
    except PrunecastError as problem:
        return failed(job, store, problem)
    return None


def _packed(
    jobs: Sequence[Job], store: Path, device: torch.device, loaded: Loaded, opening: list[ChainSpec]
) -> Iterator[Outcome]:
    """Run a fleet; `opening` holds the chain that is being opened, so that a failure knows whose it is."""
    from prunecast import fleet

    def opener(spec: ChainSpec, folder: Path, dataset: Dataset) -> Chain:
        opening[:] = [spec]
        chain = open_chain(spec, folder, dataset)
        opening.clear()
        return chain

    members = [
        fleet.Job(
            spec=job.chain.spec,
            rules=job.chain.rules,
            dataset=loader(job.chain, device, loaded),
            keep_weights=job.chain.keep_weights,
        )
        for job in jobs
    ]
    for done in fleet.run_fleet(members, store, device=device, opener=opener):
        job = jobs[done.number]
        if done.ended:
            forget_failure(store, job.chain.spec)
        if done.record.level >= job.done:
            yield Progress(number=job.number, chain=job.chain, record=done.record, ended=done.ended)
