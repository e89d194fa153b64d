"""The whole journey on two cores: sweep, fit, choice, the chosen network trained for real, and the page."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from prunecast.choice import Choice, choose
from prunecast.choice.options import KEPT_A_LEVEL, quantile
from prunecast.cli import show, show_answer
from prunecast.cli.progress import follow
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.laws.uncertainty import COVERAGE
from prunecast.report import page, words
from prunecast.report.curves import family, interval
from prunecast.report.page import write
from prunecast.sweep import Plan, export, look, read_plan, rows, run_plan
from prunecast.sweep.board import Board
from prunecast.sweep.executors import usual_jobs
from prunecast.table import Table, read

Say = Callable[[str], None]
CONFIDENCE = 0.8
"""Probability that the target is met."""
SIZES = "within"
"""Only sizes between the measured ones are chosen."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The chosen network, trained with a seed that the fit has not seen."""

    level: int
    density: float
    predicted: float
    low: float
    high: float
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the measured error lies in the predicted interval."""
        return self.low <= self.measured <= self.high


def demo(folder: Path, *, plan: str = "digits", target_error: float = 0.05, say: Say = print) -> Proof:
    """Run every step in a folder and say what it finds; what is there already is not trained again."""
    if not 0 < target_error < 1:
        raise PrunecastError(f"the target error is a share of the test set below 1, not {target_error:g}")
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    planned = read_plan(plan)
    say(f"1. Sweep: {len(planned.chains)} chains of the plan {planned.name}, pruned level by level.")
    table = _swept(planned, folder)
    say("\n2. Fit: one law for all of them.\n")
    fitted = fit(table)
    fitted.save(folder / "law.json")
    say(show.fit(fitted))
    likely = words.percent(CONFIDENCE, digits=0)
    say(
        f"\n3. Choice: the fewest parameters with an error of at most {target_error:g} in {likely} of trainings.\n"
    )
    chosen = choose(fitted, target_error=target_error, sizes=SIZES, confidence=CONFIDENCE)
    say(show_answer.choice(chosen))
    say("\n4. Proof: the chosen network, trained and pruned with a seed that the fit has not seen.")
    proof = _trained(planned, fitted, chosen, folder)
    say("\n5. Page.")
    path = folder / "report.html"
    shown = page(
        table, target_error=target_error, sizes=SIZES, confidence=CONFIDENCE, command="prunecast demo"
    )
    write(path, shown)
    say("\n" + _found(chosen, proof, target_error))
    say(f"The page is {path.resolve().as_uri()}; all of this took {time.monotonic() - began:.0f} s.")
    return proof


def _swept(planned: Plan, folder: Path) -> Table:
    """Train every chain of a plan and read the table of its results."""
    _run(planned, folder / "store")
    export(planned, folder / "store", folder / "results.csv")
    return read(folder / "results.csv")


def _run(planned: Plan, store: Path) -> None:
    board, jobs = Board(look(planned, store)), usual_jobs("cpu")
    follow(run_plan(planned, store, jobs=jobs), planned, board, jobs)
    if board.failed:
        raise PrunecastError(
            f"chain {board.failed[0].number} of {planned.name} failed: {board.failed[0].error}"
        )


def _trained(planned: Plan, fitted: Fit, chosen: Choice, folder: Path) -> Proof:
    """One chain of the chosen size, as far as whole levels stay above the chosen density."""
    best = chosen.answer
    level = int(np.floor(np.log(best.density) / np.log(KEPT_A_LEVEL) + 1e-6))
    example = planned.chains[0]
    spec = replace(
        example.spec,
        depth=int(best.depth),
        width=best.width,
        num_examples=int(best.num_examples),
        replicate=1 + max(chain.spec.replicate for chain in planned.chains),
    )
    chain = replace(example, spec=spec, rules=replace(example.rules, level_cap=level), select=None)
    alone = Plan(name="proof", chains=(chain,))
    _run(alone, folder / "store")
    last = [row for row in rows(alone, folder / "store") if int(row["level"]) <= level][-1]
    return _proof(fitted, chosen, level, float(last["density"]), float(last["error"]))


def _proof(fitted: Fit, chosen: Choice, level: int, density: float, measured: float) -> Proof:
    best = chosen.answer
    members = family(fitted, best.num_examples, SIZES)
    same = np.isclose(members.depth, best.depth) & np.isclose(members.width, best.width)
    log_error, spread = interval(fitted, members[np.flatnonzero(same)[:1]], np.array([density]))
    reach = quantile(fitted, (1 + COVERAGE) / 2) * float(spread[0])
    low, middle, high = np.exp(float(log_error[0]) + np.array([-reach, 0.0, reach])).tolist()
    return Proof(level=level, density=density, predicted=middle, low=low, high=high, measured=measured)


def _found(chosen: Choice, proof: Proof, target: float) -> str:
    best = chosen.answer
    where = "inside" if proof.inside else "outside"
    met = "meets" if proof.measured <= target else "misses"
    return (
        f"Found: depth {words.size(best.depth)}, width {words.size(best.width)}, pruned to density "
        f"{words.density(proof.density)} ({words.plural(proof.level, 'level')}).\n"
        f"Predicted error {proof.predicted:.4f}, 95% of new trainings in {proof.low:.4f} to {proof.high:.4f}; measured "
        f"{proof.measured:.4f}: {where} the interval, and it {met} the target of {target:g}."
    )
