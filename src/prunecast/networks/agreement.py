"""A plan and a law that speak of the same networks, or one sentence about where they do not."""

import dataclasses
from collections.abc import Callable
from itertools import product

from prunecast import tables
from prunecast.choice.source import VALIDATION
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.spec.presets import RECIPES
from prunecast.spec.recipe import Precision
from prunecast.sweep import Plan, PlannedChain
from prunecast.sweep.words import recipe_words
from prunecast.text import normalized

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
NAMES: dict[str, Callable[[PlannedChain], str]] = {
    "family": lambda chain: chain.spec.family,
    "dataset": lambda chain: chain.spec.dataset,
    "method": lambda chain: chain.spec.method.name,
    "recipe": lambda chain: chain.spec.recipe.name,
}


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
    if known == {1}:
        raise PrunecastError(
            "the law's table does not tell how many examples its networks were trained on: give it a column "
            "num_examples, and depth and width as the plan means them"
        )
    if not common:
        raise PrunecastError(_examples(plan, planned, known, num_examples))
    own = next(chain for chain in chains if chain.spec.num_examples == max(common))
    if fit.options.get("error") == VALIDATION and not own.spec.recipe.validation_examples:
        raise PrunecastError(
            f"the law was fitted to validation errors, and the plan {plan.name} holds no examples out: give its recipe "
            "validation_examples"
        )
    return own


def _other(plan: Plan, name: str, wanted: str, found: list[str], table: str) -> str:
    told = _shipped_recipe(table, wanted) if name == "recipe" else ""
    remedy = (
        f'; if they are the same, call it name = "{wanted}" in the plan'
        if name in ("recipe", "method") and not told
        else ""
    )
    return (
        f"the law was fitted to networks of the {name} {wanted!r}, and the plan {plan.name} trains those of "
        f"{' and '.join(map(repr, found))}: give a plan of the law's {name}{told}{remedy}"
    )


def _shipped_recipe(table: str, name: str) -> str:
    """What a plan of one's own has to say to train as a shipped table was; nothing of other tables."""
    if not tables.known(table):
        return ""
    own, _, words = str(tables.provenance(table)["recipe"]).partition(": ")
    if normalized(own) != normalized(name):
        return ""
    for preset, precision in product(RECIPES.values(), PRECISIONS):
        if recipe_words(dataclasses.replace(preset, precision=precision)) == words:
            settings = f'preset = "{preset.name}", precision = "{precision}", name = "{name}"'
            return f", a file of your own that says recipe = {{{settings}}}"
    return f', a file of your own whose recipe has name = "{name}" and is this: {words}'


def _examples(plan: Plan, planned: set[int], known: set[int], asked: float | None) -> str:
    def listed(numbers: set[int]) -> str:
        return " and ".join(f"{number:,}" for number in sorted(numbers))

    wish = "" if asked is None else f" and {asked:,.0f} were asked for"
    return (
        f"the law was fitted to networks trained on {listed(known)} examples, and the plan {plan.name} trains on "
        f"{listed(planned)}{wish}: give a num_examples that both have"
    )
