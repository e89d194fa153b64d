"""The reference pages of the docs, made from the code: `python tools/reference.py` (part of `make renew`).

Commands come from the command line itself, the Python API from its docstrings, plan keys and recipes from the
dataclasses that read them, findings from their types. What code does not say (what a column or a key means) is written
here, once; a column or key without its line is an error.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click

import prunecast
from prunecast.cli import WORKFLOW, cli
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.pruning import StopRules
from prunecast.spec import METHODS, RECIPES, Method, Recipe
from prunecast.sweep.grid import KEYS, REQUIRED, Select
from prunecast.sweep.resources import Resources
from prunecast.table import CANONICAL, COUNTS, synonyms

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
HEADER = "<!-- made by tools/reference.py: change the code, then run `make renew` -->\n"
COLUMNS = {
    "family": "the family of networks; a built-in one is counted layer by layer",
    "dataset": "the dataset; of a known one the chance error is known",
    "method": "the pruning method",
    "recipe": "the training recipe",
    "depth": "the number of layers",
    "width": "the width, as a multiple of the family's own or in channels",
    "num_examples": "the number of training examples",
    "replicate": "which repetition with other random numbers",
    "level": "how many times the network was pruned; worked out from the densities if missing",
    "density": "the share of prunable weights kept, above 0 and at most 1 (required)",
    "error": "the test error after the last epoch, or another metric by `--metric` (required)",
    "unpruned_error": "the error at density 1; by default the mean over the rows with density 1",
    "parameters": "all parameters of the unpruned network",
    "weights": "its prunable weights",
    "nonzero": "the prunable weights that are left",
}
PLAN_KEYS = {
    "family": "a built-in family, or a function of yours as `module:function`",
    "dataset": "the dataset's name; of your own data, the name in tables",
    "loader": "a function that returns a pair of PyTorch datasets, as `module:function`",
    "root": "folder, archive or .npz file of your images, relative to the plan",
    "image_size": "bring images to this size",
    "patch_size": "family `vit`: pixels of a square patch",
    "test_share": "the share of every class that is held out for testing, where there is no test half",
    "split_seed": "the seed of that split",
    "recipe": "the name of a recipe, or a table `[recipe]` (below)",
    "method": "the name of a method, or a table `[method]` (below); by default `imp`",
    "start": "trained weights to start from: a file, or a table with `file` and `train`",
    "depth": "a depth, or a list",
    "width": 'a width, or a list; fractions as `"1/4"`',
    "num_examples": 'numbers of training examples, shares of all (0.5, `"1/2"`), or `"all"`',
    "replicates": "how often everything is trained, or a list of seeds",
    "threads": "torch threads of a chain on a CPU",
    "level_cap": "the last level of a chain",
    "stop": "when a chain ends early: table `[stop]` (below)",
    "select": "leave out networks too large for their data: true, or a table `[select]` (below)",
    "keep_weights": "whether the weights of every level stay in the store",
    "resources": "what a worker on a cluster gets: table `[resources]` (below)",
    "devices": "how many GPUs train one chain together",
    "grid": "several grids of sizes, as `[[grid]]` tables with the keys above",
}
SECTIONS = {
    "recipe": (Recipe, 'A preset is changed by `preset = "NAME"` and the keys that differ.'),
    "method": (Method, ""),
    "stop": (StopRules, ""),
    "select": (Select, ""),
    "resources": (Resources, ""),
}
FINDINGS = ("table", "laws", "choice", "studies")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(title: str, lead: str, *parts: str) -> str:
    """A page with its title and a sentence about it."""
    return "\n\n".join([f"{HEADER}\n# {title}", lead, *parts]) + "\n"


def code(text: str) -> str:
    """A word as code."""
    return f"`{text}`" if text else ""


# commands


def commands() -> str:
    """Every command with its arguments and options."""
    parts = []
    context = click.Context(cli, info_name="prunecast")
    for title, group in WORKFLOW.items():
        parts.append(f"## {title}")
        for name in group:
            command = cli.get_command(context, name)
            assert command is not None
            parts += _command(command, click.Context(command, info_name=name, parent=context))
    lead = (
        "Every command prints JSON with `--json`, errors too. The exit status is 0 if all is well, 1 if no network "
        "meets the target, a chain failed or a file is damaged, 2 after a mistake, and 130 if it was stopped. Numbers "
        "may be fractions (1/4) and percentages (12%)."
    )
    return page("Commands", lead, *parts)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### {context.info_name}"
    usage = " ".join(["prunecast", str(context.info_name), *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    yield "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    rows = [_option(own, context) for own in command.get_params(context) if isinstance(own, click.Option)]
    yield table(["option", "meaning", "default"], [row for row in rows if not row[0].endswith("`--help`")])


def _option(own: click.Option, context: click.Context) -> list[str]:
    names = [*own.opts, *own.secondary_opts]
    metavar = "" if own.is_flag else f" {own.make_metavar(context)}"
    default = (
        own.default if isinstance(own.show_default, bool) and own.show_default and not own.is_flag else ""
    )
    shown = ", ".join(code(name) for name in names[:-1]) + (", " if names[:-1] else "")
    return [
        f"{shown}{code(names[-1] + metavar)}",
        (own.help or "").replace("  [default:", " [default:"),
        str(default),
    ]


# Python


def python() -> str:
    """Everything in `prunecast`, from its docstrings."""
    functions, classes = [], []
    for name in sorted(prunecast.__all__, key=str.lower):
        own = getattr(prunecast, name)
        if inspect.isclass(own):
            classes.append(_class(name, own))
        elif callable(own):
            functions.append(_function(f"prunecast.{name}", own))
    lead = (
        "What `import prunecast` offers. Facts are properties; what computes or writes is a method. Every error that a "
        "user can fix is a `PrunecastError`, whose message says what to do."
    )
    tables = _function("prunecast.tables.measured", prunecast.tables.measured)
    return page("Python", lead, "## Functions", *functions, tables, "## Classes", *classes)


def _function(name: str, own: Any, level: str = "###") -> str:
    signature = re.sub(r"prunecast\.(\w+\.)*", "", str(inspect.signature(own)))
    signature = re.sub(r"<[\w.]+: ('[^']*')>", r"\1", signature)
    signature = re.sub(
        r"\b(pathlib|numpy\._typing|_array_like|_typing|typing|collections\.abc)\.", "", signature
    )
    return f"{level} {name}\n\n```python\n{name.rpartition('.')[2]}{_wrapped(signature)}\n```\n\n{_doc(own)}"


def _wrapped(signature: str) -> str:
    return signature if len(signature) < 90 else signature.replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def _doc(own: Any) -> str:
    """A docstring as Markdown: its sections of arguments become lists."""
    parts: list[str] = []
    for paragraph in inspect.cleandoc(own.__doc__ or "").split("\n\n"):
        title, _, body = paragraph.partition("\n")
        if title in ("Args:", "Returns:", "Raises:"):
            parts.append(f"**{title[:-1]}**\n\n{_entries(textwrap.dedent(body), listed=title != 'Returns:')}")
        else:
            parts.append(" ".join(paragraph.split()))
    return "\n\n".join(parts)


def _entries(body: str, *, listed: bool) -> str:
    if not listed:
        return " ".join(body.split())
    entries: list[str] = []
    for line in body.splitlines():
        if line.startswith(" "):
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    return "\n".join(f"- `{name}`:{rest}" for name, _, rest in (entry.partition(":") for entry in entries))


def _class(name: str, own: type) -> str:
    rows = [[code(field), text] for field, text in field_docs(own).items()]
    methods = []
    for member, value in inspect.getmembers(own):
        if member.startswith("_") or not (value.__doc__ if hasattr(value, "__doc__") else ""):
            continue
        if isinstance(value, property):
            rows.append([code(member), " ".join((value.__doc__ or "").split())])
        elif inspect.isfunction(value):
            methods.append(_function(f"{name}.{member}", value, "####"))
    parts = [f"### {name}", _doc(own), *([table(["attribute", "meaning"], rows)] if rows else []), *methods]
    return "\n\n".join(parts)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def field_docs(own: type) -> dict[str, str]:
    """The fields of a dataclass with the docstrings below them."""
    if not dataclasses.is_dataclass(own):
        return {}
    names = {field.name for field in dataclasses.fields(own)}
    found: dict[str, str] = {}
    for base in reversed(own.__mro__):
        if not base.__module__.startswith("prunecast"):
            continue
        for node in ast.walk(_tree(base.__module__)):
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                for one, following in zip(node.body, [*node.body[1:], None], strict=True):
                    if (
                        isinstance(one, ast.AnnAssign)
                        and isinstance(one.target, ast.Name)
                        and one.target.id in names
                    ):
                        found[one.target.id] = _text(following)
    return found


def _text(node: ast.stmt | None) -> str:
    own = (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return " ".join(node.value.value.split()) if own else ""  # type: ignore[union-attr]


# tables


def columns() -> str:
    """The columns of a table, their other names, and what they mean."""
    rows = []
    for name in (*CANONICAL, *COUNTS):
        same, complement = synonyms(name, Metric.ERROR) if name not in COUNTS else ((), ())
        other = ", ".join(code(word) for word in (*same, *(f"1 − {word}" for word in complement)))
        rows.append([code(name), COLUMNS[name], other])
    lead = (
        "A table has one row per trained network. Only `density` and `error` are required. Names are matched without "
        "regard to case, spaces and hyphens. [The table](../table.md) explains how a table is read."
    )
    return page("Table columns", lead, table(["column", "meaning", "other names that are understood"], rows))


# plans


def plans() -> str:
    """The keys of a plan, and the presets that they name."""
    rows = [[code(key), PLAN_KEYS[key], "yes" if key in REQUIRED else ""] for key in KEYS]
    parts = [table(["key", "meaning", "required"], rows)]
    for name, (kind, remark) in SECTIONS.items():
        parts.append(f"## [{name}]")
        parts += [remark] if remark else []
        parts.append(table(["key", "meaning", "default"], _fields(kind)))
    lead = (
        "A plan is a TOML file. See [the sweep](../sweep.md) for plans, [the chain](../chain.md) for methods."
    )
    return page("Plan keys", lead, *parts)


def _fields(kind: type) -> list[list[str]]:
    texts = field_docs(kind)
    rows = []
    for field in dataclasses.fields(kind):
        default = "" if field.default is dataclasses.MISSING else _value(field.default)
        rows.append([code(field.name), texts[field.name] or field.name.replace("_", " "), default])
    return rows


def _value(value: object) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    if value is None or value == () or value == "":
        return ""
    return code(f"{value:g}" if isinstance(value, float) else str(value))


def recipes() -> str:
    """The recipes and methods that plans may name."""
    return page(
        "Recipes and methods",
        "What `recipe` and `method` of a plan may name. Settings that a line does not name have their "
        "[defaults](plan-keys.md#recipe).",
        "## Recipes",
        table(["recipe", "settings"], [[code(own.name), _settings(own)] for own in RECIPES.values()]),
        "## Methods",
        table(["method", "settings"], [[code(own.name), _settings(own)] for own in METHODS.values()]),
    )


def _settings(own: Any) -> str:
    different = [
        f"{field.name} {_value(getattr(own, field.name)) or 'none'}"
        for field in dataclasses.fields(own)
        if field.name != "name" and getattr(own, field.name) != field.default
    ]
    return ", ".join(different) or "the defaults"


# findings


def findings() -> str:
    """Every type of finding: its kind, what it is, and its numbers."""
    parts = []
    for package in FINDINGS:
        module = importlib.import_module(f"prunecast.{package}.findings")
        rows = [
            [
                code(own.kind),
                code(name),
                _one_line(own),
                ", ".join(code(field.name) for field in dataclasses.fields(own)),
            ]
            for name, own in sorted(vars(module).items())
            if inspect.isclass(own)
            and issubclass(own, Finding)
            and own.__module__ == module.__name__
            and hasattr(own, "kind")
        ]
        parts += [f"## prunecast.{package}", table(["kind", "type", "meaning", "fields"], rows)]
    lead = (
        "A finding is what a table, a fit, an answer or a study knows about itself. In Python it is a typed value in "
        "`findings`; with `--json` it is an object in `notes` with its `kind`, a sentence as `text`, and its fields."
    )
    return page("Findings", lead, *parts)


def _one_line(own: type) -> str:
    return " ".join((own.__doc__ or "").split())


PAGES = {
    "commands.md": commands,
    "python.md": python,
    "table-columns.md": columns,
    "plan-keys.md": plans,
    "recipes.md": recipes,
    "findings.md": findings,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), encoding="utf-8")
        print(f"docs/reference/{name} is renewed.", flush=True)


if __name__ == "__main__":
    main()
