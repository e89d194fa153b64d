"""Where chains are trained: the options that say so, and the executor that trains them there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli.parameters import Command, Count, Number, with_options
from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from prunecast.sweep import Executor, Plan

RESOURCES = {
    "gpus": Number(),
    "cpus": Number(),
    "minutes": Count(),
    "memory_gb": Number(),
    "at_once": Count(),
}
HELP = {
    "gpus": "GPUs per worker; 0.25 lets four share one. A worker with a GPU runs a fleet.",
    "cpus": "CPUs per worker.",
    "minutes": "time limit per worker; another worker continues its chains.",
    "memory_gb": "memory per worker in GB.",
    "at_once": "maximum number of workers at the same time.",
}
OWNERS = {"address": "ray", "partition": "slurm", "sbatch": "slurm", "chains_per_job": "slurm"}
"""Options that only one backend has."""
OPTIONS = (
    click.option(
        "--plain", is_flag=True, help="On a GPU, train one chain after the other instead of packing them."
    ),
    click.option(
        "--on",
        metavar="[ray|slurm|MODULE:NAME]",
        help="Run on a cluster: Ray, Slurm, or a backend of your own.",
    ),
    click.option(
        "--address",
        metavar="HOST:PORT",
        help="Ray: the address of the cluster, or auto; $RAY_ADDRESS if not given.",
    ),
    click.option("--partition", metavar="NAME", help="Slurm: the partition to submit to."),
    click.option(
        "--sbatch",
        multiple=True,
        metavar="NAME=VALUE",
        help="Slurm: an option of sbatch, such as account=mine; may be repeated.",
    ),
    click.option(
        "--chains-per-job",
        type=Count(),
        help="Slurm: chains per job without a GPU, trained one after the other; 1 if not given.",
    ),
    *(
        click.option(f"--{name.replace('_', '-')}", name, type=kind, help=f"Cluster: {HELP[name]}")
        for name, kind in RESOURCES.items()
    ),
)


def placement_options(command: Command) -> Command:
    """Add the options that say where to train, other than device and jobs."""
    return with_options(OPTIONS, command)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the chains of a plan are trained."""

    plan: "Plan"
    """With the resources of workers."""
    executor: "Executor"
    device: str
    jobs: int
    """Chains at the same time on this machine."""
    on_cluster: bool


def placed(plan: "Plan", *, device: str, jobs: int | None, plain: bool, **cluster: Any) -> Placement:
    """The executor for a plan: this machine, or the workers of the cluster that the options name."""
    from prunecast.sweep import drive, executor_for, find_backend, usual_jobs, with_resources

    named = {name: value for name, value in cluster.items() if value not in (None, ())}
    on, many = named.pop("on", None), jobs or usual_jobs(device, plan.chains)
    if on is None:
        _refuse(named, "needs a cluster; add --on ray or --on slurm, or leave it out")
        executor = executor_for(device, many, plain=plain)
        return Placement(plan=plan, executor=executor, device=device, jobs=many, on_cluster=False)
    here = {"jobs": jobs is not None, "plain": plain}
    _refuse([name for name in here if here[name]], f"is for this machine, not for --on {on}; leave it out")
    wanted = {name: value for name, value in named.items() if name in RESOURCES}
    if device != "cpu":
        wanted.setdefault("gpus", 1.0)
    for name in named:
        if OWNERS.get(name, on) != on:
            _refuse([name], f"is for --on {OWNERS[name]}; leave it out")
    options = _slurm_options(**{name: value for name, value in named.items() if OWNERS.get(name) == "slurm"})
    options |= {"address": named["address"]} if "address" in named else {}
    backend = partial(find_backend(on), **options)
    return Placement(
        plan=with_resources(plan, wanted),
        executor=partial(drive, backend=backend),
        device=device,
        jobs=many,
        on_cluster=True,
    )


def _refuse(names: "Mapping[str, Any] | list[str]", why: str) -> None:
    for name in names:
        raise PrunecastError(f"--{name.replace('_', '-')} {why}.")


def _slurm_options(partition: str | None = None, sbatch: Sequence[str] = (), **others: Any) -> dict[str, Any]:
    """The options of sbatch by name, and others as they are; nothing if none are given."""
    options = {} if partition is None else {"partition": partition}
    for word in sbatch:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise PrunecastError(f"--sbatch is {word!r}; give an sbatch option as NAME=VALUE.")
        options[name.lstrip("-")] = value
    return {"options": options, **others} if options else others
