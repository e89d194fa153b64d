"""A sweep in this process: one chain after the other, or a fleet of them on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from prunecast.data import Dataset, load
from prunecast.errors import PrunecastError
from prunecast.pruning import Record, run_chain, why_ended
from prunecast.sweep.plan import Plan, PlannedChain

Key = tuple[str, Path | None, int | None]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A level that is finished, and where the sweep stands."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain
    record: Record
    ended: str
    """Why the chain ended with this level; empty while it goes on."""


def run_plan(plan: Plan, store: Path, *, device: str = "cpu", plain: bool = False) -> Iterator[Progress]:
    """Run every chain of a plan to its end and yield each level as it is finished, stored ones at once.

    A GPU trains many chains at once in a fleet, unless `plain` asks for one after the other.
    """
    place = torch_device(device)
    run = _one_by_one if plain or place.type != "cuda" else _in_a_fleet
    yield from run(plan, store, place)


def _one_by_one(plan: Plan, store: Path, device: torch.device) -> Iterator[Progress]:
    loaded: dict[Key, Dataset] = {}
    for number, chain in enumerate(plan.chains, 1):
        records: list[Record] = []
        for record in run_chain(
            chain.spec,
            store,
            _loader(chain, device, loaded),
            rules=chain.rules,
            keep_weights=chain.keep_weights,
        ):
            records.append(record)
            yield Progress(number=number, chain=chain, record=record, ended=why_ended(records, chain.rules))


def _in_a_fleet(plan: Plan, store: Path, device: torch.device) -> Iterator[Progress]:
    from prunecast.fleet import Job, run_fleet

    loaded: dict[Key, Dataset] = {}
    jobs = [
        Job(
            spec=chain.spec,
            rules=chain.rules,
            dataset=_loader(chain, device, loaded),
            keep_weights=chain.keep_weights,
        )
        for chain in plan.chains
    ]
    for done in run_fleet(jobs, store, device=device):
        chain = plan.chains[done.number]
        yield Progress(number=done.number + 1, chain=chain, record=done.record, ended=done.ended)


def torch_device(device: str) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        found = torch.device(device)
    except RuntimeError as failure:
        raise PrunecastError(f"There is no device {device!r}; give cpu or cuda.") from failure
    if found.type == "cuda" and not torch.cuda.is_available():
        raise PrunecastError("torch finds no CUDA device here; give --device cpu.")
    return found


def _loader(chain: PlannedChain, device: torch.device, loaded: dict[Key, Dataset]) -> Callable[[], Dataset]:
    """Load a dataset when it is first needed, and once only."""
    name, size = chain.spec.loader or chain.spec.dataset, chain.spec.image_size

    def get() -> Dataset:
        key = (name, chain.root, size)
        if key not in loaded:
            loaded[key] = load(name, root=chain.root, device=device, image_size=size)
        return loaded[key]

    return get


def line(plan: Plan, progress: Progress) -> str:
    """One line about a finished level."""
    spec, record = progress.chain.spec, progress.record
    chain = f"chain {progress.number}/{len(plan.chains)}"
    size = f"depth {spec.depth} width {spec.width:g} n {spec.num_examples} replicate {spec.replicate}"
    level = f"level {record.level:2d} density {record.density:.4f} error {record.error:.4f}"
    status = "" if record.status == "ok" else f" {record.status}"
    note = f" ({record.note})" if record.note and record.level == 0 else ""
    ended = f" · ended: {progress.ended}" if progress.ended else ""
    return f"{chain} {size} · {level}{status} · {record.seconds:.1f} s{note}{ended}"
