"""The command that writes a plan for a network and data of your own."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import echo, import_from
from prunecast.cli.engine import DEVICE, JOBS
from prunecast.cli.parameters import JSON, Count, Number
from prunecast.errors import PrunecastError
from prunecast.files import check_folder, dumps, replace_file
from prunecast.text import duration, listed, plural

if TYPE_CHECKING:
    from prunecast.spec import Recipe
    from prunecast.sweep import proposal

FILE = click.Path(dir_okay=False, path_type=Path)
FIRST_COMMENT = 40
"""The column where comments start."""
Settings = dict[str, tuple[object, str]]
"""Values and comments by key."""


@click.command()
@click.argument("family", metavar="FAMILY")
@click.option(
    "--data",
    metavar="DATA",
    required=True,
    help="Images: a folder, archive, .npz file, module:function or dataset name.",
)
@click.option("-o", "--output", type=FILE, default=Path("plan.toml"), show_default=True, help="The plan.")
@click.option(
    "--hours",
    type=Number(positive=True),
    default=1.0,
    show_default=True,
    help="Maximum time for the plan on this machine.",
)
@DEVICE
@JOBS
@click.option("--image-size", type=Count(), help="Resize images to this size.")
@JSON
def init(
    family: str,
    data: str,
    output: Path,
    hours: float,
    device: str,
    jobs: int | None,
    image_size: int | None,
    as_json: bool,
) -> None:
    """Write a plan for FAMILY, your own function as module:function or a built-in family, that fits a time limit.

    Networks of several depths and widths are built and timed here for a few seconds. The plan has comments and runs as
    it is.
    """
    from rich.console import Console

    from prunecast.sweep import inspect, parse_plan, proposal

    check_folder(output)
    if output.exists():
        raise PrunecastError(f"{output} exists already; remove it, or name another file with -o.")
    import_from(output)
    with Console(stderr=True).status("building networks of several sizes") as status:  # on a terminal only
        found = proposal.propose(
            checked_family(family),
            data,
            hours=hours,
            device=device,
            jobs=jobs,
            image_size=image_size,
            on_timing=lambda number, networks: status.update(f"timing network {number} of {networks}"),
        )
    place = str(found.data.root or found.data.dataset)
    if not place.isprintable():
        raise PrunecastError(f"the name {place!r} cannot be written into a plan; rename the data.")
    text = plan_text(found, output)
    inspect(parse_plan(text, name=output.stem, place=str(output), folder=output.parent))
    replace_file(output, text.encode())
    echo(dumps(summary_as_json(found, output)) if as_json else summary(found, output))


def checked_family(name: str) -> str:
    """Refuse the name of a file, and any name that is neither a function nor a family."""
    from prunecast.catalog import FAMILIES

    module, _, function = name.partition(":")
    if module.endswith(".py") or "/" in module:
        own = Path(module).stem
        raise PrunecastError(
            f"{name} is a path; give a module and a function instead, such as {own}:{function or 'build'}, and run the "
            "command in the folder of the file."
        )
    if not function and name not in (*FAMILIES, "vit"):
        known = ", ".join(own for own in FAMILIES if not own.startswith("vit_"))
        raise PrunecastError(
            f"{name} is not a family; give your own function as module:function, or one of {known}, vit."
        )
    return name


def plan_text(found: "proposal.Proposal", place: Path) -> str:
    """The plan as commented TOML."""
    patch = found.family.rpartition("patch")[2] if found.family.startswith("vit_patch") else ""
    family: Settings = {"family": (found.family, "the function that builds a network")}
    if patch:
        family = {"family": ("vit", ""), "patch_size": (int(patch), "pixels of a square patch")}
    lines = [
        f"# Measures {found.family} on {found.data.dataset}. Written by `prunecast init`; it runs as it is:",
        *(f"#   {command}" for command in commands(place)),
        f"# It takes at most about {duration(found.seconds)} on {found.device}, "
        f"{plural(found.jobs, 'chain')} at a time.",
        "",
        *_lines(family),
        *_lines(_data(found, place)),
        "",
        *_lines(_sizes(found)),
        "",
        "[recipe]",
        *_lines(_recipe(found.recipe)),
    ]
    return "\n".join(lines) + "\n"


def commands(place: Path) -> list[str]:
    """What to do with the plan."""
    return [
        f"prunecast plan {place}",
        f"prunecast run {place} -o table.csv",
        "prunecast choose table.csv --target-error 0.1",
        f"prunecast make table.csv --plan {place} --target-error 0.1 -o network",
    ]


def _lines(settings: Settings) -> list[str]:
    return [_line(key, value, comment) for key, (value, comment) in settings.items()]


def _line(key: str, value: object, comment: str) -> str:
    if isinstance(value, tuple):
        own = [json.dumps(item) if isinstance(item, str) else f"{item:g}" for item in value]
        written = own[0] if len(own) == 1 else f"[{', '.join(own)}]"
    elif isinstance(value, str):
        written = json.dumps(value, ensure_ascii=False)
    else:
        written = f"{value:g}"
    text = f"{key} = {written}"
    return f"{text:<{FIRST_COMMENT}}# {comment}" if comment else text


def _data(found: "proposal.Proposal", place: Path) -> Settings:
    data = found.data
    shape = "x".join(map(str, data.facts.image_shape))
    counts = f"{data.facts.train_examples:,} training and {data.facts.test_examples:,} test images of {shape}"
    classes = f"{data.facts.num_classes:,} classes"
    settings: Settings = {"dataset": (data.dataset, f"the name in tables; {counts}, {classes}")}
    if data.loader is not None:
        settings["loader"] = data.loader, ""
    if data.root is not None:
        settings["root"] = os.path.relpath(data.root, place.absolute().parent), "relative to this file"
    if data.image_size is not None:
        cropped = "the shorter side is scaled to this, then the centre is cropped"
        settings["image_size"] = data.image_size, cropped
    if data.split is not None:
        held_out = "there is no test set: this share of every class is held out"
        settings["test_share"] = data.split.test_share, held_out
        settings["split_seed"] = data.split.seed, "chooses the test images, together with their file names"
    return settings


def _sizes(found: "proposal.Proposal") -> Settings:
    settings: Settings = {
        name: (
            values,
            "" if name in found.takes else f"one {name}, because the function does not take {name}",
        )
        for name, values in (("depth", found.depths), ("width", found.widths))
    }
    left = f"{0.8**found.level_cap:.2g} of the weights are left at the end"
    settings |= {
        "num_examples": (found.shares, "of the training images; or numbers"),
        "replicates": (found.replicates, "how many times everything is trained, with different seeds"),
        "level_cap": (found.level_cap, f"every level removes a fifth; {left}"),
    }
    if found.threads > 1:
        settings["threads"] = found.threads, "of each chain; faster here than one"
    return settings


def _recipe(recipe: "Recipe") -> Settings:
    comments = {
        "name": "the name in tables",
        "epochs": "longer is better, up to a point",
        "batch_size": "",
        "optimizer": {
            "sgd": "for networks with batch norm",
            "adamw": "for networks without batch norm, such as transformers",
        }[recipe.optimizer],
        "learning_rate": "",
        "weight_decay": "",
        "weight_decay_on": "not on norms and biases",
        "schedule": "",
        "warmup": "epochs",
        "rewind": "the epoch that weights are rewound to before retraining",
        "augmentation": "flips and shifts images; use none if left and right differ",
        "initial_weights": "those that the function makes; he-uniform draws others, as in the paper",
    }
    if recipe.weight_decay_on == "all":
        del comments["weight_decay_on"]
    if recipe.augmentation == "none":
        comments["augmentation"] = ""
    if recipe.initial_weights != "own":
        del comments["initial_weights"]
    return {name: (getattr(recipe, name), comment) for name, comment in comments.items()}


def summary(found: "proposal.Proposal", place: Path) -> str:
    """What the plan contains, how long it takes, and what to do next."""
    sizes = [
        f"{name} {listed(f'{value:g}' for value in values)}"
        for name, values in (("depth", found.depths), ("width", found.widths))
        if name in found.takes
    ] or ["networks of one size"]
    chains = len(found.depths) * len(found.widths) * len(found.shares) * found.replicates
    what = f"{plural(chains, 'chain')} of {', '.join(sizes)}, {found.level_cap} levels, {found.recipe.epochs:g} epochs"
    lines = [
        f"{place}: {what}; at most about {duration(found.seconds)} on {found.device}.",
        *_notes(found),
        "Next:",
        *(f"  {command}" for command in commands(place)),
    ]
    return "\n".join(lines)


def summary_as_json(found: "proposal.Proposal", place: Path) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "plan": str(place),
        "depths": list(found.depths),
        "widths": list(found.widths),
        "num_examples": list(found.shares),
        "replicates": found.replicates,
        "level_cap": found.level_cap,
        "epochs": found.recipe.epochs,
        "seconds": found.seconds,
        "device": found.device,
        "jobs": found.jobs,
        "threads": found.threads,
        "notes": _notes(found),
    }


def _notes(found: "proposal.Proposal") -> list[str]:
    missing = [name for name in ("depth", "width") if name not in found.takes]
    notes = []
    if missing:
        several = f"arguments {' and '.join(missing)}" if len(missing) > 1 else f"an argument {missing[0]}"
        compared = "networks of different sizes" if len(missing) > 1 else f"{missing[0]}s"
        notes.append(
            f"{found.family} does not take {' or '.join(missing)}, so the plan cannot compare {compared}; give the "
            f"function {several} if you want prunecast to choose among them."
        )
    if found.takes and found.possible == 1:
        axes = " and ".join(found.takes)
        notes.append(
            f"With every {axes} that was tried, {found.family} builds networks of the same size or none, so the plan "
            f"cannot compare sizes; let the function use its {axes}."
        )
    elif found.takes and len(found.depths) * len(found.widths) == 1:
        notes.append(
            "There is time for one size only, so the plan cannot compare sizes; with more --hours it has several."
        )
    return notes
