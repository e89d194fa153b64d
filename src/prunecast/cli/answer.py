"""The commands that answer: choose, study, next."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli.options import (
    BEST_LAW,
    LAWS,
    STUDIED_LAWS,
    Number,
    Source,
    candidate_options,
    table_options,
)
from prunecast.errors import PrunecastError
from prunecast.metric import Metric

if TYPE_CHECKING:
    from prunecast.laws import Fit

QUESTIONS = ("target_error", "max_parameters", "max_training", "depth", "width", "density")


def law_of(source: Source, law: str | None) -> "Fit":
    """The saved law, or one fitted to the table."""
    from prunecast.choice import as_fit

    if Path(source.table).suffix != ".json":
        return as_fit(source.read(), law or "auto")
    saved = as_fit(source.table)
    other_law = law and law not in ("auto", saved.law) and (law, saved.law) != ("eq2", "eq1")
    other_rows = source.where or source.without_too_large
    if other_rows or other_law or source.chance is not None or source.metric not in ("error", saved.metric):
        raise PrunecastError(
            f"{source.table} is a fitted law ({saved.law} of a table of {saved.metric.plural}): give the table itself "
            "to fit another, to select rows, or to read it otherwise"
        )
    return saved


@click.command()
@table_options
@click.option("--target-error", type=float, help="The fewest parameters with at most this error.")
@click.option("--max-parameters", type=float, help="A budget, in the measure that is minimised.")
@click.option("--max-training", type=float, help="A budget, in trainings of the costliest measured network.")
@candidate_options
@click.option("--depth", type=Number(), help="Only networks of this depth.")
@click.option("--width", type=Number(), help="Only networks of this width.")
@click.option("--density", type=Number(), help="Only networks pruned to this density.")
@click.option(
    "--law",
    type=LAWS,
    help="Which law to fit to a table; auto is the one that predicts sizes left out better.  [default: auto]",
)
@click.option("--frontier", is_flag=True, help="The smallest network for each of 200 errors.")
def choose(
    source: Source,
    as_json: bool,
    law: str | None,
    frontier: bool,
    **question: Any,
) -> None:
    """Say which network to train and how far to prune it; TABLE is a table or a law that `prunecast fit -o` saved."""
    from dataclasses import asdict

    from prunecast import choice
    from prunecast.cli import show_answer
    from prunecast.laws import dumps
    from prunecast.wording import choice_as_json

    fitted = law_of(source, law)
    if frontier:
        _whole(click.get_current_context())
        line = choice.frontier(
            fitted, **{name: question[name] for name in ("minimise", "num_examples", "sizes")}
        )
        click.echo(dumps(asdict(line)) if as_json else show_answer.frontier(line))
        return
    chosen = choice.choose(fitted, **question)
    click.echo(dumps(choice_as_json(chosen)) if as_json else show_answer.choice(chosen))


def _whole(context: click.Context) -> None:
    """A frontier answers for all errors and budgets at once, so a question about one of them is a mistake."""
    asked = {name.replace("_", "-") for name in QUESTIONS if context.params[name] is not None}
    if context.get_parameter_source("confidence") == click.core.ParameterSource.COMMANDLINE:
        asked.add("confidence")
    if asked:
        named = ", ".join(f"--{name}" for name in sorted(asked))
        raise PrunecastError(f"--frontier is the smallest network for each error; leave out {named}")


class StudyName(click.ParamType[str]):
    """The name of a study; the studies are imported when one is asked for."""

    name = "study"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what is no study."""
        from prunecast.studies import STUDIES

        return click.Choice(list(STUDIES)).convert(value, param, ctx)


class StudyCommand(click.Command):
    """A command whose help lists the studies."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line per study."""
        from prunecast.studies import STUDIES

        self.epilog = "\b\n" + "\n".join(f"{name:14} {own.summary}" for name, own in STUDIES.items())
        super().format_epilog(ctx, formatter)


@click.command(cls=StudyCommand)
@click.argument("name", type=StudyName(), metavar="STUDY")
@table_options
@click.option("--law", type=STUDIED_LAWS, help="Which law, where the study takes one.  [default: eq2]")
def study(
    name: str,
    source: Source,
    as_json: bool,
    law: str | None,
) -> None:
    """Study the law on TABLE as the paper does; STUDY is one of those listed below."""
    from prunecast.cli import show_study
    from prunecast.files import dumps
    from prunecast.studies import STUDIES
    from prunecast.wording import study_as_json

    if law is not None and not STUDIES[name].takes_law:
        taking = [own.name for own in STUDIES.values() if own.takes_law]
        raise PrunecastError(f"the study {name} takes no --law; {', '.join(taking)} do")
    data = source.read()
    result = STUDIES[name].function(data, **({} if law is None else {"law": law}))
    metric = Metric(source.metric)
    click.echo(
        dumps({"study": name, **study_as_json(result, metric)})
        if as_json
        else getattr(show_study, name)(result, metric)
    )


@click.command("next")
@table_options
@BEST_LAW
@click.option(
    "--target-error", type=float, help="The choice that more data might change; by default all errors."
)
def next_(
    source: Source,
    as_json: bool,
    law: str,
    target_error: float | None,
) -> None:
    """Say what to train next to learn the most of TABLE's law per unit of training, and whether it still matters."""
    from prunecast.cli import show_answer
    from prunecast.files import dumps
    from prunecast.studies import next_training
    from prunecast.wording import study_as_json

    result = next_training(source.read(), law=law, target_error=target_error)
    metric = Metric(source.metric)
    click.echo(dumps(study_as_json(result, metric)) if as_json else show_answer.next_training(result, metric))
