"""How much of a grid has to be trained for its answer: `python benchmarks/find.py [TABLE ...] [--seeds 20]`.

Measured tables are replayed. Each seed leaves a random fifth of a table's chains out; what is left is the grid. The
answer to look for is that of the law fitted to the whole grid: the size of the smallest network for each of five errors
at the largest number of examples, at even odds. Ways to choose what is trained next:

- find: `prunecast.studies.decide`, asked for one error at a time;
- find, together: asked for all five errors at once;
- random: whole chains in random order;
- design: the networks at the corners and in the middle of the grid, until their error is 1.15 times the largest target,
  one chain after the other;
- halving: successive halving over the networks, for one error at a time;
- optuna: its tree-structured Parzen estimator proposes networks, for one error at a time; left out where
  Optuna is not installed (`pip install optuna`).

All of them are judged by what `choose` answers from the rows so far. Reported is the share of the grid's training
seconds, as stored with the table, from which on the answer's size stays within 10% of the grid's: the median and the
worst over all seeds and errors. Where `find` ends with a wrong answer, it goes on by its own choice, as with a smaller
`--uncertainty`; any other way, and `find` where nothing is left to choose, goes on in random order. Where each way ends
is given, too, how far its answers are off then, and how many are within 10%.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from prunecast.choice import choose_each
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.studies import ENOUGH, Grid, GridChain, decide, spread_out
from prunecast.table import CONFIGURATION, Table, read

FOLDER = Path(__file__).parent / "tables"
TABLES = (
    "cifar10-resnet",
    str(FOLDER / "cifar10-resnet-160ep.csv"),
    "cifar10-resnet-24ep",
    str(FOLDER / "cifar10-resnet20-24ep-fleet.csv"),
)
SHARES = (0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22, 0.3, 0.4, 0.55, 0.75)
"""Where ways that do not depend on a fit are judged."""
WITHIN = 0.1
LEFT_OUT = 0.2
TARGETS = 5
LOWEST, HIGHEST = 1.25, 0.45
"""Targets lie between these multiples of the least error and of the high plateau."""
RUNGS = (0, 4, 8, 16, 32)

Key = tuple[float, float, float, int]
"""depth, width, number of examples and replicate"""
Step = tuple[Key, int]
"""a chain, and how many of its levels are trained then"""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A grid whose results are known, and what was revealed of it."""

    chains: dict[Key, pd.DataFrame]
    targets: list[float]
    truth: list[float]
    done: dict[Key, int] = field(default_factory=dict)
    fits: dict[frozenset[tuple[Key, int]], Fit | None] = field(default_factory=dict)
    """the law fitted to what was revealed, by what that was"""

    @property
    def total(self) -> float:
        """Seconds of the whole grid."""
        return sum(float(rows["seconds"].sum()) for rows in self.chains.values())

    @property
    def examples(self) -> float:
        """The number of examples that is asked about."""
        return max(key[2] for key in self.chains)

    def again(self) -> "Replay":
        """The same grid with nothing revealed."""
        return replace(self, done={})

    def train(self, key: Key, levels: int) -> None:
        """Reveal the first levels of a chain."""
        self.done[key] = max(self.done.get(key, 0), min(levels, len(self.chains[key])))

    @property
    def share(self) -> float:
        """The share of the seconds spent so far."""
        spent = sum(float(self.chains[key]["seconds"].iloc[:count].sum()) for key, count in self.done.items())
        return spent / self.total

    def table(self) -> Table | None:
        """The rows revealed so far."""
        rows = [self.chains[key].iloc[:count] for key, count in self.done.items() if count]
        return table_of(rows) if rows else None

    def learn(self, found: Fit | None) -> None:
        """Remember the law fitted to the rows so far."""
        self.fits[frozenset(self.done.items())] = found

    def answers(self) -> list[float]:
        """The sizes that are answered from the rows so far; NaN where there is no answer."""
        if frozenset(self.done.items()) not in self.fits:
            self.learn(fitted(self.table()))
        return sizes(self.fits[frozenset(self.done.items())], self.targets, self.examples)

    def grid(self) -> list[GridChain]:
        """The chains as far as they are revealed."""
        return [self.chain(key) for key in self.chains]

    def chain(self, key: Key) -> GridChain:
        """One chain as far as it is revealed."""
        rows, count = self.chains[key], self.done.get(key, 0)
        return GridChain(
            depth=key[0],
            width=key[1],
            num_examples=key[2],
            replicate=key[3],
            level_cap=len(rows) - 1,
            seconds=float(rows["seconds"].mean()),
            errors=tuple(rows["error"].iloc[:count]),
            ended=count >= len(rows),
        )

    def until_risen(self, key: Key, targets: Sequence[float]) -> int:
        """How many levels of a chain are trained until its error has risen enough."""
        while not Grid(chains=[c for c in self.grid() if c.num_examples == key[2]], targets=targets).is_over(
            self.chain(key)
        ):
            self.train(key, self.done.get(key, 0) + 1)
        return self.done[key]

    def until(self, key: Key, error: float | None) -> None:
        """Train a chain until its error exceeds this, as a search does; without an error, its unpruned network."""
        rows = self.chains[key]["error"].tolist()
        self.train(key, 1)
        while error is not None and self.done[key] < len(rows) and rows[self.done[key] - 1] <= error:
            self.train(key, self.done[key] + 1)


def table_of(parts: Sequence[pd.DataFrame]) -> Table:
    return read(pd.concat(parts).drop(columns="unpruned_error"))


def fitted(table: Table | None) -> Fit | None:
    try:
        return None if table is None else fit(table)
    except PrunecastError:
        return None


def sizes(law: Fit | None, targets: Sequence[float], examples: float) -> list[float]:
    try:
        found = choose_each(law, targets, confidence=0.5, num_examples=examples) if law is not None else []
    except PrunecastError:
        found = []
    if not found:
        return [np.nan] * len(targets)
    return [choice.answer.stored_parameters if choice.met else np.nan for choice in found]


def replay(table: Table, seed: int) -> Replay:
    """A table without a random fifth of its chains."""
    frame, rng = table.frame, np.random.default_rng(seed)
    every: dict[Key, pd.DataFrame] = {}
    for _, rows in frame.groupby([*CONFIGURATION, "replicate"]):
        depth, width, examples = (float(rows[name].iloc[0]) for name in CONFIGURATION)
        every[depth, width, examples, int(rows["replicate"].iloc[0])] = rows.sort_values("level")
    kept = {key: rows for key, rows in every.items() if rng.random() >= LEFT_OUT}
    whole = table_of(list(kept.values()))
    law, examples = fit(whole), max(key[2] for key in kept)
    least = min(c.lowest_error for c in law.configurations if c.num_examples == examples)
    targets = np.geomspace(LOWEST * least, HIGHEST * law.high_error, TARGETS).tolist()
    found = choose_each(law, targets, confidence=0.5, num_examples=examples)
    return Replay(
        chains=kept, targets=targets, truth=[float(choice.answer.stored_parameters) for choice in found]
    )


Way = Callable[[Replay, int, np.random.Generator], Iterator[None]]
"""Trains step by step; the number is that of the target asked for."""


def find(run: Replay, target: int, _: np.random.Generator) -> Iterator[None]:
    yield from _find(run, [run.targets[target]], ENOUGH)


def onward(run: Replay, target: int, _: np.random.Generator) -> Iterator[None]:
    yield from _find(run, [run.targets[target]], 0.0)


def together(run: Replay, _: int, __: np.random.Generator) -> Iterator[None]:
    yield from _find(run, run.targets, ENOUGH)


def onward_together(run: Replay, _: int, __: np.random.Generator) -> Iterator[None]:
    yield from _find(run, run.targets, 0.0)


def _find(run: Replay, targets: Sequence[float], uncertainty: float) -> Iterator[None]:
    while True:
        found = decide(run.table(), run.grid(), targets, confidence=0.5)
        run.learn(found.fit)
        steps = found.likely_steps if uncertainty else found.steps
        if found.known_within(uncertainty) or not steps:
            return
        step = steps[0]
        run.until(key_of(step.chain), step.until_error)
        yield


def key_of(chain: GridChain) -> Key:
    return chain.depth, chain.width, chain.num_examples, chain.replicate


def random(run: Replay, _: int, rng: np.random.Generator) -> Iterator[None]:
    keys = list(run.chains)
    for index in rng.permutation(len(keys)):
        run.train(keys[index], len(run.chains[keys[index]]))
        yield


def design(run: Replay, _: int, __: np.random.Generator) -> Iterator[None]:
    for chain in spread_out([c for c in run.grid() if c.num_examples == run.examples]):
        run.until_risen(key_of(chain), run.targets[-1:])
        yield


def one_of_each(run: Replay) -> list[Key]:
    """One chain of each network on the most examples."""
    found: dict[tuple[float, float], Key] = {}
    for key in run.chains:
        if key[2] == run.examples:
            found.setdefault(key[:2], key)
    return list(found.values())


def merit(run: Replay, key: Key, target: float) -> float:
    """Log size of the smallest level so far that meets the target; where none does, larger than any and by how far."""
    rows = run.chains[key].iloc[: run.done.get(key, 0)]
    stored = rows["parameters"] - rows["weights"] + rows["nonzero"]
    good = rows["error"] <= target
    if good.any():
        return float(np.log(stored[good].min()))
    return 30.0 + float(np.log(rows["error"].min() / target))


def halving(run: Replay, target: int, _: np.random.Generator) -> Iterator[None]:
    kept, aim = one_of_each(run), run.targets[target]
    for rung in RUNGS:
        for key in kept:
            run.train(key, rung + 1)
            yield
        kept = sorted(kept, key=lambda key: merit(run, key, aim))[: max(1, -(-len(kept) // 2))]


def optuna(run: Replay, target: int, rng: np.random.Generator) -> Iterator[None]:
    import optuna as library  # type: ignore[import-not-found, unused-ignore]

    library.logging.set_verbosity(library.logging.ERROR)
    sampler = library.samplers.TPESampler(seed=int(rng.integers(2**31)), n_startup_trials=3)
    study, keys = library.create_study(sampler=sampler), one_of_each(run)
    sizes = {key[:2]: key for key in keys}
    for _ in range(5 * len(keys)):
        trial = study.ask()
        wanted = np.log(
            [
                trial.suggest_categorical(name, sorted({key[i] for key in keys}))
                for i, name in enumerate(("depth", "width"))
            ]
        )
        nearest = min(sizes, key=lambda size: float(((np.log(size) - wanted) ** 2).sum()))
        run.until_risen(sizes[nearest], [run.targets[target]])
        study.tell(trial, merit(run, sizes[nearest], run.targets[target]))
        yield


def reached(run: Replay, way: Way, targets: Sequence[int], rng: np.random.Generator) -> "dict[int, Outcome]":
    """From which share on the answers for some targets stay right, and what they were when the way ended."""
    points: list[tuple[float, dict[Key, int]]] = []
    shares = list(SHARES)

    def mark(*, always: bool) -> None:
        if always or run.share >= shares[0]:
            points.append((run.share, dict(run.done)))
        while run.share >= shares[0]:
            shares.pop(0)

    shares.append(np.inf)
    ends: list[int] = []
    answers: list[list[float]] = []
    for part in (way, *ONWARD.get(way, ()), random):
        for _ in part(run, targets[0], rng):
            mark(always=part not in (random, design))
        points.append((run.share, dict(run.done)))
        ends.append(len(points))
        answers.append(run.answers())
        if all(any(right(run, own, target) for own in answers) for target in targets):
            break
    found = {}
    for target in targets:
        end = next(end for end, own in zip(ends, answers, strict=True) if right(run, own, target))
        share = points[end - 1][0]
        for at, done in reversed(points[:end]):
            if not right(run, replace(run, done=done).answers(), target):
                break
            share = at
        found[target] = Outcome(
            reached=share, ended=points[ends[0] - 1][0], ratio=answers[0][target] / run.truth[target]
        )
    return found


def right(run: Replay, answers: Sequence[float], target: int) -> bool:
    return bool(abs(answers[target] / run.truth[target] - 1) <= WITHIN)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one target."""

    reached: float
    """share of the seconds"""
    ended: float
    """share of the seconds when the way ended by itself"""
    ratio: float
    """the size then over that of the grid's answer"""


WAYS: dict[str, Way] = {
    "find": find,
    "find, together": together,
    "random": random,
    "design": design,
    "halving": halving,
    "optuna": optuna,
}
ONWARD: dict[Way, tuple[Way, ...]] = {find: (onward,), together: (onward_together,)}
"""What a way does where it ends with a wrong answer, before it goes on in random order."""
ALL_AT_ONCE = ("find, together", "random", "design")


def measure(table: Table, seeds: int, ways: Sequence[str]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {name: [] for name in ways}
    for seed in range(seeds):
        grid = replay(table, seed)
        for name in ways:
            groups = [range(TARGETS)] if name in ALL_AT_ONCE else [[target] for target in range(TARGETS)]
            for group in groups:
                rng = np.random.default_rng((seed, *range(TARGETS)))  # one order of chains for all ways
                with contextlib.suppress(ModuleNotFoundError):
                    found[name] += reached(grid.again(), WAYS[name], list(group), rng).values()
            print(f"  … seed {seed}, {name}: {line(found[name])}", file=sys.stderr, flush=True)
    return found


def line(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return "not installed"
    shares = [own.reached for own in outcomes]
    ended = float(np.median([own.ended for own in outcomes]))
    ratios = np.array([own.ratio for own in outcomes])
    off = np.abs(np.log(ratios))
    return (
        f"median {np.median(shares):6.1%}   worst {max(shares):6.1%}   ends at {ended:6.1%}, off by "
        f"{np.expm1(np.nanmedian(off)):5.1%}, right {(np.abs(ratios - 1) <= WITHIN).mean():4.0%}   ({len(shares)})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=TABLES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--ways", default=",".join(WAYS), help="some of them, separated by ;")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ways = [name for name in WAYS if name in arguments.ways.replace(";", ",") or arguments.ways == name]
    results = {}
    for name in arguments.tables:
        print(name, file=sys.stderr, flush=True)
        results[name] = measure(read(name), arguments.seeds, ways)
        if not arguments.json:
            print(name)
            for way, outcomes in results[name].items():
                print(f"  {way:16}{line(outcomes)}", flush=True)
    if arguments.json:
        plain = {
            name: {way: [vars(own) for own in outcomes] for way, outcomes in found.items()}
            for name, found in results.items()
        }
        print(json.dumps(plain, indent=1))


if __name__ == "__main__":
    main()
