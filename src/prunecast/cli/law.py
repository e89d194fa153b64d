"""The commands of the law: fit, predict, compare."""

from pathlib import Path
from typing import Any, Literal

import click

from prunecast.cli.options import JSON, LAW, OutputFile, Source, table_options
from prunecast.text import parse_number


class HighError(click.ParamType[str | float]):
    """`free`, `chance` or a number."""

    name = "free|chance|NUMBER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        """A word as it is, anything else as a number."""
        if value in ("free", "chance"):
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither free, chance nor a number", param, ctx)


class Numbers(click.ParamType[tuple[float, ...]]):
    """One number, or several separated by commas; fractions such as 1/16 are welcome."""

    name = "NUMBERS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers in their order."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(parse_number(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 0.5,0.25 or 1/16", param, ctx)


@click.command()
@table_options
@click.option("-o", "--output", type=OutputFile(), help="Save the law as JSON.")
@LAW
@click.option(
    "--high-error", type=HighError(), default="free", show_default=True, help="ε↑: fitted, or held."
)
@click.option(
    "--residual",
    type=click.Choice(["relative", "log"]),
    default="relative",
    show_default=True,
    help="What is squared and summed: (estimate − measured)/measured, or the difference of logarithms.",
)
@click.option("--huber", type=float, help="Let deviations beyond this pull only linearly.")
@click.option(
    "--each-replicate", is_flag=True, help="Fit every replicate's row instead of means over replicates."
)
@click.option("--each-configuration", is_flag=True, help="Fit Eq. 1 to each configuration alone.")
def fit(
    source: Source,
    as_json: bool,
    output: Path | None,
    law: str,
    high_error: str | float,
    residual: str,
    huber: float | None,
    each_replicate: bool,
    each_configuration: bool,
) -> None:
    """Fit the law to TABLE: a CSV or Parquet file, or the name of a table that ships with prunecast."""
    from prunecast.cli import show
    from prunecast.laws import as_json as law_as_json
    from prunecast.laws import dumps, fit_each
    from prunecast.laws import fit as fit_law
    from prunecast.wording import sentences

    data = source.read()
    replicates: Literal["mean", "each"] = "each" if each_replicate else "mean"
    if each_configuration:
        singles = fit_each(data, replicates=replicates)
        click.echo(dumps(show.singles_as_json(singles)) if as_json else show.singles(singles, source.metric))
        return
    result = fit_law(
        data, law=law, replicates=replicates, residual=residual, huber=huber, high_error=high_error
    )
    if output is not None:
        result.save(output)
    if as_json:
        body = {**law_as_json(result), "table_notes": sentences(data.findings, data.metric)}
        del body["spread"]
        click.echo(dumps(body))
        return
    click.echo(show.fit(result, sentences(data.findings, data.metric)))
    if output is not None:
        click.echo(f"The law is saved in {output}.")


@click.command()
@click.argument("law", type=click.Path(path_type=Path))
@click.option("--density", type=Numbers(), required=True, help="Share of prunable weights kept.")
@click.option("--depth", type=Numbers(), help="Needed where it varies in the law's data.")
@click.option("--width", type=Numbers(), help="Needed where it varies in the law's data.")
@click.option(
    "--num-examples", type=Numbers(), help="Needed where it varies, unless the unpruned error is given."
)
@click.option(
    "--unpruned-error", type=Numbers(), help="Error at density 1; by default as measured, else predicted."
)
@JSON
def predict(law: Path, as_json: bool, **asked: tuple[float, ...] | None) -> None:
    """Predict errors from LAW, a file that `prunecast fit -o` wrote; several values make a table."""
    import numpy as np

    from prunecast.cli import show
    from prunecast.laws import dumps, load
    from prunecast.laws.predict import unvaried

    fitted = load(law)
    given = {name: values for name, values in asked.items() if values is not None}
    grid = dict(zip(given, np.meshgrid(*given.values(), indexing="ij"), strict=True))
    prediction = fitted.predict(grid.pop("density"), **grid)
    frame = prediction.frame()
    notes = list(unvaried(fitted, vars(prediction)))
    if as_json:
        click.echo(dumps({"law": fitted.law, "predictions": frame.to_dict("records"), "notes": notes}))
        return
    click.echo(show.predictions(frame, fitted.metric, notes))


@click.command()
@table_options
def compare(source: Source, as_json: bool) -> None:
    """Rank Eq. 2, the law dip and their rivals on TABLE, in sample and on configurations they have not seen."""
    from dataclasses import asdict

    from prunecast.cli import show
    from prunecast.laws import compare as compare_laws
    from prunecast.laws import dumps

    scores = compare_laws(source.read())
    click.echo(
        dumps({"scores": [asdict(score) for score in scores]})
        if as_json
        else show.scores(scores, source.metric)
    )
