"""The options of a cluster, and the executor that they name."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from prunecast.sweep import Executor, Job, Plan
    from prunecast.sweep.events import Outcome

Command = TypeVar("Command", bound=Callable[..., Any])
RESOURCES = {"gpus": float, "cpus": float, "minutes": int, "memory_gb": float, "at_once": int}
HELP = {
    "gpus": "GPUs of a worker; 0.25 lets four share one. A worker with a GPU runs a fleet.",
    "cpus": "CPUs of a worker.",
    "minutes": "How long a worker may work in one go; chains go on with another.",
    "memory_gb": "Memory of a worker in GB.",
    "at_once": "The most workers at the same time.",
}
OPTIONS = (
    click.option("--on", type=click.Choice(["ray", "slurm"]), help="Run on a cluster instead of here."),
    click.option("--address", help="Ray: host:port of the cluster, or auto; $RAY_ADDRESS if not given."),
    click.option("--partition", help="Slurm: where to queue."),
    click.option(
        "--sbatch", multiple=True, help="Slurm: an option of sbatch as NAME=VALUE, as account=mine."
    ),
    click.option(
        "--chains-per-job",
        type=click.IntRange(min=1),
        help="Slurm: chains that a job without a GPU takes, one after the other; 1 if not given.",
    ),
    *(
        click.option(f"--{name.replace('_', '-')}", name, type=kind, help=f"Cluster: {HELP[name]}")
        for name, kind in RESOURCES.items()
    ),
)


def cluster_options(command: Command) -> Command:
    """Give a command the options of a cluster."""
    return reduce(lambda inner, option: option(inner), reversed(OPTIONS), command)


@contextlib.contextmanager
def placed(
    plan: "Plan", given: Mapping[str, Any], here: Mapping[str, bool], device: str
) -> "Iterator[tuple[Plan, Executor | None]]":
    """The plan with its resources and the cluster's executor; None means that it runs here.

    `here` are options that make sense on this machine only, and whether they were given.
    """
    named = {name: value for name, value in given.items() if value not in (None, ())}
    on = named.pop("on", None)
    if on is None:
        _refuse(named, "is for a cluster; add --on ray or --on slurm, or leave it out")
        yield plan, None
        return
    _refuse(
        [name for name, was in here.items() if was], f"is for this machine, not for --on {on}; leave it out"
    )
    from prunecast.clusters.resources import with_resources

    wanted = {name: value for name, value in named.items() if name in RESOURCES}
    if device != "cpu":
        wanted.setdefault("gpus", 1.0)
    others = {name: value for name, value in named.items() if name not in RESOURCES}
    with contextlib.ExitStack() as until_the_end:
        executor = _ray(until_the_end, **others) if on == "ray" else _slurm(**others)
        yield with_resources(plan, wanted), executor


def _refuse(names: "Mapping[str, Any] | list[str]", why: str) -> None:
    for name in names:
        raise PrunecastError(f"--{name.replace('_', '-')} {why}.")


def _ray(until_the_end: contextlib.ExitStack, address: str = "", **others: str) -> "Executor":
    """One connection for the whole run, made when there is something to do, however often that is."""
    _refuse(others, "is for --on slurm; leave it out")

    def connected(jobs: "Sequence[Job]", store: Path) -> "Iterator[Outcome]":
        from prunecast.clusters.ray_start import joined

        until_the_end.enter_context(joined(address))
        from prunecast.clusters.ray_driver import on_ray

        running = on_ray(jobs, store, address=address)
        until_the_end.callback(running.close)  # whoever stops listening ends the workers, then the connection
        yield from running

    return connected


def _slurm(
    partition: str | None = None, sbatch: Sequence[str] = (), chains_per_job: int = 1, **others: str
) -> "Executor":
    _refuse(others, "is for --on ray; leave it out")
    from prunecast.clusters.slurm import on_slurm

    options = {} if partition is None else {"partition": partition}
    for word in sbatch:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise PrunecastError(f"--sbatch is {word!r}; give an option of sbatch as NAME=VALUE.")
        options[name.lstrip("-")] = value
    return partial(on_slurm, options=options, chains_per_job=chains_per_job)
