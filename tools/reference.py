"""The reference pages of the docs, made from the code: `python tools/reference.py` (part of `make renew`).

Commands come from the command line itself, the Python API from its docstrings, plan keys and recipes from the
dataclasses that read them, findings from their types. What code does not say (what a column or a key means) is written
here, once; a column or key without its line is an error. Pages with more words than facts are written by hand, and only
their tables are made here.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import click
from numpy.typing import ArrayLike
from page_parts import renewed

import prunecast
from prunecast.catalog import FAMILIES, architecture
from prunecast.choice import Matching, Naming, Network, Question
from prunecast.cli import WORKFLOW, cli
from prunecast.findings import Finding
from prunecast.laws import Configuration, Deviation, NoiseFloor, Score, Verdict
from prunecast.metric import Metric
from prunecast.pruning import StopRules
from prunecast.spec import METHODS, RECIPES, Method, Recipe, Select
from prunecast.sweep import read_plan, shipped_plans
from prunecast.sweep.grid import KEYS, REQUIRED, STOP_KEYS
from prunecast.sweep.overview import overview
from prunecast.sweep.plan import scales
from prunecast.sweep.resources import Resources
from prunecast.table import CANONICAL, COUNTS, synonyms

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
HEADER = "<!-- made by tools/reference.py: change the code, then run `make renew` -->\n"
COLUMNS = {
    "family": "the family of networks; a built-in one is counted layer by layer",
    "dataset": "the dataset; prunecast knows the chance error of known ones",
    "method": "the pruning method",
    "recipe": "the training recipe",
    "depth": "the number of layers",
    "width": "the width, as a multiple of the family's own or in channels",
    "num_examples": "the number of training examples",
    "replicate": "the number of the repetition, which has its own seed",
    "level": "how many times the network was pruned; computed from the densities if missing",
    "density": "the share of prunable weights kept, above 0 and at most 1 (required)",
    "error": "the test error after the last epoch, or another metric by `--metric` (required)",
    "unpruned_error": "the error at density 1; by default the mean over the rows with density 1",
    "parameters": "all parameters of the unpruned network",
    "weights": "the prunable weights of the unpruned network",
    "nonzero": "the prunable weights that are left",
}
PLAN_KEYS = {
    "family": "a built-in family, or a function of yours as `module:function`",
    "dataset": "the dataset's name; for your own data, the name in tables",
    "loader": "a function that returns a pair of PyTorch datasets, as `module:function`",
    "root": "folder, archive or .npz file of your images, relative to the plan",
    "image_size": "resize images of a folder, TinyImageNet or ImageNet to this size",
    "patch_size": "family `vit`: pixels of a square patch",
    "test_share": "the share of every class that is held out for testing, if there is no test set",
    "split_seed": "the seed of that split",
    "recipe": "the name of a recipe, or a table `[recipe]` (below)",
    "method": "the name of a method, or a table `[method]` (below); by default `imp`",
    "start": "trained weights to start from: a file, or a table with `file` and `train`",
    "depth": "a depth, or a list",
    "width": 'a width, or a list; also fractions such as `"1/4"` and percentages such as `"25%"`',
    "num_examples": 'numbers of training examples, shares of all (0.5, `"1/2"`, `"50%"`), or `"all"`',
    "replicates": "how many times everything is trained, or a list of seeds",
    "threads": (
        "torch threads of a chain on a CPU, by default 1; another number changes rounding, so it is part of a chain's "
        "identity"
    ),
    "level_cap": "the last level of a chain",
    "stop": "when a chain ends early: table `[stop]` (below)",
    "select": "leave out networks that are too large for their data: true, or a table `[select]` (below)",
    "keep_weights": "whether the store keeps the weights of every level",
    "resources": "the resources of a worker on a cluster: table `[resources]` (below)",
    "devices": "how many GPUs train one chain together",
    "grid": "several grids of sizes, as `[[grid]]` tables with the keys above",
}
OTHER_COLUMNS = {
    "chance_error": "the error of guessing, one value for the whole table; known for the built-in datasets",
    "validation_error": "`choose` uses it instead of `error` if every row has one",
    "bytes": "the size of the network's dense file; for `choose --minimise bytes`",
    "multiply_adds": "multiply-adds per image; after whole channels were removed, those of the smaller network",
    "latency_ms": "milliseconds per batch, as `prunecast time` writes it; for `choose --max-latency`",
    "latency_ms_RUNTIME_BATCH": (
        "the latency in another runtime or batch, such as latency_ms_onnx_64; for `choose --timed-with onnx-64`"
    ),
    "timed_with": "how `latency_ms` was measured (runtime, batch, threads); it must be the same in every row",
    "remaining_parameters": "the parameters that pruning has left; `choose` counts these if channels were removed",
    "effective_density": "the share of weights on a path of remaining weights from input to output",
    "train_error, loss, steps, seconds, status": "written by `prunecast run`, but not used by fits",
}
COLUMN_NOTES = """\
- A canonical name has priority; a synonym beside it is kept as an extra column. Two synonyms without the canonical name
  are refused.
- `compression`, `compression_ratio`, `compression_rate` and `compression_factor` are weights before pruning divided by
  weights after.
- Accuracies and scores that are mostly above 1 are read as percentages. Densities, sparsities and errors in percent are
  refused; the message names the option that divides them.
- With `--metric loss`, the column is `loss`, `test_loss`, `perplexity`, `test_perplexity`, `ppl`, `cross_entropy`,
  `val_loss` or `validation_loss`, and `unpruned_loss` and similar names are understood. In Python the canonical column
  is still called `error`.
- If there is no number of examples, `tokens` or `steps` (`num_tokens`, `training_tokens`, `num_steps`,
  `training_steps`) replace it, provided that networks with several values were pruned.
- If there is no depth and width, `parameters` (`params`, `num_params`, `model_size`) is the size. Width is then the
  square root of the network's share of the largest network's parameters.
- A cell may be a fraction (1/4), a percentage (93.1%), a count (125M) or a ratio (10x). Spreads such as ± 0.2 or (0.2)
  after a value are not used, and LaTeX markup is skipped.
- Missing levels are counted from the densities of a configuration; densities within 0.01% are one level.
- The digest of a table covers the metric, the four names and the numbers, but not formatting or the order of rows and
  columns."""
RETRAINING = """\
| retraining | where each level starts | its steps and learning rates |
| --- | --- | --- |
| `weight-rewinding` | the weights of the rewind point | from the rewind point to the end |
| `rate-rewinding` | the last weights | from the rewind point to the end; `rewind = 0` repeats the whole schedule |
| `fine-tuning` | the last weights | as many steps as with rewinding, at the last learning rate |
| `from-start` | the initial weights | all of them |

With `start`, the weights of a file:

| retraining | level 0 | the next levels start at |
| --- | --- | --- |
| `weight-rewinding` | is trained from the file | the rewind point; with `rewind = 0` this is the file |
| `rate-rewinding` | is the file's network, not trained | the last weights, learning rates from the rewind point |
| `fine-tuning` | is the file's network, not trained | the last weights, at the last learning rate |
| `from-start` | is trained from the file | the file |

- Every level removes ⌈fraction · remaining⌉ weights. Among weights with equal scores, those of earlier modules, and
  then of earlier rows, are removed first.
- A step masks the gradients, clips them, adds weight decay, then runs the optimizer. Retraining starts with zero
  momentum. The last partial batch of an epoch is dropped.
- If `epochs` or `steps` differ from the preset's, drops, warm-up and rewind point scale with them. `cosine` and
  `one-cycle` ignore the drops of a preset and use torch's formulas.
- If you change a preset, tables call it by its `name`, or else by what was changed.
- [Pruning](../explanation/pruning.md) explains what happens in a chain."""
SHOWN_DEPTHS = {"cifar_resnet": (8, 14, 20, 26, 50, 98), "vgg": (16,), "densenet": (121,), "digits_cnn": (5,)}
SHOWN_DEPTHS |= {"imagenet_resnet": (50,), "tinyimagenet_resnet": (18,)}
SHOWN_DEPTHS |= {f"vit_patch{size}": (6 if size <= 8 else 12,) for size in (2, 4, 8, 14, 16, 32)}
CLASSES = {"imagenet_resnet": 1000, "tinyimagenet_resnet": 200}
CLASSES |= {f"vit_patch{size}": 1000 for size in (14, 16, 32)}
"""Where they are not 10."""
SECTIONS = {
    "recipe": (Recipe, 'To change a preset, write `preset = "NAME"` and the keys that differ.'),
    "method": (Method, ""),
    "stop": (StopRules, ""),
    "select": (Select, ""),
    "resources": (Resources, ""),
}
READING = ("--where", "--metric", "--column", "--melt", "--depth-from", "--chance", "--without-too-large")
"""Options that all commands with a table have; they are listed once."""
FINDINGS = ("table", "laws", "choice", "studies")
TABLES = ("names", "recipes", "provenance", "measured")
"""Functions of `prunecast.tables`."""
PARTS = (Network, Matching, Question, Naming, Verdict, Configuration, Deviation, NoiseFloor, Score)
"""Classes of which attributes of the public ones are."""
WIDEST_SIGNATURE = 100


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
        "Every command prints JSON with `--json`, errors too. The exit status is 0 on success, 1 if no network "
        "meets the target, a chain failed or a file is damaged, 2 after a mistake, and 130 if it was stopped. Numbers "
        "may be fractions (1/4) and percentages (12%)."
    )
    fit = cli.get_command(context, "fit")
    assert fit is not None
    shared = [_option(own, context) for own in _options(fit, context) if own.opts[-1] in READING]
    reading = [
        "## Options for reading a table",
        "Commands that read a table of yours have these options, too.",
        table(["option", "meaning", "default"], shared),
    ]
    return page("Commands", lead, *parts, *reading)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### {context.info_name}"
    usage = " ".join(["prunecast", str(context.info_name), *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    yield "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    known = {own.opts[-1]: own for own in _options(command, context)}
    reads = known.keys() >= set(READING)
    rows = [_option(own, context) for name, own in known.items() if not (reads and name in READING)]
    if rows:
        yield table(["option", "meaning", "default"], rows)
    if reads:
        yield "Also the [options for reading a table](#options-for-reading-a-table)."


def _options(command: click.Command, context: click.Context) -> list[click.Option]:
    """The options of a command, without those that all commands have."""
    found = [own for own in command.get_params(context) if isinstance(own, click.Option)]
    return [own for own in found if own.opts[-1] not in ("--help", "--json")]


def _option(own: click.Option, context: click.Context) -> list[str]:
    names = [*own.opts, *own.secondary_opts]
    metavar = "" if own.is_flag else f" {own.make_metavar(context)}"
    shows = isinstance(own.show_default, bool) and own.show_default and not own.is_flag
    default = own.default if shows else ""
    if isinstance(default, tuple):
        default = ", ".join(map(str, default))
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
        "What `import prunecast` offers. Facts are properties; methods compute or write. Every error that a "
        "user can fix is a `PrunecastError`, whose message says what to do."
    )
    tables = [_function(f"prunecast.tables.{name}", getattr(prunecast.tables, name)) for name in TABLES]
    parts = [_class(own.__name__, own) for own in PARTS]
    about_parts = "Values inside those above, such as `choice.answer` and `fit.deviation`."
    return page(
        "Python",
        lead,
        "## Functions",
        *functions,
        *tables,
        "## Classes",
        *classes,
        "## Parts",
        about_parts,
        *parts,
    )


def _function(name: str, own: Any, level: str = "###") -> str:
    """A function or method: its signature and its docstring."""
    seen = inspect.signature(own)
    shown = _signature(name.rpartition(".")[2], seen)
    return f"{level} {name}\n\n```python\n{shown}\n```\n\n{_doc(own)}"


def _signature(name: str, seen: inspect.Signature) -> str:
    """A signature on one line, or with a line for each parameter if that is too long."""
    parameters: list[str] = []
    for one in seen.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        stars = 1 if one.kind is one.VAR_POSITIONAL else 2 if one.kind is one.VAR_KEYWORD else 0
        text = "*" * stars + one.name
        if one.annotation is not one.empty:
            text += f": {_annotation(one.annotation)}"
        if one.default is not one.empty:
            default = str(one.default) if isinstance(one.default, Enum) else one.default
            text += f" = {default!r}"
        parameters.append(text)
    returned = "" if seen.return_annotation is seen.empty else f" -> {_annotation(seen.return_annotation)}"
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) <= WIDEST_SIGNATURE:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in parameters), f"){returned}"])


def _annotation(annotation: Any) -> str:
    """A type as one would write it."""
    if annotation == ArrayLike:
        return "ArrayLike"
    if annotation == ArrayLike | None:
        return "ArrayLike | None"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("torch.nn.modules.module.Module", "torch.nn.Module")
    text = re.sub(r"numpy\.ndarray\[.*numpy\.dtype\[[\w.]+\]\]", "numpy.ndarray", text)
    return re.sub(r"\b(?:prunecast\.(?:\w+\.)*|pathlib\.|typing\.|collections\.abc\.)", "", text)


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


def _class(name: str, own: type, level: str = "###") -> str:
    """A class: what its attributes mean, and its methods; those inherited from the standard library are left out."""
    rows = [[code(field), text] for field, text in field_docs(own).items()]
    methods = []
    for member in inspect.classify_class_attrs(own):
        value, home = member.object, member.defining_class.__module__
        if member.name.startswith("_") or not home.startswith("prunecast"):
            continue
        if isinstance(value, property | cached_property):
            rows.append([code(member.name), " ".join((inspect.getdoc(value) or "").split())])
        elif inspect.isfunction(value):
            methods.append(_function(f"{name}.{member.name}", value, f"{level}#"))
    missing = [field for field, text in rows if not text]
    assert not missing, f"{name} has attributes without a docstring: {', '.join(missing)}"
    parts = [
        f"{level} {name}",
        _doc(own),
        *([table(["attribute", "meaning"], rows)] if rows else []),
        *methods,
    ]
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
        "A table has one row per training run. Only `density` and `error` are required. Case, spaces and hyphens in "
        "names do not matter. [Bring a table](../how-to/bring-a-table.md) shows how to read yours."
    )
    others = [
        [", ".join(code(word) for word in names.split(", ")), text] for names, text in OTHER_COLUMNS.items()
    ]
    return page(
        "Table columns",
        lead,
        table(["column", "meaning", "other names that are understood"], rows),
        "## Other columns",
        table(["column", "meaning"], others),
        "## How columns are read",
        COLUMN_NOTES,
    )


# plans


def plans() -> str:
    """The keys of a plan, and the presets that they name."""
    rows = [[code(key), PLAN_KEYS[key], "yes" if key in REQUIRED else ""] for key in KEYS]
    parts = [table(["key", "meaning", "required"], rows)]
    for name, (kind, remark) in SECTIONS.items():
        parts.append(f"## [{name}]")
        parts += [remark] if remark else []
        valid = STOP_KEYS if kind is StopRules else [field.name for field in dataclasses.fields(kind)]
        parts.append(table(["key", "meaning", "default"], _fields(kind, valid)))
    lead = (
        "A plan is a TOML file; a misspelt key is an error that lists the valid ones. [Train a "
        "grid](../how-to/train-a-grid.md) shows one. `[scale.NAME]` overrides keys if `--scale NAME` is given. A plan "
        "may have up to 100,000 chains."
    )
    return page("Plan keys", lead, *parts)


def _fields(kind: type, valid: Sequence[str]) -> list[list[str]]:
    texts = field_docs(kind)
    rows = []
    for field in dataclasses.fields(kind):
        if field.name not in valid:
            continue
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
        "The names that `recipe` and `method` of a plan can have. All settings that are not listed have their "
        "[defaults](plan-keys.md#recipe).",
        "## Recipes",
        table(["recipe", "settings"], [[code(own.name), _settings(own)] for own in RECIPES.values()]),
        "## Methods",
        table(["method", "settings"], [[code(own.name), _settings(own)] for own in METHODS.values()]),
        "## Retraining",
        RETRAINING,
    )


def families() -> str:
    """The built-in families with their counts."""
    rows = []
    for family in FAMILIES:
        for depth in SHOWN_DEPTHS[family]:
            classes = CLASSES.get(family, 10)
            own = architecture(family, depth=depth, width=1, num_classes=classes)
            counts = (f"{own.weights:,}", f"{own.parameters:,}", f"{own.multiply_adds / 1e6:,.1f} M")
            shape = "x".join(map(str, own.image_shape))
            rows.append([code(family), str(depth), shape, f"{classes:,}", *counts])
    header = ["family", "depth", "image", "classes", "prunable weights", "all parameters", "multiply-adds"]
    return table(header, rows)


def scaled_plans() -> str:
    """The plans that ship with scales: their grids, and what each scale costs."""
    rows = []
    for name, text in shipped_plans().items():
        if "small" in scales(text):
            seen = [overview(read_plan(name, scale=scale)) for scale in ("small", "medium", "full")]
            axes = (("depth", "depth"), ("width", "width"), ("examples", "num_examples"))
            grid = ", ".join(f"{word} {_range(seen[-1].axes[axis])}" for word, axis in axes)
            costs = [f"{own.chains:,}, {own.training_runs:,}, {own.epochs / 1000:,.1f}" for own in seen]
            rows.append([code(name), grid, *costs])
    return table(["plan", "full grid", "small", "medium", "full"], rows)


def _range(values: Sequence[Any]) -> str:
    low, high = (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" for value in (min(values), max(values))
    )
    return low if low == high else f"{low} to {high}"


def with_parts(name: str, parts: dict[str, str]) -> str:
    """A page that is written by hand, with its tables made anew."""
    return renewed((FOLDER / name).read_text(encoding="utf-8"), "tools/reference.py", parts)


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
        "A finding is a fact about a table, a fit, an answer or a study. In Python it is a typed value in `findings`. "
        "With `--json` it is an object in `notes` with its `kind`, a sentence as `text`, and its fields."
    )
    return page("Findings", lead, *parts)


def _one_line(own: type) -> str:
    return " ".join((own.__doc__ or "").split())


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands,
    "python.md": python,
    "table-columns.md": columns,
    "plan-keys.md": plans,
    "recipes.md": recipes,
    "findings.md": findings,
    "families.md": lambda: with_parts("families.md", {"families": families()}),
    "plans.md": lambda: with_parts("plans.md", {"plans": scaled_plans()}),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), encoding="utf-8")
        print(f"docs/reference/{name} is renewed.", flush=True)


if __name__ == "__main__":
    main()
