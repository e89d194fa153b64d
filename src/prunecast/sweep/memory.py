"""What a plan was when it last ran in a store, so that an edited plan is noticed and said."""

from dataclasses import dataclass
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning import FORMAT, make_folder, read_json, write_json
from prunecast.sweep.plan import Plan
from prunecast.text import plural


@dataclass(frozen=True, kw_only=True)
class Edited:
    """How a plan differs from what it was at its last run."""

    new: int
    """Chains that it did not have."""
    gone: int
    """Chains that it has no more; what was trained of them stays in the store."""
    caps: int
    """Chains with another level cap."""

    @property
    def text(self) -> str:
        """The difference in a sentence."""
        parts = [
            f"{plural(self.new, 'chain', 'is', 'are')} new" if self.new else "",
            f"{plural(self.caps, 'chain', 'has', 'have')} another level cap" if self.caps else "",
            f"{plural(self.gone, 'chain', 'is', 'are')} no longer in it (results stay in the store, not in its table)"
            if self.gone
            else "",
        ]
        return f"The plan was edited since its last run: {', '.join(filter(None, parts))}."


def edited(plan: Plan, store: Path) -> Edited | None:
    """How a plan differs from its last run in this store; None if it does not, or never ran here."""
    path = _path(plan, store)
    if not path.exists():
        return None
    try:
        before: dict[str, int] = read_json(path)["chains"]
    except (PrunecastError, KeyError):
        return None  # only a courtesy hangs on this file
    now = _caps(plan)
    found = Edited(
        new=len(now.keys() - before.keys()),
        gone=len(before.keys() - now.keys()),
        caps=sum(before[digest] != now[digest] for digest in now.keys() & before.keys()),
    )
    return found if found.new or found.gone or found.caps else None


def remember(plan: Plan, store: Path) -> None:
    """Write down what a plan is as it begins to run."""
    path = _path(plan, store)
    make_folder(path.parent)
    write_json(path, {"format": FORMAT, "chains": _caps(plan)})


def _caps(plan: Plan) -> dict[str, int]:
    return {chain.spec.digest: chain.rules.level_cap for chain in plan.chains}


def _path(plan: Plan, store: Path) -> Path:
    return store / "plans" / f"{plan.name}.json"
