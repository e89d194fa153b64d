"""Choices and suggestions as text for people; numbers come in, strings go out."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from prunecast.choice import Naming
from prunecast.cli.show import bullets, grid, percent, render
from prunecast.laws import get_law
from prunecast.metric import Metric
from prunecast.wording import (
    OF_LARGEST,
    advice,
    amount,
    network_name,
    next_conclusion,
    promise,
    sentences,
    suggestions_legend,
    unit,
)

if TYPE_CHECKING:
    from prunecast.choice import Choice, Frontier, Network
    from prunecast.studies import NextTraining, Suggestion

SHOWN_ERRORS = 12


def choice(result: "Choice") -> str:
    """The answer first, then its price, the runners-up and what to know."""
    best = result.answer
    return render(
        [
            Text(advice(result)),
            Text(promise(result)),
            "",
            facts(_facts(best, result.naming)),
            *_compared(result),
            *_runners_up(result.runners_up, result.naming),
            *([""] if result.findings else []),
            *bullets(sentences(result.findings, result.metric)),
        ],
        result.metric,
    )


def _facts(best: "Network", said: Naming) -> list[list[str]]:
    rows = [
        *_sizes(best, said),
        ["l·w²·d" if "depth" in said.axes else "w²·d", f"{best.paper_size:.4g}"],
        ["unpruned error", f"{best.unpruned_error:.4f} {best.unpruned_source}"],
        ["trainings, one a level and one before", f"{best.trainings}"],
        ["training cost, in trainings of the costliest measured network", f"{best.training_cost:.3g}"],
    ]
    if best.multiply_adds is not None:
        rows.insert(3, ["multiply-adds an image, zeros skipped", amount(said, best.multiply_adds)])
    if best.network_epochs is not None:
        rows.append(["network-epochs", f"{best.network_epochs:,.0f}"])
    return rows


def _sizes(best: "Network", said: Naming) -> list[list[str]]:
    """Counts of parameters, or one share where sizes are known in proportion only."""
    if said.largest is not None:
        return [[f"size, {OF_LARGEST}", amount(said, best.nonzero_parameters)]]
    return [
        ["non-zero weights", amount(said, best.nonzero_parameters)],
        ["stored parameters, with biases and normalisation", amount(said, best.stored_parameters)],
    ]


def facts(rows: Iterable[Sequence[str]]) -> Table:
    """Names and values in two columns, without a heading."""
    table = Table.grid(padding=(0, 3))
    table.add_column(justify="left")
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _compared(result: "Choice") -> list[object]:
    matching, said = result.matching, result.naming
    if matching is None:
        return []
    words = (
        f"The smallest network that meets the target unpruned ({network_name(said, matching.depth, matching.width)}, "
        f"error {matching.unpruned_error:.4f}) has {amount(said, matching.unpruned_size)} "
        f"{_unit(result)}, and {amount(said, matching.pruned_size)} pruned as far as the target allows: "
        f"{matching.times_smaller:.2f} times the answer's."
    )
    return ["", Text(words)]


def _unit(result: "Choice") -> str:
    return (
        result.question.minimise.unit
        if result.naming.counted
        else "of the weights of the largest measured one"
    )


def _runners_up(networks: "tuple[Network, ...]", said: Naming) -> list[object]:
    if not networks:
        return []
    rows = [
        [
            *_place(said, one.depth, one.width),
            f"{one.density:.4g}",
            f"{one.error:.4f}",
            f"{one.interval[0]:.4f} to {one.interval[1]:.4f}",
            "" if one.probability is None else f"{one.probability:.0%}",
            amount(said, one.stored_parameters),
            f"{one.training_cost:.3g}",
            one.source + (", outside" if one.extrapolated else ""),
        ]
        for one in networks
    ]
    size = "stored" if said.largest is None else "size"
    header = [*_axes(said), "density", "error", "95%", "meets", size, "training", "by"]
    return ["", Text("Runners-up"), grid(header, rows, left=0)]


def _axes(said: Naming) -> list[str]:
    """The headings of depth and width, those that are known."""
    return [axis for axis in ("depth", "width") if axis in said.axes]


def _place(said: Naming, depth: float, width: float) -> list[str]:
    """The cells under these headings."""
    cells = {"depth": f"{depth:g}", "width": f"{width:.4g}"}
    return [cells[axis] for axis in _axes(said)]


def frontier(line: "Frontier") -> str:
    """A dozen of the frontier's networks, the last one always."""
    step = max(1, math.ceil(len(line.error) / SHOWN_ERRORS))
    shown = sorted({*range(0, len(line.error), step), len(line.error) - 1})
    rows = [
        [
            f"{line.error[i]:.4f}",
            amount(line.naming, line.size[i]),
            *_place(line.naming, line.depth[i], line.width[i]),
            f"{line.density[i]:.4g}",
            ("predicted" if line.predicted[i] else "measured")
            + (", outside" if line.extrapolated[i] else ""),
        ]
        for i in shown
    ]
    size = unit(line.naming, line.minimise)
    header = ["error", size, *_axes(line.naming), "density", "unpruned error"]
    title = f"The smallest network for each error by {get_law(line.law).title}"
    return render(
        [Text(title), "", grid(header, rows, left=0), "", *bullets(_frontier_notes(line, len(shown)))],
        line.metric,
    )


def _frontier_notes(line: "Frontier", shown: int) -> Iterator[str]:
    if shown < len(line.error):
        yield f"{shown} of {len(line.error)} errors; --json has all of them."
    if line.least_measured is not None and line.least_measured < line.error[0]:
        yield (
            f"Least error measured: {line.least_measured:.4f}. A frontier is what the law says; "
            "an answer to one target counts measured networks too."
        )


def next_training(study: "NextTraining", metric: Metric = Metric.ERROR) -> str:
    """What to train next, and whether it still matters."""
    axes = [axis for axis in ("depth", "width", "num_examples") if axis in study.naming.axes]
    rows = [_suggestion(own, axes) for own in study.suggestions]
    names = [axis.removeprefix("num_") for axis in axes]
    header = ["train", *names, "to density", "trainings", "cost", "teaches", "narrows"]
    known = [
        ["predictions are uncertain by, from the law's parameters", percent(study.uncertainty)],
        ["a single training scatters by", percent(study.run)],
        ["choosing by today's estimate costs, in parameters", percent(study.regret)],
        [f"the same if {study.other_law or 'another law'} is right", percent(study.other_law_regret)],
    ]
    return render(
        [
            Text(f"What to train next for {study.law} on {study.table}, best value first"),
            "",
            grid(header, rows),
            "",
            facts(known),
            "",
            Text(next_conclusion(study, metric)),
            "",
            *bullets([suggestions_legend(study), *sentences(study.findings, metric)]),
        ],
        metric,
    )


def _suggestion(own: "Suggestion", axes: Sequence[str]) -> list[str]:
    symbol, share = max(own.shrinks.items(), key=lambda pair: pair[1])
    place = {
        "depth": f"{own.depth:g}",
        "width": f"{own.width:.4g}",
        "num_examples": f"{own.num_examples:,.0f}",
    }
    return [
        own.kind,
        *(place[axis] for axis in axes),
        f"{own.last_density:.2g}",
        f"{own.trainings}",
        f"{own.cost:.3g}",
        percent(own.reduction),
        f"{symbol} by {share:.0%}",
    ]
