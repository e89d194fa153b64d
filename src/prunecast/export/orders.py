"""Orders: the chosen network, and the chain of a plan that makes it."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prunecast import families, tables
from prunecast.choice import Choice, NetworkBeyondMeasured, as_fit, choose
from prunecast.data import Dataset
from prunecast.errors import PrunecastError, UnmetTargetError
from prunecast.export.files import as_given, build
from prunecast.export.model_file import check_overwriting
from prunecast.export.timing import missing_runtime
from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.pruning import Masks, NOfM, count_kept, full_masks, levels_to, structure_of
from prunecast.spec import CHANNELS, RECIPES, ChainSpec, Recipe
from prunecast.sweep import Plan, PlannedChain, check_data, loader, torch_device
from prunecast.table import Table
from prunecast.text import normalized
from prunecast.wording import network_beyond, network_name, numbers, out_of_reach

STORE = "store"
"""The folder of training runs inside a made network's folder."""
NAMES: dict[str, Callable[[PlannedChain], str]] = {
    "family": lambda chain: chain.spec.family,
    "dataset": lambda chain: chain.spec.dataset,
    "method": lambda chain: chain.spec.method.name,
    "recipe": lambda chain: chain.spec.recipe.name,
}


@dataclass(frozen=True, kw_only=True)
class Order:
    """A chosen network, the chain that makes it, and where its files are."""

    fit: Fit
    choice: Choice
    plan: Plan
    folder: Path
    store: Path
    device: str
    dataset: Dataset
    model: torch.nn.Module
    """The network before any training."""

    @property
    def chain(self) -> PlannedChain:
        """The only chain of the plan."""
        return self.plan.chains[0]

    @property
    def level(self) -> int | None:
        """The level that ends at the exact density; None if whole channels are removed, which determine it."""
        return None if self.chain.spec.method.structure == CHANNELS else self.chain.rules.level_cap

    @property
    def full(self) -> Masks:
        """Masks that keep every prunable weight."""
        return _full(self.model)

    @property
    def never_pruned(self) -> int:
        """Parameters that are not prunable."""
        return sum(one.numel() for one in self.model.parameters()) - count_kept(self.full)


def order(
    source: Fit | Table | str | Path,
    plan: Plan,
    folder: Path,
    *,
    store: Path | None = None,
    device: str = "cpu",
    replicate: int | None = None,
    num_examples: float | None = None,
    law: str = "auto",
    **question: Any,
) -> Order:
    """Choose a network and plan the chain that makes it; `question` has the options of `choose`.

    The replicate fixes all random numbers; by default it is one that the plan does not use, so that the measured
    error is independent of the table.
    """
    check_overwriting(folder)
    fit = as_fit(source, law)
    place = torch_device(device)
    own = pattern(plan, fit, num_examples)
    chosen = choose(fit, num_examples=own.spec.num_examples, **question)
    _possible(chosen)
    _can_be_timed(chosen)
    unseen = 1 + max(chain.spec.replicate for chain in plan.chains)
    best = chosen.answer
    spec = dataclasses.replace(
        own.spec,
        depth=round(best.depth),
        width=as_given(best.width),
        replicate=unseen if replicate is None else replicate,
    )
    check_data(dataclasses.replace(plan, chains=(own,)))
    dataset = loader(own, place, {})()
    images = {"num_classes": dataset.num_classes, "image_shape": dataset.train.image_shape}
    model = build({**vars(spec), **images})
    _same_weights(fit, spec, model)
    down = chosen.question.max_parameters is not None
    spec, level = _to_density(spec, model, best.density, down=down)
    final = spec.final_nonzero if spec.method.structure == CHANNELS else None
    rules = dataclasses.replace(own.rules, level_cap=level, final_nonzero=final)
    chain = dataclasses.replace(own, spec=spec, rules=rules, keep_weights=False, select=None)
    return Order(
        fit=fit,
        choice=chosen,
        plan=Plan(name=plan.name, chains=(chain,)),
        folder=folder,
        store=store or folder / STORE,
        device=device,
        dataset=dataset,
        model=model,
    )


def _possible(chosen: Choice) -> None:
    if not chosen.out_of_reach:
        return
    best = chosen.answer
    others = [own for own in chosen.findings if isinstance(own, NetworkBeyondMeasured)]
    wider = "".join(f"; outside the measured range, {network_beyond(own)}" for own in others)
    network = f"{network_name(chosen.naming, best.depth, best.width)} with {numbers.kept(best.density)}"
    raise UnmetTargetError(
        f"{out_of_reach(chosen.question)}: the best that a new training run is expected to reach is "
        f"{numbers.estimate(best.expected_error, best.interval)}, with {network}; ask for a larger "
        f"--target-error{wider}"
    )


def _can_be_timed(chosen: Choice) -> None:
    """Refuse, before anything is trained, a latency budget that cannot be checked on this machine."""
    runtime = chosen.timed_with.partition("-")[0]
    if chosen.question.max_latency is not None and missing_runtime(runtime):
        lacks = "has no GPU" if runtime == "cuda" else "lacks ONNX Runtime: pip install 'prunecast[onnx]'"
        raise PrunecastError(
            f"the budget means latencies timed with {chosen.timed_with!r}, but this machine {lacks}. Make the network "
            "on a machine that can check it, or choose another runtime of the table with --timed-with."
        )


def _same_weights(fit: Fit, spec: ChainSpec, model: torch.nn.Module) -> None:
    """Refuse a table from before the projections into attention were prunable: its densities mean something else."""
    before, now = (families.prunable(model, earlier=earlier) for earlier in (True, False))
    counts = [sum(model.get_parameter(name).numel() for name in names) for names in (before, now)]
    measured = {
        round(c.weights) for c in fit.configurations if (c.depth, c.width) == (spec.depth, spec.width)
    }
    if before != now and fit.counted and counts[0] in measured and counts[1] not in measured:
        raise PrunecastError(
            f"the networks of {fit.origin.table} have {counts[0]:,} prunable weights, but those of {spec.family} now "
            f"have {counts[1]:,}, because attention and bilinear weights are prunable: measure the table again, or "
            f"set prunable_weights of the model to the earlier ones, {before}"
        )


def _full(model: torch.nn.Module) -> Masks:
    return full_masks({name: model.get_parameter(name) for name in families.prunable(model)})


def _to_density(
    spec: ChainSpec, model: torch.nn.Module, density: float, *, down: bool
) -> tuple[ChainSpec, int]:
    """The chain that ends with exactly this many weights, and its last level.

    A structure N:M ends at the last level that has at least this many, or with `down` at the first that has no
    more.
    """
    masks = _full(model)
    weights = count_kept(masks)
    final = min(max(1, round(density * weights)), weights)
    if not spec.method.prunes and final < weights:
        raise PrunecastError(
            f"the method {spec.method.name!r} prunes nothing, so it never reaches density {density:.4g}"
        )
    structure = structure_of(spec.method.structure)(model)
    if isinstance(structure, NOfM):
        level = _grouped_level(structure, final, density, down=down)
        return dataclasses.replace(spec, final_nonzero=structure.counts()[level]), level
    return dataclasses.replace(spec, final_nonzero=final), levels_to(spec.method, masks, final)


def _grouped_level(structure: NOfM, final: int, density: float, *, down: bool) -> int:
    """The level of a chain of groups that keeps about so many weights."""
    counts = structure.counts()
    if final < counts[-1]:
        raise PrunecastError(
            f"structure {structure.keep}:{structure.group} keeps at least {counts[-1]:,} of the {counts[0]:,} weights "
            f"of this network, so it never gets to density {density:.4g}; ask for a density of "
            f"{counts[-1] / counts[0]:.4g} or more, or for a lower --target-error."
        )
    if down:
        return next(level for level, count in enumerate(counts) if count <= final)
    return max(level for level, count in enumerate(counts) if count >= final)


def pattern(plan: Plan, fit: Fit, num_examples: float | None) -> PlannedChain:
    """The plan's chain whose family, data, method, recipe and number of examples are the law's own.

    What the law's table does not name is taken from the plan. The number of examples is the one asked for, else the
    largest that both know.
    """
    chains = list(plan.chains)
    for name, of in NAMES.items():
        wanted = getattr(fit.origin, name)
        agreeing = [chain for chain in chains if not wanted or normalized(of(chain)) == normalized(wanted)]
        if not agreeing:
            found = sorted({of(chain) for chain in chains})
            raise PrunecastError(_other(plan, name, wanted, found, fit.origin.table))
        chains = agreeing
    planned = {chain.spec.num_examples for chain in chains}
    known = {round(own.num_examples) for own in fit.configurations}
    common = (planned & known) if num_examples is None else (planned & known & {round(num_examples)})
    if "num_examples" not in fit.columns:
        raise PrunecastError(
            "the law's table does not say how many examples its networks were trained on; add a column num_examples, "
            "and columns depth and width with the same meaning as in the plan"
        )
    if not common:
        raise PrunecastError(_examples(plan, planned, known, num_examples))
    own = next(chain for chain in chains if chain.spec.num_examples == max(common))
    if fit.metric is Metric.VALIDATION_ERROR and not own.spec.recipe.validation_examples:
        raise PrunecastError(
            f"the law was fitted to validation errors, but the plan {plan.name} holds out no examples: add "
            "validation_examples to its recipe"
        )
    return own


def _other(plan: Plan, name: str, wanted: str, found: list[str], table: str) -> str:
    recipe = _shipped_recipe(table, wanted) if name == "recipe" else ""
    remedy = (
        f'; if they are the same, set name = "{wanted}" in the plan'
        if name in ("recipe", "method") and not recipe
        else ""
    )
    return (
        f"the law was fitted to networks of the {name} {wanted!r}, but the plan {plan.name} trains those of "
        f"{' and '.join(map(repr, found))}: give a plan with the law's {name}{recipe}{remedy}"
    )


def _shipped_recipe(table: str, name: str) -> str:
    """What a plan of your own has to say to train as a shipped table was; empty for other tables."""
    settings = tables.provenance(table).get("recipe_settings") if tables.known(table) else None
    if not isinstance(settings, dict) or normalized(str(settings["name"])) != normalized(name):
        return ""
    own = Recipe(**{**settings, "drops": tuple(settings.get("drops", ()))})
    starts = [_changes(preset, own) for preset in RECIPES.values()]
    given = min(starts, key=len)
    written = ", ".join(f"{key} = {json.dumps(value)}" for key, value in given.items())
    return f" (your own file with recipe = {{{written}}})"


def _changes(preset: Recipe, wanted: Recipe) -> dict[str, object]:
    """A recipe as a plan gives it: the preset to start from, and what to change."""
    usual, own = dataclasses.asdict(preset), dataclasses.asdict(wanted)
    return {"preset": preset.name, **{name: value for name, value in own.items() if value != usual[name]}}


def _examples(plan: Plan, planned: set[int], known: set[int], asked: float | None) -> str:
    def listed(numbers: set[int]) -> str:
        return " and ".join(f"{number:,}" for number in sorted(numbers))

    wish = "" if asked is None else f" and you asked for {asked:,.0f}"
    return (
        f"the law was fitted to networks trained on {listed(known)} examples, but the plan {plan.name} trains on "
        f"{listed(planned)}{wish}: give a num_examples that both have"
    )
