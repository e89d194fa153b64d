"""The commands that answer: choose, study."""

from dataclasses import asdict
from typing import Any

import click

from prunecast import choice, report
from prunecast.cli import UNMET
from prunecast.cli.options import (
    TABLE_LAW,
    Source,
    candidate_options,
    law_option,
    show,
    table_options,
)
from prunecast.cli.parameters import Milliseconds, Number, refuse_with
from prunecast.errors import PrunecastError
from prunecast.laws import DEFAULT_LAW, get_law
from prunecast.studies import STUDIES
from prunecast.wording import choice_as_json, study_as_json

BOUNDS = (
    *("target_error", "confidence", "max_parameters", "max_training", "max_latency", "timed_with"),
    *("depth", "width", "density"),
)
"""Options that do not apply to a frontier, which covers all errors and budgets."""
ALL_ERRORS = ("minimise", "num_examples", "sizes")
"""The options of a frontier."""


@click.command()
@click.option(
    "--target-error",
    type=Number(),
    help="Find the fewest parameters with at most this error, such as 0.12 or 12%.",
)
@click.option("--max-parameters", type=Number(), help="Size budget, in the measure that is minimised.")
@click.option(
    "--max-training",
    type=Number(),
    help="Training budget, in training runs of the costliest measured network.",
)
@click.option(
    "--max-latency",
    type=Milliseconds(),
    help="Latency budget, such as 5ms; the table needs the latencies that `prunecast time` writes.",
)
@click.option(
    "--timed-with",
    metavar="RUNTIME-BATCH",
    help="Which latency to use, if the table has several: onnx-64 is 64 images in ONNX Runtime.",
)
@candidate_options
@click.option("--depth", type=Number(), help="Consider only networks of this depth.")
@click.option("--width", type=Number(), help="Consider only networks of this width.")
@click.option("--density", type=Number(), help="Consider only networks pruned to this density.")
@TABLE_LAW
@click.option("--frontier", is_flag=True, help="Show the smallest network for each of 200 errors.")
@table_options
def choose(
    source: Source, as_json: bool, as_latex: bool, law: str | None, frontier: bool, **question: Any
) -> None:
    """Choose the network to train and how far to prune it; TABLE is a table or a law that `prunecast fit -o` saved.

    The exit status is 1 if no network meets the target; the closest one is then shown.
    """
    fitted = source.fit(law)
    if frontier:
        refuse_with("--frontier", "shows the smallest network for each error", *BOUNDS)
        line = choice.frontier(fitted, **{name: question[name] for name in ALL_ERRORS})
        show(report.frontier(line), asdict(line), as_json=as_json, as_latex=as_latex)
        return
    chosen = choice.choose(fitted, **question)
    show(report.choice(chosen), choice_as_json(chosen), as_json=as_json, as_latex=as_latex)
    if chosen.out_of_reach:
        raise SystemExit(UNMET)


@click.command(epilog="\b\n" + "\n".join(f"{name:14} {study.summary}" for name, study in STUDIES.items()))
@click.argument("name", type=click.Choice(list(STUDIES)), metavar="STUDY")
@law_option(None, f"The law, for studies that take one.  [default: {DEFAULT_LAW}]", auto=False)
@table_options
def study(name: str, source: Source, as_json: bool, as_latex: bool, law: str | None) -> None:
    """Study the law on TABLE as the paper does; STUDY is one of those listed below."""
    if law is not None and not STUDIES[name].takes_law:
        taking = ", ".join(other for other, one in STUDIES.items() if one.takes_law)
        raise PrunecastError(f"the study {name} does not take --law; {taking} do")
    table = source.read()
    found = STUDIES[name].function(table, **({} if law is None else {"law": law}))
    about = [table.source, *([get_law(law or DEFAULT_LAW).title] if STUDIES[name].takes_law else [])]
    section = report.titled(report.study_section(name, found, table.metric), *about)
    body = {"study": name, **study_as_json(found, table.metric)}
    show(section, body, as_json=as_json, as_latex=as_latex)
