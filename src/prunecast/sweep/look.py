"""Where every chain of a plan stands, read from the store; nothing is written or locked for long."""

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prunecast.errors import PrunecastError
from prunecast.pruning import Holder, Record, chain_folder, holder_of, why_ended, within
from prunecast.spec import ChainSpec
from prunecast.sweep.events import LeftOut
from prunecast.sweep.failures import Failure, failure_of
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.sweep.select import Select, left_out
from prunecast.sweep.words import too_large_words

State = Literal["ended", "running", "failed", "damaged", "left out", "begun", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What the store knows about one chain of a plan."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain
    records: tuple[Record, ...] = ()
    """The finished levels that count under the plan's rules."""
    ended: str = ""
    """Why the chain has ended; empty while it goes on."""
    failure: Failure | None = None
    problem: str = ""
    """Why its records cannot be read."""
    held: bool = field(default=False, compare=False)
    """Whether a process is working on it right now."""
    holder: Holder | None = field(default=None, compare=False)
    """Who took it last; who works on it as long as it is held."""
    out: str = ""
    """Why the selection rule leaves it out."""

    @property
    def state(self) -> State:
        """The chain's state in a word."""
        if self.problem:
            return "damaged"
        if self.out:
            return "left out"
        if self.ended:
            return "ended"
        if self.held:
            return "running"
        if self.failure:
            return "failed"
        return "begun" if self.records else "waiting"


def look(plan: Plan, store: Path) -> list[Standing]:
    """Where every chain of a plan stands, in the order of the plan."""
    found = [_standing(number, chain, store) for number, chain in enumerate(plan.chains, 1)]
    out = {left.number: left.reason for left in selection(found)}
    return [_with_reason(standing, out.get(standing.number, "")) for standing in found]


def selection(standings: Sequence[Standing]) -> list[LeftOut]:
    """The chains that the selection rule leaves out, from the unpruned errors there are so far."""
    rules: dict[Select, dict[ChainSpec, float]] = {}
    for standing in standings:
        if standing.chain.select and standing.records:
            errors = rules.setdefault(standing.chain.select, {})
            errors[standing.chain.spec] = standing.records[0].error
    reasons = {
        spec: reason for rule, errors in rules.items() for spec, reason in left_out(rule, errors).items()
    }
    return [
        LeftOut(number=own.number, chain=own.chain, reason=too_large_words(reasons[own.chain.spec]))
        for own in standings
        if own.chain.select and own.chain.spec in reasons
    ]


def _standing(number: int, chain: PlannedChain, store: Path) -> Standing:
    folder = chain_folder(store, chain.spec)
    if not folder.path.is_dir():
        return Standing(number=number, chain=chain)
    failure = failure_of(store, chain.spec)
    try:
        records = tuple(within(folder.records(), chain.rules))
    except PrunecastError as problem:
        return Standing(number=number, chain=chain, failure=failure, problem=str(problem))
    ended = why_ended(records, chain.rules)
    return Standing(
        number=number,
        chain=chain,
        records=records,
        ended=ended,
        failure=None if ended else failure,
        held=not ended and is_held(folder.path / "lock"),
        holder=holder_of(folder.path),
    )


def _with_reason(standing: Standing, reason: str) -> Standing:
    return Standing(**{**vars(standing), "out": reason}) if reason else standing


def is_held(lock: Path) -> bool:
    """Whether a process holds this lock; asking takes it for an instant, which a sweep takes in its stride."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
