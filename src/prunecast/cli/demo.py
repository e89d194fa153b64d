"""Everything on two cores: sweep, fit, choice, the chosen network trained and pruned, and the page."""

import time
from collections.abc import Callable
from pathlib import Path

from prunecast.choice import choose
from prunecast.cli.make import make_shown
from prunecast.cli.progress import Screen
from prunecast.errors import PrunecastError
from prunecast.export import Card, made_section, order, title, verdict
from prunecast.files import write_text
from prunecast.laws import Fit, fit
from prunecast.report import choice, fit_summary, page, terminal
from prunecast.sweep import Plan, SweepProgress, chain_statuses, export, read_plan, run_to_end, usual_jobs
from prunecast.table import Table, read
from prunecast.text import plural
from prunecast.wording import numbers

Say = Callable[[str], None]
CONFIDENCE = 0.95
"""Probability that the target is met."""


def demo(
    folder: Path,
    *,
    plan: str = "demo",
    target_error: float = 0.05,
    say: Say = print,
    err: bool = False,
) -> Card | None:
    """Run every step in a folder and print the results; finished training runs are not repeated.

    No network is made if the target is impossible according to the law; the page is still written. Progress is shown on
    standard error if `err`.
    """
    if not 0 < target_error < 1:
        raise PrunecastError(
            f"the target error must be a share of the test set, below 1, not {target_error:g}"
        )
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    planned = read_plan(plan)
    say(
        f"1. Sweep: {plural(len(planned.chains), 'chain')} of the plan {planned.name}, pruned level by level."
    )
    table = _swept(planned, folder, err=err)
    say("\n2. Fit: one law for all of them.\n")
    fitted = fit(table)
    fitted.save(folder / "law.json")
    say(terminal.text(fit_summary(fitted)))
    likely = numbers.percent(CONFIDENCE, digits=0)
    say(
        f"\n3. Choice: the fewest parameters with an error of at most {target_error:g} in {likely} of training runs.\n"
    )
    chosen = choose(fitted, target_error=target_error, confidence=CONFIDENCE)
    say(terminal.text(choice(chosen)))
    say("\n4. Test: the chosen network, trained and pruned with a seed that the fit has not seen.")
    card = _made(planned, fitted, target_error, folder, err=err) if chosen.met else None
    say("\n5. Page.")
    path = folder / "report.html"
    shown = page(
        table,
        target_error=target_error,
        confidence=CONFIDENCE,
        first=[] if card is None else [made_section(card)],
        command="prunecast demo",
    )
    write_text(path, shown.html)
    say("\n" + _found(card, folder))
    say(f"The page is {path.resolve().as_uri()}. The demo took {time.monotonic() - began:.0f} s.")
    return card


def _swept(planned: Plan, folder: Path, *, err: bool) -> Table:
    """Train every chain of a plan and read the table of its results."""
    _run(planned, folder / "store", err=err)
    export(planned, folder / "store", folder / "results.csv")
    return read(folder / "results.csv")


def _run(planned: Plan, store: Path, *, err: bool) -> None:
    progress, jobs = SweepProgress(chain_statuses(planned, store)), usual_jobs("cpu", planned.chains)
    with Screen(planned, progress, jobs, err=err) as screen:
        run_to_end(planned, store, jobs=jobs, on_event=screen.show, progress=progress)
    if progress.failed:
        raise PrunecastError(
            f"chain {progress.failed[0].number} of {planned.name} failed: {progress.failed[0].error}"
        )


def _made(planned: Plan, fitted: Fit, target_error: float, folder: Path, *, err: bool) -> Card:
    """The chosen network in a folder of its own; its training runs share the store of the sweep."""
    placed = order(
        fitted,
        planned,
        folder / "network",
        store=folder / "store",
        target_error=target_error,
        confidence=CONFIDENCE,
    )
    return make_shown(placed, err=err)


def _found(card: Card | None, folder: Path) -> str:
    if card is None:
        return "No network was found for this target, so none was made."
    return (
        f"Found: {title(card)} ({plural(card.network.level, 'level')}).\n{verdict(card)}\n"
        f"The network and its card are in {folder / 'network'}: {card.disk.sparse:,} bytes without its zeros, "
        f"{card.disk.dense:,} with them."
    )
