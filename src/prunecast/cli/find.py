"""The command that trains only what an answer needs."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.choice import DEFAULT_CONFIDENCE, Measure
from prunecast.cli import UNMET, echo, stoppable
from prunecast.cli.engine import DEVICE, JOBS, of_plan
from prunecast.cli.options import BEST_LAW, command_line
from prunecast.cli.parameters import JSON, Count, Number
from prunecast.cli.placement import placed, placement_options
from prunecast.cli.progress import Activity
from prunecast.files import dumps, write_text
from prunecast.metric import Metric
from prunecast.report import choice, page, terminal
from prunecast.wording import choice_as_json

if TYPE_CHECKING:
    from prunecast.export import Card
    from prunecast.find import Round, Search
    from prunecast.sweep import Executor, Plan

PAGE_PAUSE = 30.0
"""Seconds between two updates of the page during a search."""
ATTEMPTS = 3
"""The most networks that are made for one target; each that misses it adds a curve to the table."""


@click.command()
@click.option(
    "--target-error",
    "targets",
    type=Number(),
    multiple=True,
    help="The largest error, or loss, that you accept, such as 0.12 or 12%; may be repeated.",
)
@click.option(
    "--confidence",
    type=Number(),
    default=DEFAULT_CONFIDENCE,
    show_default=True,
    help="Probability that a new training run meets the target.",
)
@click.option(
    "--hours",
    type=Number(positive=True),
    help="Stop after this many hours; run the same command to continue.",
)
@click.option("--training-runs", type=Count(), help="Stop when the store has this many training runs.")
@click.option(
    "--metric",
    type=click.Choice(["error", "loss"]),
    default="error",
    show_default=True,
    help="What the target is: the test error, or the test loss.",
)
@click.option(
    "--minimise",
    type=click.Choice([measure.value for measure in Measure]),
    default=Measure.STORED.value,
    show_default=True,
    help="The size to minimise.",
)
@click.option(
    "--num-examples", type=Count(), help="Number of training examples; by default the largest in the plan."
)
@click.option(
    "--uncertainty",
    type=Number(positive=True),
    help="Stop when the uncertainty of the size is at most this; by default 15%, or 10% without a target.",
)
@BEST_LAW
@of_plan
@DEVICE
@JOBS
@placement_options
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("found"),
    show_default=True,
    help="Folder for the table, the page and the network.",
)
@click.option("--make/--no-make", default=True, help="Whether to train the network that is found.")
@JSON
def find(
    plan: "Plan",
    targets: tuple[float, ...],
    confidence: float,
    hours: float | None,
    training_runs: int | None,
    metric: str,
    minimise: str,
    num_examples: int | None,
    uncertainty: float | None,
    law: str,
    store: Path,
    output: Path,
    make: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Train only as much of PLAN's grid as needed to find the smallest network for an error, then make that network.

    Without --target-error, the budget is spent on the whole range of errors. Ctrl-C stops it;
    run the same command to continue. The exit status is 1 if no network was found for a target, or the network that was
    made misses it.
    """
    from prunecast.find import Budget, Search, at_once
    from prunecast.sweep import inspect, store_starts

    wanted = Search(
        targets=tuple(sorted(set(targets))),
        confidence=confidence,
        metric=Metric(metric),
        minimise=minimise,
        num_examples=num_examples,
        law=law,
        uncertainty=uncertainty,
        budget=Budget(hours=hours, training_runs=training_runs),
    )
    wanted.check(plan)
    there = placed(inspect(plan).plan, **where)
    store_starts(there.plan, store)
    search = _ShownSearch(
        plan=there.plan,
        store=store,
        output=output,
        wanted=wanted,
        executor=there.executor,
        chains=at_once(there.device, there.jobs, cluster=there.on_cluster, limit=where["at_once"]),
        device=there.device,
        err=as_json,
    )
    output.mkdir(parents=True, exist_ok=True)
    with stoppable(store):
        cards = search.run(make=make and bool(targets))
    if as_json:
        echo(dumps(found_as_json(search.rounds[-1], cards, wanted)))
    met = all(state.choice is not None and state.choice.met for state in search.rounds[-1].decision.states)
    if targets and not (met and all(card is not None and card.measured.meets_target for card in cards)):
        raise SystemExit(UNMET)


def found_as_json(last: "Round", cards: "list[Card | None]", wanted: "Search") -> dict[str, Any]:
    """What a search found, as JSON."""
    return {
        "stop": last.stop,
        "metric": wanted.metric,
        "training_runs": last.spent.training_runs,
        "training_seconds": last.spent.seconds,
        "grid_seconds": last.spent.grid_seconds,
        "answers": [
            {
                "target_error": state.target_error,
                "settled": state.known_within(wanted.uncertainty_at_end),
                "doubt": state.doubt if math.isfinite(state.doubt) else None,
                "sizes": [size if math.isfinite(size) else None for size in state.sizes],
                "choice": None if state.choice is None else choice_as_json(state.choice),
            }
            for state in last.decision.states
        ],
        "networks": [None if card is None else card.as_json() for card in cards],
    }


@dataclasses.dataclass(kw_only=True)
class _ShownSearch:
    """One run of the command."""

    plan: "Plan"
    store: Path
    output: Path
    wanted: "Search"
    executor: "Executor"
    chains: int
    device: str
    err: bool
    """whether messages go to standard error, because standard output has JSON"""
    rounds: "list[Round]" = dataclasses.field(default_factory=list)
    page_written: float = 0.0

    def run(self, *, make: bool) -> "list[Card | None]":
        """Search, make the networks and write everything; return the cards of the networks."""
        last = self._search()
        for state in () if make else last.decision.states:
            if state.choice is not None:
                self._say(f"\n{terminal.text(choice(state.choice))}")
        cards = [self._made(state.target_error) for state in last.decision.states] if make else []
        self._write(cards)
        self._say(f"\nThe table and the page are in {self.output}.")
        return cards

    def _say(self, text: str) -> None:
        echo(text, err=self.err)

    def _search(self) -> "Round":
        from prunecast.find import (
            Round,
            ends_step,
            round_text,
            search,
            stop_line,
            training_line,
            training_words,
        )

        events = search(self.plan, self.store, self.wanted, executor=self.executor, chains=self.chains)
        open_steps = 0
        with Activity("reading the store", err=self.err) as activity, contextlib.closing(events):
            for event in events:
                if isinstance(event, Round):
                    self.rounds.append(event)
                    activity.say("\n" * (len(self.rounds) > 1) + "\n".join(round_text(event, self.wanted)))
                    if event.stop is None and time.monotonic() - self.page_written > PAGE_PAUSE:
                        activity.now(f"writing {self.output / 'report.html'}")
                        self._write()
                    open_steps = len(event.steps)
                else:
                    activity.say(training_line(self.plan, event))
                    open_steps -= ends_step(event)
                activity.now(training_words(event) if open_steps else "deciding what to train next")
            activity.say(stop_line(self.rounds[-1], self.wanted.budget))
        return self.rounds[-1]

    def _write(self, cards: "Sequence[Card | None]" = ()) -> None:
        """Write the table and the page so far, with the networks that were made."""
        from prunecast.export import made_section
        from prunecast.find import history_section
        from prunecast.sweep import chain_statuses, rows_of, write_table

        table = self.rounds[-1].table
        if table is None:
            return
        write_table(rows_of(chain_statuses(self.plan, self.store)), self.output / "table.csv")
        made = page(
            dataclasses.replace(table, source="table.csv"),
            law=self.wanted.law,
            target_error=self.wanted.targets[0] if self.wanted.targets else None,
            confidence=self.wanted.confidence,
            studies=False,
            first=[
                *(made_section(card, number) for number, card in enumerate(cards, 1) if card is not None),
                history_section(self.rounds, self.wanted),
            ],
            command=command_line(click.get_current_context()),
        )
        write_text(self.output / "report.html", made.html)
        self.page_written = time.monotonic()

    def _made(self, target: float) -> "Card | None":
        """Make the network for a target; if it misses, add its curve to the table and make another one."""
        from prunecast.cli.make import card_text, make_shown, order_text
        from prunecast.export import order

        several, metric = len(self.wanted.targets) > 1, self.wanted.metric
        folder = self.output / (f"network-{target:g}" if several else "network")

        for attempt in range(ATTEMPTS):
            state = next(one for one in self.rounds[-1].decision.states if one.target_error == target)
            fitted = self.rounds[-1].decision.fit
            if fitted is None or state.choice is None or not state.choice.met:
                echo(
                    f"No network was found for {metric.article} {metric.word} of {target:g}, so none was made.",
                    err=True,
                )
                return None
            ordered = order(
                fitted,
                self.plan,
                folder,
                store=self.store,
                device=self.device,
                target_error=target,
                confidence=self.wanted.confidence,
                minimise=self.wanted.minimise,
                num_examples=self.wanted.num_examples,
            )
            self._say(f"\n{order_text(ordered)}")
            card = make_shown(ordered, err=self.err, executor=self.executor)
            self._say(f"\n{card_text(card, folder)}")
            if card.measured.meets_target or attempt == ATTEMPTS - 1:
                return card
            self.plan = dataclasses.replace(self.plan, chains=(*self.plan.chains, ordered.chain))
            self._say(
                f"\nIt misses the target {metric.word} of {target:g}. Its curve is added to the table, and the search "
                "continues."
            )
            self._search()
        return None
