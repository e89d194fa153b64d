"""A search in the workers of a cluster, compared with a search in this process."""

from pathlib import Path

from prunecast.find import Budget, Round, Search, Stop, search
from prunecast.sweep import Executor, Failed, Plan, Progress, executor_for, parse_plan

GRID = """
family = "digits_cnn"
dataset = "digits"
depth = [3, 4]
width = [0.25, 0.5]
num_examples = 100
level_cap = 9
[recipe]
preset = "digits"
epochs = 2
name = "brief"
"""


def grid() -> Plan:
    return parse_plan(GRID, name="grid")


def looked(
    store: Path, wanted: Search, executor: Executor, chains: int
) -> tuple[list[Round], list[Progress]]:
    """The rounds of a search, and the levels that it finished."""
    events = list(search(grid(), store, wanted, executor=executor, chains=chains))
    assert not [event for event in events if isinstance(event, Failed)]
    rounds = [event for event in events if isinstance(event, Round)]
    return rounds, [event for event in events if isinstance(event, Progress)]


def check_search(store: Path, executor: Executor) -> None:
    """A search on a cluster keeps its budget, continues, and decides like a search in this process."""
    first = Search(targets=(0.6,), law="eq2", budget=Budget(training_runs=4))
    rounds, finished = looked(store, first, executor, 2)
    assert rounds[-1].stop is Stop.TRAINING_RUNS
    spent = rounds[
        -1
    ].spent.training_runs  # workers that are told to stop may finish a level that nobody reports
    assert spent >= len(finished) >= 4
    more = Search(targets=(0.6,), law="eq2", budget=Budget(training_runs=spent + 2))
    rounds, added = looked(store, more, executor, 2)
    assert rounds[-1].spent.training_runs - spent >= len(added) >= 2
    (here,), nothing = looked(store, more, executor_for("cpu", 1), 2)
    assert nothing == []
    assert here.decision.states == rounds[-1].decision.states
