"""Arguments that several commands share, each written once."""

import functools
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from prunecast.choice import DEFAULT_CONFIDENCE, DEFAULT_SIZES, PARAMETERS, Measure, SizeRange, as_fit
from prunecast.cli import import_from
from prunecast.cli.parameters import JSON, LATEX, Command, Number, OutputFile, with_options
from prunecast.errors import PrunecastError, sentence
from prunecast.files import dumps
from prunecast.laws import AUTO, Fit, get_law, selectable_laws
from prunecast.metric import Metric
from prunecast.report import Section, latex_tables, terminal
from prunecast.table import Table, read


class LawName(click.ParamType[str]):
    """A law by its registered name, or a user's own as `module:attribute`."""

    name = "law"

    def __init__(self, *, auto: bool) -> None:
        self._auto = (AUTO,) if auto else ()

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The valid names."""
        return f"[{'|'.join((*self._auto, *selectable_laws(), 'MODULE:NAME'))}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The law's name, once it is found or imported; its module may be in the table's folder."""
        if value in self._auto:
            return str(value)
        import_from("" if ctx is None else ctx.params.get("table", ""))
        try:
            return get_law(value).name
        except PrunecastError as problem:
            self.fail(sentence(problem), param, ctx)


def law_option(default: str | None, text: str, *, auto: bool = True) -> Callable[[Any], Any]:
    """The option that names a law."""
    shown = default is not None
    return click.option("--law", type=LawName(auto=auto), default=default, show_default=shown, help=text)


BEST_LAW = law_option(
    AUTO,
    "The law to fit; auto averages those that best predict configurations left out of the fit, MODULE:NAME is your "
    "own.",
)
TABLE_LAW = law_option(
    None,
    "The law to fit to a table; auto averages those that best predict configurations left out of the fit.  "
    "[default: auto]",
)
TABLE = (
    click.argument("table", metavar="TABLE", is_eager=True),
    click.option(
        "--where",
        multiple=True,
        metavar="COLUMN=VALUE",
        help="Keep only rows with this value; may be repeated.",
    ),
    click.option(
        "--metric",
        default=str(Metric.ERROR),
        show_default=True,
        metavar="NAME",
        help="What the table measures: error, loss, perplexity or another metric where lower is better, or a score "
        "such as f1 or bleu.",
    ),
    click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="NAME=FORMULA",
        help="Read a column as another, such as density=1-sparsity/100; may be repeated.",
    ),
    click.option(
        "--depth-from", metavar="COLUMN", help="Take depths from a column of names such as resnet20."
    ),
    click.option(
        "--melt",
        metavar="NAME,NAME",
        help="Make rows of columns such as 50%, 80% and 90%: what the numbers in their names are and what their cells "
        "hold, such as sparsity,accuracy.",
    ),
    click.option(
        "--chance", type=Number(), help="Error of guessing, if prunecast does not know the dataset."
    ),
    click.option(
        "--without-too-large",
        is_flag=True,
        help="Leave out networks too large for their data (a smaller one has a lower unpruned error), like the paper.",
    ),
)
CANDIDATES = (
    click.option(
        "--minimise",
        type=click.Choice([*(measure.value for measure in Measure), PARAMETERS]),
        default=Measure.STORED.value,
        show_default=True,
        help="The size to minimise: stored or parameters (non-zero weights, biases and normalisation), nonzero "
        "(prunable weights alone), multiply-adds, paper (depth·width²·density), or the table's bytes or latency.",
    ),
    click.option(
        "--confidence",
        type=Number(),
        default=DEFAULT_CONFIDENCE,
        show_default=True,
        help="Probability that the target is met.",
    ),
    click.option(
        "--num-examples",
        type=Number(),
        help="Number of training examples; by default the largest measured number.",
    ),
    click.option(
        "--sizes",
        type=click.Choice([sizes.value for sizes in SizeRange]),
        default=DEFAULT_SIZES.value,
        show_default=True,
        help="Consider measured sizes only, also other sizes within the measured range, or also some outside it.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """The table that a command's arguments name, and how to read it."""

    table: str
    where: tuple[str, ...]
    metric: str
    columns: tuple[str, ...]
    depth_from: str | None
    melt: str | None
    chance: float | None
    without_too_large: bool

    @property
    def read_otherwise(self) -> bool:
        """Whether an option selects or converts rows of the table."""
        return bool(self.where or self.columns or self.depth_from or self.melt or self.without_too_large) or (
            self.chance is not None
        )

    def read(self) -> Table:
        """The checked table."""
        table = read(
            self.table,
            metric=self.metric,
            chance=self.chance,
            where=_pairs("--where", self.where, "COLUMN=VALUE, for example num_examples=50000"),
            columns=_pairs("--column", self.columns, "NAME=FORMULA, for example density=1-sparsity"),
            depth_from=self.depth_from,
            melt=self.melt,
        )
        return table.without_too_large() if self.without_too_large else table

    def fit(self, law: str | None) -> Fit:
        """The saved law, or one fitted to the table."""
        if Path(self.table).suffix != ".json":
            return as_fit(self.read(), law or AUTO)
        import_from(self.table)
        saved = as_fit(self.table)
        another = law not in (None, AUTO, saved.law, saved.family_law)
        if another or self.metric not in (Metric.ERROR, saved.metric) or self.read_otherwise:
            raise PrunecastError(
                f"{self.table} is a fitted law ({saved.law} of a table of {saved.metric.plural}): give the table "
                "itself to fit another law, to select rows, or to change how it is read"
            )
        return saved


def _pairs(option: str, given: Iterable[str], example: str) -> dict[str, str]:
    """The values of a repeatable option of the form NAME=VALUE, by name."""
    found: dict[str, str] = {}
    for name, sign, value in (pair.partition("=") for pair in given):
        if not (name and sign and value):
            raise PrunecastError(f"{option} {name}{sign}{value}: write it as {example}")
        if found.setdefault(name.strip(), value) != value:
            raise PrunecastError(
                f"{option} asks for {name.strip()} {found[name.strip()]} and {value}, but no row has both; leave one "
                "of them out"
            )
    return found


def gathered(command: Callable[..., None]) -> Callable[..., None]:
    """Collect the arguments that name a table in one, called `source`."""

    @functools.wraps(command)
    def call(**given: Any) -> None:
        own = {field.name: given.pop(field.name) for field in fields(Source)}
        command(source=Source(**own), **given)

    return call


def table_source(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments that name a table."""
    return with_options(TABLE, gathered(command))


def show(section: Section, body: object, *, as_json: bool, as_latex: bool) -> None:
    """Print a result: as JSON, its tables as LaTeX, or as text."""
    click.echo(dumps(body) if as_json else latex_tables(section) if as_latex else terminal.text(section))


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments of every command that reads a table and prints."""
    return with_options((*TABLE, JSON, LATEX), gathered(command))


def candidate_options(command: Command) -> Command:
    """The size to minimise, and which networks to consider."""
    return with_options(CANDIDATES, command)


def output(default: str, help_: str, *, folder: bool = False) -> Callable[[Command], Command]:
    """Where a command writes: one file, or a folder."""
    kind = click.Path(file_okay=False, path_type=Path) if folder else OutputFile()
    return click.option("-o", "--output", type=kind, default=Path(default), show_default=True, help=help_)


def command_line(context: click.Context) -> str:
    """The command with all its arguments and then its options, as it would be typed again."""
    words = [context.command_path]
    for own in sorted(context.command.params, key=lambda own: isinstance(own, click.Option)):
        value = context.params[own.name or ""]
        if context.get_parameter_source(own.name or "") != click.core.ParameterSource.COMMANDLINE:
            continue
        if isinstance(own, click.Argument):
            words.append(shlex.quote(str(value)))
        elif isinstance(own, click.Option) and own.is_flag:
            words.append((own.opts if value else own.secondary_opts)[0])
        else:
            words += [
                f"{own.opts[-1]} {shlex.quote(str(one))}" for one in (value if own.multiple else [value])
            ]
    return " ".join(words)
