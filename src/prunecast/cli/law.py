"""The commands of the law: fit, predict, compare."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from prunecast import laws, report
from prunecast.cli.options import TABLE_LAW, Source, law_option, show, table_options
from prunecast.cli.parameters import Number, Numbers, OutputFile, refuse_with
from prunecast.text import parse_number
from prunecast.wording import finding_as_json, fit_as_json


class HighError(click.ParamType[str | float]):
    """`free`, `chance` or a number."""

    name = "free|chance|NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """A word as it is, anything else as a number."""
        if value in ("free", "chance"):
            return str(value)
        try:
            return parse_number(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither free, chance nor a number", param, ctx)


@click.command()
@click.option("-o", "--output", type=OutputFile(), help="Save the law as JSON.")
@law_option(
    laws.AUTO,
    "The law to fit; auto averages the laws that best predict configurations left out of the fit and shows one of "
    "them, eq2 is the paper's, MODULE:NAME is your own.",
)
@click.option(
    "--high-error",
    type=HighError(),
    default="free",
    show_default=True,
    help="Fit the error of the high plateau, or fix it.",
)
@click.option(
    "--residual",
    type=click.Choice(["relative", "log"]),
    default="relative",
    show_default=True,
    help="Residual to minimise: (predicted − measured)/measured, or the difference of logarithms.",
)
@click.option("--huber", type=Number(), help="Count deviations larger than this linearly, not squared.")
@click.option(
    "--each-replicate", is_flag=True, help="Fit every replicate's row instead of means over replicates."
)
@click.option("--each-configuration", is_flag=True, help="Fit Eq. 1 to each configuration alone.")
@table_options
def fit(
    source: Source,
    as_json: bool,
    as_latex: bool,
    output: Path | None,
    each_replicate: bool,
    each_configuration: bool,
    **options: Any,
) -> None:
    """Fit the law to TABLE: a CSV or Parquet file, or the name of a table that ships with prunecast."""
    if each_configuration:
        meaning = "fits Eq. 1 to each configuration alone and saves no law"
        refuse_with("--each-configuration", meaning, "output", "law", "high_error", "residual", "huber")
    table = source.read()
    replicates: Literal["mean", "each"] = "each" if each_replicate else "mean"
    if each_configuration:
        singles, law = laws.fit_each(table, replicates=replicates), laws.SINGLE_LAW
        body = {"law": law.name, "configurations": [asdict(one) for one in singles]}
        show(report.single_fits(singles, law, table.metric), body, as_json=as_json, as_latex=as_latex)
        return
    result = laws.fit(table, replicates=replicates, **options)
    if output is not None:
        result.save(output)
    section = report.fit_summary(result, table)
    show(section, fit_as_json(result, table), as_json=as_json, as_latex=as_latex)
    if output is not None and not (as_json or as_latex):
        click.echo(f"The law is saved in {output}.")


@click.command()
@click.option("--density", type=Numbers(), required=True, help="Shares of prunable weights that are kept.")
@click.option("--depth", type=Numbers(), help="Depths; needed if depth varies in the law's data.")
@click.option("--width", type=Numbers(), help="Widths; needed if width varies in the law's data.")
@click.option(
    "--num-examples",
    type=Numbers(),
    help="Numbers of training examples; needed if they vary, unless the unpruned error is given.",
)
@click.option(
    "--unpruned-error",
    type=Numbers(),
    help="Errors at density 1; by default the measured ones, or else predicted ones.",
)
@TABLE_LAW
@table_options
def predict(
    source: Source, as_json: bool, as_latex: bool, law: str | None, **asked: tuple[float, ...] | None
) -> None:
    """Predict errors; TABLE is a table or a law that `prunecast fit -o` saved. Several values make a table."""
    fitted = source.fit(law)
    given = {name: values for name, values in asked.items() if values is not None}
    grid = dict(zip(given, np.meshgrid(*given.values(), indexing="ij"), strict=True))
    prediction = fitted.predict(grid.pop("density"), **grid)
    found = list(laws.never_varied(fitted, vars(prediction)))
    notes = [finding_as_json(finding, fitted.metric) for finding in found]
    body = {"law": fitted.law, "predictions": prediction.frame.to_dict("records"), "notes": notes}
    section = report.predictions(prediction, fitted.metric, found)
    show(section, body, as_json=as_json, as_latex=as_latex)


@click.command()
@table_options
def compare(source: Source, as_json: bool, as_latex: bool) -> None:
    """Rank the laws and their rivals on TABLE, in sample and on configurations left out of the fit."""
    table = source.read()
    scores = laws.compare(table)
    body = {"scores": [asdict(score) for score in scores]}
    show(report.scores(scores, table.metric), body, as_json=as_json, as_latex=as_latex)
