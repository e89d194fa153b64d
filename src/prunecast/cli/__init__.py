"""The command line: `prunecast COMMAND`. Heavy parts are imported only by the command that needs them."""

import errno
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from prunecast import __version__
from prunecast.errors import STOPPED, PrunecastError, UnmetTargetError, refused_path, sentence
from prunecast.text import nearest, printable

WORKFLOW = {
    "Start here": {
        "demo": ("report:demo", "Run everything once, on two cores in about a minute."),
        "tables": ("tables:tables", "List the measured tables that ship, and where they come from."),
    },
    "From a table to a network": {
        "choose": ("answer:choose", "Choose the network to train and how far to prune it."),
        "report": ("report:report", "Write one page with the answer and the evidence."),
        "make": ("make:make", "Train and prune the chosen network, and write it with its card."),
        "time": ("time:time_", "Measure how long networks take on this machine."),
    },
    "The law behind it": {
        "fit": ("law:fit", "Fit the law to a table of pruning results."),
        "predict": ("law:predict", "Predict errors by the law of a table, or a saved one."),
        "compare": ("law:compare", "Rank laws and their rivals on a table."),
        "study": ("answer:study", "Study the law on a table as the paper does."),
        "figures": ("report:figures", "Draw figures of a table and its law for a paper."),
    },
    "Measure a table of your own": {
        "init": ("init:init", "Write a plan for a network and images of your own."),
        "plan": ("engine:plan", "Show what a plan would do, and how long it takes here."),
        "find": ("find:find", "Train only what an answer needs, and make that network."),
        "run": ("engine:run", "Train and prune all networks of a plan."),
        "status": ("engine:status", "Show the state of a plan's training runs."),
        "export": ("engine:export", "Write the table of a plan's finished training runs."),
        "check": ("engine:check", "Verify the files of a store."),
    },
}
"""The commands by task: the module of each, and its help."""
COMMANDS = {name: own for group in WORKFLOW.values() for name, own in group.items()}
UNMET = 1
"""Exit status if no network meets the target; 2 is a user's mistake."""
EXTRAS = {
    "torch": "train",
    "safetensors": "train",
    "PIL": "train",
    "jinja2": "report",
    "vl_convert": "report",
    "pyarrow": "parquet",
    "ray": "ray",
    "submitit": "slurm",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
}
"""The extra that installs each module that a plain installation lacks."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a full or failing disk."""


def import_from(path: str | Path) -> None:
    """Allow importing a user's own law or family from the current folder and from the folder of a file.

    They come last on the path, so that no file there replaces an installed module.
    """
    for folder in (str(Path.cwd()), str(Path(path).absolute().parent)):
        if folder not in sys.path:
            sys.path.append(folder)


@contextmanager
def stoppable(store: Path) -> Iterator[None]:
    """Let Ctrl-C end a command whose next run continues from the store."""
    try:
        yield
    except KeyboardInterrupt:
        echo(f"Stopped. Finished levels are in {store}; run the same command to continue.", err=True)
        raise SystemExit(STOPPED) from None


def echo(text: str, *, err: bool = False) -> None:
    """Print text that may contain names and messages from files, without control characters."""
    click.echo(printable(text), err=err)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; `--help` needs only their names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(f"prunecast.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the command that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as mistake:
            near = nearest(args[0], COMMANDS)
            if near is None:
                raise
            raise click.UsageError(f"{mistake.message} Did you mean {near}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        widest = max(map(len, COMMANDS))
        for title, group in WORKFLOW.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{widest}}", summary) for name, (_, summary) in group.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="prunecast")
def cli() -> None:
    """Predict a pruned network's error before you train it."""


def main() -> None:
    """Run the command line; a user's mistake prints one sentence and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # characters that a terminal does not have are shown as escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(prog_name="prunecast", standalone_mode=False)
    except PrunecastError as error:
        _fail(sentence(error), UNMET if isinstance(error, UnmetTargetError) else 2)
    except ModuleNotFoundError as missing:
        name = (missing.name or "").split(".")[0]
        if name not in EXTRAS:
            raise
        _fail(f"this needs {name}: pip install 'prunecast[{EXTRAS[name]}]'.", 2)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        error.show()
        _print_error(error.format_message(), error.exit_code)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped.", STOPPED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if refused := refused_path(error):
            _fail(refused, 2)
        if error.errno not in FULL:
            raise
        click.echo(f"prunecast: the output cannot be written: {error.strerror}.", err=True)
        os._exit(2)  # else the interpreter tries to write the rest once more and fails


def _fail(text: str, status: int) -> NoReturn:
    """Print the error on standard error and, with --json, on standard output; then exit."""
    echo(f"prunecast: {text}", err=True)
    _print_error(text, status)
    sys.exit(status)


def _print_error(text: str, status: int) -> None:
    """Print an error as JSON, if JSON was asked for."""
    if "--json" in sys.argv[1:]:
        click.echo(json.dumps({"error": {"message": printable(text), "status": status}}, ensure_ascii=False))
