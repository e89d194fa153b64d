"""Whether the data has as many training examples as a plan asks for: told once, before anything trains."""

from collections.abc import Callable

import torch

from prunecast.catalog import find_dataset
from prunecast.errors import PrunecastError
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.sweep.work import Loaded, loader

Count = Callable[[PlannedChain], int | None]


def official(chain: PlannedChain) -> int | None:
    """How many there are in a dataset that goes by its official name, without a look at any file."""
    facts = None if chain.spec.loader else find_dataset(chain.spec.dataset)
    return None if facts is None else facts.train_examples


def at_hand() -> Count:
    """How many there are in the files themselves, each dataset opened once, as whoever trains on it would."""
    loaded: Loaded = {}
    return lambda chain: len(loader(chain, torch.device("cpu"), loaded)().train)


def check_examples(plan: Plan, count: Count) -> None:
    """Refuse a plan that asks for more examples than there are beside those held out, or whose data cannot be read."""
    short: dict[tuple[str, int, int], set[int]] = {}
    for chain in plan.chains:
        try:
            total = count(chain)
        except PrunecastError as problem:
            raise PrunecastError(f"The plan {plan.name}: {problem}") from problem
        spec, held = chain.spec, chain.spec.recipe.validation_examples
        if total is not None and spec.num_examples + held > total:
            short.setdefault((spec.dataset, total, held), set()).add(spec.num_examples)
    for (dataset, total, held), asked in short.items():
        raise PrunecastError(_refusal(plan.name, dataset, total, held, asked))


def _refusal(plan: str, dataset: str, total: int, held: int, asked: set[int]) -> str:
    wanted = " and ".join(f"{number:,}" for number in sorted(asked))
    kept = f", {held:,} of them held out by validation_examples" if held else ""
    most = total - held
    remedy = f"give at most {most:,}" if most > 0 else "hold out fewer"
    return (
        f"The plan {plan} asks for num_examples {wanted}, and {dataset} has {total:,} training examples{kept}; "
        f"{remedy}."
    )
