"""A small grid on digits whose levels take a fraction of a second, and a search over it."""

from pathlib import Path

from prunecast.find import Budget, Round, Search, search
from prunecast.sweep import Plan, chain_statuses, executor_for, parse_plan

TEXT = """
family = "digits_cnn"
dataset = "digits"
depth = [3, 5]
width = [0.5, 1, 2]
num_examples = 200
level_cap = 12
[recipe]
preset = "digits"
epochs = 6
name = "short"
"""
TARGET = 0.25


def plan() -> Plan:
    return parse_plan(TEXT, name="short")


def searched(store: Path, training_runs: int | None = None, uncertainty: float | None = None) -> list[Round]:
    """Search to the end, or until so many training runs are in the store; the rounds."""
    budget = Budget(training_runs=training_runs)
    wanted = Search(targets=(TARGET,), law="eq2", uncertainty=uncertainty, budget=budget)
    events = search(plan(), store, wanted, executor=executor_for("cpu", 1))
    return [event for event in events if isinstance(event, Round)]


def levels(store: Path) -> dict[tuple[int, float], list[float]]:
    """The errors of every level in a store, by depth and width."""
    return {
        (own.chain.spec.depth, own.chain.spec.width): [record.error for record in own.records]
        for own in chain_statuses(plan(), store)
    }
