"""The job: one chain from where it stands to its end, as a plain function of a chain and a store.

Whatever runs it (this process, a pool of them, a cluster) only calls it and passes on what it yields.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from prunecast.data import Dataset, load
from prunecast.distributed import Task, run_team
from prunecast.errors import BusyError, PrunecastError, StoreError
from prunecast.pruning import Record, run_chain, why_ended
from prunecast.sweep.events import Busy, Failed, Job, Outcome, Progress
from prunecast.sweep.failures import forget_failure, record_failure
from prunecast.sweep.grid import PlannedChain

Loaded = dict[tuple[str, Path | None, int | None], Dataset]
"""Datasets at hand, so that chains on the same data load them once."""


def work(job: Job, store: Path, device: torch.device, loaded: Loaded | None = None) -> Iterator[Outcome]:
    """Run one chain to its end; yield its new levels, and its failure if it raises.

    A store that cannot be written is no failure of the chain and ends everything.
    """
    chain = job.chain
    records: list[Record] = []
    try:
        for record in _records(chain, store, device, {} if loaded is None else loaded):
            records.append(record)
            if len(records) > job.done:
                ended = why_ended(records, chain.rules)
                yield Progress(number=job.number, chain=chain, record=record, ended=ended)
        forget_failure(store, chain.spec)
    except BusyError:
        yield Busy(number=job.number, chain=chain)
    except StoreError:
        raise
    except Exception as problem:
        yield failed(job, store, problem)


def _records(chain: PlannedChain, store: Path, device: torch.device, loaded: Loaded) -> Iterator[Record]:
    """Run a chain in this process, or in a team of them where the plan gives it several devices."""
    rules, keep_weights = chain.rules, chain.keep_weights
    if chain.devices == 1:
        data = loader(chain, device, loaded)
        return run_chain(chain.spec, store, data, rules=rules, keep_weights=keep_weights)
    return run_team(
        Task(
            spec=chain.spec,
            store=store,
            root=chain.root,
            rules=rules,
            keep_weights=keep_weights,
            device=str(device),
            size=chain.devices,
        )
    )


def one_by_one(
    jobs: Sequence[Job], store: Path, device: torch.device, loaded: Loaded | None = None
) -> Iterator[Outcome]:
    """Run several chains, each to its end before the next begins."""
    loaded = {} if loaded is None else loaded
    for job in jobs:
        yield from work(job, store, device, loaded)


def failed(job: Job, store: Path, problem: Exception) -> Failed:
    """Record that a chain raised."""
    failure = record_failure(store, job.chain.spec, problem)
    return Failed(number=job.number, chain=job.chain, error=failure.error, traceback=failure.traceback)


def loader(chain: PlannedChain, device: torch.device, loaded: Loaded) -> Callable[[], Dataset]:
    """Load a dataset when it is first needed, and once only."""
    name, size = chain.spec.loader or chain.spec.dataset, chain.spec.image_size

    def get() -> Dataset:
        key = (name, chain.root, size)
        if key not in loaded:
            loaded[key] = load(name, root=chain.root, device=device, image_size=size)
        return loaded[key]

    return get


def torch_device(device: str) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        found = torch.device(device)
    except RuntimeError as failure:
        raise PrunecastError(f"There is no device {device!r}; give cpu or cuda.") from failure
    if found.type == "cuda" and not torch.cuda.is_available():
        raise PrunecastError("torch finds no CUDA device here; give --device cpu.")
    return found
