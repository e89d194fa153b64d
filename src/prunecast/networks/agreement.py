"""A plan and a law that speak of the same networks, or one sentence about where they do not."""

from collections.abc import Callable

from prunecast.choice.source import VALIDATION
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.sweep import Plan, PlannedChain
from prunecast.table.columns import plain

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
        agreeing = [chain for chain in chains if not wanted or plain(of(chain)) == plain(wanted)]
        if not agreeing:
            raise PrunecastError(_other(plan, name, wanted, sorted({of(chain) for chain in chains})))
        chains = agreeing
    planned = {chain.spec.num_examples for chain in chains}
    known = {round(own.num_examples) for own in fit.configurations}
    common = (planned & known) if num_examples is None else (planned & known & {round(num_examples)})
    if not common:
        raise PrunecastError(_examples(plan, planned, known, num_examples))
    own = next(chain for chain in chains if chain.spec.num_examples == max(common))
    if fit.options.get("error") == VALIDATION and not own.spec.recipe.validation_examples:
        raise PrunecastError(
            f"the law was fitted to validation errors, and the plan {plan.name} holds no examples out: give its recipe "
            "validation_examples"
        )
    return own


def _other(plan: Plan, name: str, wanted: str, found: list[str]) -> str:
    remedy = (
        f'; if they are the same, call it name = "{wanted}" in the plan'
        if name in ("recipe", "method")
        else ""
    )
    return (
        f"the law was fitted to networks of the {name} {wanted!r}, and the plan {plan.name} trains those of "
        f"{' and '.join(map(repr, found))}: give a plan of the law's {name}{remedy}"
    )


def _examples(plan: Plan, planned: set[int], known: set[int], asked: float | None) -> str:
    def listed(numbers: set[int]) -> str:
        return " and ".join(f"{number:,}" for number in sorted(numbers))

    wish = "" if asked is None else f" and {asked:,.0f} were asked for"
    return (
        f"the law was fitted to networks trained on {listed(known)} examples, and the plan {plan.name} trains on "
        f"{listed(planned)}{wish}: give a num_examples that both have"
    )
