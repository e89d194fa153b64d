"""Types of arguments, and options that need no heavy imports."""

import os
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from prunecast.errors import PrunecastError
from prunecast.files import check_folder
from prunecast.text import parse_number

Command = TypeVar("Command", bound=Callable[..., Any])


class Number(click.ParamType[float]):
    """One number; a fraction such as 1/16 or a percentage such as 12% is accepted."""

    name = "number"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        try:
            number = parse_number(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number such as 0.12, 12% or 1/16", param, ctx)
        if self._positive and not number > 0:
            self.fail(f"{value} is not greater than 0", param, ctx)
        return number


class Count(click.IntRange):
    """A whole number of at least 1, or of at least `least`."""

    name = "integer"

    def __init__(self, least: int = 1) -> None:
        super().__init__(min=least)


UNITS = {"ms": 1.0, "us": 0.001, "µs": 0.001, "s": 1000.0}
"""Milliseconds by unit of time."""


class Milliseconds(click.ParamType[float]):
    """A time such as 5ms, 0.005s or 800us; a plain number is in milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The time in milliseconds."""
        text = str(value).strip()
        unit = next((own for own in UNITS if text.endswith(own)), "")
        try:
            return parse_number(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 5ms, 0.005s or 800us", param, ctx)


class Numbers(click.ParamType[tuple[float, ...]]):
    """One number, or several separated by commas; fractions such as 1/16 and percentages are accepted."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers in their order."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(parse_number(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 0.5,0.25, 1/16 or 50%,5%", param, ctx)


class Device(click.ParamType[str]):
    """cpu, cuda, or one of several GPUs such as cuda:1."""

    name = "device"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The valid devices."""
        return "[cpu|cuda|cuda:N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The device's name, if it is valid; whether this machine has it is checked later."""
        kind, colon, index = str(value).partition(":")
        if kind not in ("cpu", "cuda") or (colon and (kind == "cpu" or not index.isdecimal())):
            self.fail(f"{value!r} is not a device; give cpu, cuda or cuda:N.", param, ctx)
        return str(value)


class OutputFile(click.Path):
    """A file to write, in a folder that exists."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; a missing folder is refused before any work."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        check_folder(path)
        return path


def _one_format(context: click.Context, option: click.Parameter, value: bool) -> bool:
    """Refuse JSON and LaTeX at once; whichever comes second on the command line notices."""
    if value and any(context.params.get(other) for other in {"as_json", "as_latex"} - {option.name}):
        raise click.UsageError("--json and --latex cannot be combined; leave out one of them.")
    return value


JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_one_format,
    help="Print one JSON object for programs, errors too.",
)
LATEX = click.option(
    "--latex",
    "as_latex",
    is_flag=True,
    callback=_one_format,
    help="Print the tables as LaTeX, for booktabs.",
)


def with_options(options: Sequence[Callable[[Any], Any]], command: Command) -> Command:
    """Give a command several options, in this order."""
    return reduce(lambda inner, option: option(inner), reversed(options), command)


def refuse_with(option: str, meaning: str, *others: str) -> None:
    """Refuse options that another option would ignore; `meaning` says what that option does."""
    context = click.get_current_context()
    named = sorted(
        max(own.opts, key=len)
        for own in context.command.params
        if own.name in others
        and context.get_parameter_source(own.name) == click.core.ParameterSource.COMMANDLINE
    )
    if named:
        raise PrunecastError(f"{option} {meaning}; leave out {', '.join(named)}")
