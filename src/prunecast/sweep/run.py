"""A sweep: every chain of a plan to its end, wherever the executor runs it."""

import dataclasses
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from prunecast.catalog import find_dataset
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, why_ended, within
from prunecast.sweep.events import Busy, Event, Executor, Failed, Job, LeftOut, Progress
from prunecast.sweep.examples import at_hand, check_examples
from prunecast.sweep.executors import executor_for
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.look import look, selection
from prunecast.sweep.places import missing
from prunecast.sweep.plan import Plan

PAUSE = 0.5
"""Seconds between two looks at chains that another run is working on."""


def run_plan(
    plan: Plan,
    store: Path,
    *,
    device: str = "cpu",
    jobs: int = 1,
    plain: bool = False,
    executor: Executor | None = None,
) -> Generator[Event, None, None]:
    """Run every chain of a plan to its end and yield each level as it is finished, failures among them.

    Levels that are in the store already are not told again. `jobs` chains are trained at the same time, each
    in a process of its own; a GPU trains many in a fleet, unless `plain` asks for one after the other. Where
    the plan selects, unpruned networks are trained first and those left out are told. Chains that another
    run is working on are come back to until they are at their end. A plan that cannot be run is refused at once.
    """
    run = executor or executor_for(device, jobs, plain=plain)
    check(plan)
    return _events(plan, store, run)


def _events(plan: Plan, store: Path, run: Executor) -> Generator[Event, None, None]:
    numbered = list(enumerate(plan.chains, 1))
    subject = [(number, chain) for number, chain in numbered if chain.select]
    aside: set[int] = set()
    if subject:
        for event in _to_the_end([(number, _unpruned(chain)) for number, chain in subject], store, run):
            aside.update({event.number} if isinstance(event, Failed) else ())
            yield event
        out = selection(look(plan, store))
        yield from out
        aside.update(left.number for left in out)
    yield from _to_the_end([(number, chain) for number, chain in numbered if number not in aside], store, run)


def check(plan: Plan) -> None:
    """Refuse a plan whose data is not there, or not enough of it, before anything runs."""
    for root in sorted({chain.root for chain in plan.chains if chain.root is not None}):
        if not root.exists():
            remedy = "put it there, or name the folder that holds it with --data"
            raise PrunecastError(
                f"The plan {plan.name} reads its data from {root}, which does not exist; {remedy}."
            )
    nowhere = {chain.spec.loader or chain.spec.dataset for chain in plan.chains if chain.root is None}
    for name in sorted(nowhere):
        facts = None if ":" in name else find_dataset(name)
        if facts is not None and facts.download:
            raise PrunecastError(missing(plan.name, facts, plan.data))
    check_examples(plan, at_hand())


def _unpruned(chain: PlannedChain) -> PlannedChain:
    return dataclasses.replace(chain, rules=dataclasses.replace(chain.rules, level_cap=0))


def _to_the_end(
    chains: Sequence[tuple[int, PlannedChain]], store: Path, executor: Executor
) -> Iterator[Progress | Failed | Busy]:
    """Run chains until all have ended or failed; those that others hold are looked at again and again."""
    jobs = unfinished(chains, store)
    told: set[int] = set()
    while jobs:
        busy: list[int] = []
        for outcome in executor(jobs, store):
            if isinstance(outcome, Busy):
                busy.append(outcome.number)
                if outcome.number in told:
                    continue
                told.add(outcome.number)
            yield outcome
        if len(busy) == len(jobs):
            time.sleep(PAUSE)
        jobs = unfinished([(number, chain) for number, chain in chains if number in busy], store)


def unfinished(chains: Iterable[tuple[int, PlannedChain]], store: Path) -> list[Job]:
    """The chains that have not ended, with the number of levels that they have."""
    found: list[Job] = []
    for number, chain in chains:
        folder = chain_folder(store, chain.spec)
        try:
            records = folder.records()
        except PrunecastError:  # whoever runs it will say what is wrong with it
            found.append(Job(number=number, chain=chain))
            continue
        if not why_ended(records, chain.rules) or folder.stale(len(records)):
            found.append(Job(number=number, chain=chain, done=len(within(records, chain.rules))))
    return found


def line(plan: Plan, event: Event) -> str:
    """One line about what happened."""
    spec = event.chain.spec
    chain = f"chain {event.number}/{len(plan.chains)}"
    size = f"depth {spec.depth} width {spec.width:g} n {spec.num_examples} replicate {spec.replicate}"
    return f"{chain} {size} · {_what(event)}"


def _what(event: Event) -> str:
    if isinstance(event, Failed):
        return f"failed: {event.error}"
    if isinstance(event, Busy):
        return "another run is working on it; it is come back to"
    if isinstance(event, LeftOut):
        return f"left out: {event.reason}"
    record = event.record
    level = f"level {record.level:2d} density {record.density:.4f} error {record.error:.4f}"
    status = "" if record.status == "ok" else f" {record.status}"
    note = f" ({record.note})" if record.note and record.level == 0 else ""
    ended = f" · ended: {event.ended}" if event.ended else ""
    return f"{level}{status} · {record.seconds:.1f} s{note}{ended}"
