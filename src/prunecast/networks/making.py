"""From a law and a plan to the network itself: choose, train, prune to the exact density, write, measure."""

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from prunecast import families
from prunecast.choice import Choice, choose
from prunecast.choice.further import remedy
from prunecast.choice.notes import out_of_reach
from prunecast.choice.source import as_fit
from prunecast.data import Dataset
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.networks import words
from prunecast.networks.agreement import pattern
from prunecast.networks.card import Card, write_card
from prunecast.networks.describing import describe
from prunecast.networks.files import write_network
from prunecast.networks.measuring import errors_of, multiply_adds
from prunecast.pruning import Record, chain_folder
from prunecast.pruning.files import make_folder, read_tensors
from prunecast.pruning.masks import Masks, count_kept, full_masks, levels_to
from prunecast.pruning.scores import parts
from prunecast.spec import ChainSpec
from prunecast.sweep import Event, Plan, PlannedChain, look, run_plan
from prunecast.sweep.board import Board
from prunecast.sweep.work import loader, one_by_one, torch_device
from prunecast.table import Table

STORE = "store"
"""The folder of trainings inside a made network's folder."""
Follow = Callable[[Iterable[Event], Plan, Board], object]
"""Takes the events of a training as they happen, and counts them on the board."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be made: the choice, the one chain that makes it, and where everything lies."""

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
    def level(self) -> int:
        """The level that ends at the exact density."""
        return self.chain.rules.level_cap

    @property
    def full(self) -> Masks:
        """Masks that keep every prunable weight."""
        return _full(self.model)


def make(
    source: Fit | Table | str | Path,
    plan: Plan,
    folder: Path,
    *,
    follow: Follow | None = None,
    **asked: Any,
) -> Card:
    """Choose a network, train and prune it as the plan says, and write it with its card into a folder.

    What is in the store already is not trained again. `asked` are the options of `order`.
    """
    placed = order(source, plan, folder, **asked)
    train(placed, follow or silently)
    return finish(placed)


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
    """What making would do; `question` is asked of `choose`.

    The replicate fixes all random numbers; by default it is one that the plan does not have, so that the measured
    error says something new.
    """
    fit = as_fit(source, law)
    place = torch_device(device)
    own = pattern(plan, fit, num_examples)
    chosen = choose(fit, num_examples=own.spec.num_examples, **question)
    _possible(chosen)
    unseen = 1 + max(chain.spec.replicate for chain in plan.chains)
    best = chosen.answer
    spec = dataclasses.replace(
        own.spec,
        depth=round(best.depth),
        width=best.width,
        replicate=unseen if replicate is None else replicate,
    )
    dataset = loader(own, place, {})()
    model = _untrained(spec, dataset)
    spec, level = _to_density(spec, model, best.density)
    rules = dataclasses.replace(own.rules, level_cap=level)
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
    if chosen.met or chosen.question.density is not None:
        return
    best, other = chosen.answer, chosen.further
    wider = (
        ""
        if other is None
        else f", or go beyond what was measured: {remedy(other, chosen.question, chosen.naming)}"
    )
    network = f"{chosen.naming.network(best.depth, best.width)} at density {best.density:.4g}"
    raise PrunecastError(
        f"{out_of_reach(chosen.question)}: the least that a new training is expected to get is "
        f"{best.expected_error:.4f}, by {network}, so ask for a larger --target-error{wider}"
    )


def _untrained(spec: ChainSpec, dataset: Dataset) -> torch.nn.Module:
    return families.build(
        spec.family,
        depth=spec.depth,
        width=spec.width,
        num_classes=dataset.num_classes,
        generator=torch.Generator().manual_seed(0),
        image_shape=dataset.train.image_shape,
    )


def _full(model: torch.nn.Module) -> Masks:
    return full_masks({name: model.get_parameter(name) for name in families.prunable(model)})


def _to_density(spec: ChainSpec, model: torch.nn.Module, density: float) -> tuple[ChainSpec, int]:
    """The chain that ends with exactly so many weights, and the level that does."""
    masks = _full(model)
    weights = count_kept(masks)
    final = min(max(1, round(density * weights)), weights)
    if spec.method.score == "none" and final < weights:
        raise PrunecastError(
            f"the method {spec.method.name!r} prunes nothing, so it never gets to density {density:.4g}"
        )
    level = levels_to([count_kept(part) for part in parts(spec.method, masks)], spec.method.fraction, final)
    return dataclasses.replace(spec, final_nonzero=final), level


def train(order: Order, follow: Follow) -> None:
    """Train and prune level by level, from where the store stands."""
    board = Board(look(order.plan, order.store))
    key = (order.chain.spec.loader or order.chain.spec.dataset, order.chain.root, order.chain.spec.image_size)
    executor = partial(one_by_one, device=torch_device(order.device), loaded={key: order.dataset})
    follow(run_plan(order.plan, order.store, executor=executor), order.plan, board)
    if board.failed:
        raise PrunecastError(f"the training failed: {board.failed[0].error}")


def silently(events: Iterable[Event], plan: Plan, board: Board) -> None:
    """Count what happens, and say nothing."""
    for event in events:
        board.take(event)


def finish(order: Order) -> Card:
    """Write a trained network and its card; the errors on it are those of the files."""
    standing = look(order.plan, order.store)[0]
    if standing.problem:
        raise PrunecastError(standing.problem)
    records = standing.records
    _arrived(order, records, standing.ended)
    spec = order.chain.spec
    stored = chain_folder(order.store, spec)
    masks = stored.masks(order.level) if order.level else order.full
    make_folder(order.folder)
    write_network(order.folder, read_tensors(stored.weights(order.level))[0], masks, spec.digest)
    errors = errors_of(copy.deepcopy(order.model), order.folder, spec, order.dataset)
    arithmetic = multiply_adds(order.model, masks, order.dataset.train.image_shape)
    card = describe(order, records, stored.spec()[1], errors, arithmetic)
    write_card(order.folder, card, words.text(card))
    return card


def _arrived(order: Order, records: tuple[Record, ...], ended: str) -> None:
    """Refuse a chain that ended before the chosen density."""
    last = records[-1] if records else None
    if last is not None and last.level == order.level and last.status == "ok":
        return
    where = f"at level {last.level} of {order.level}" if last else "before its first level"
    raise PrunecastError(
        f"the network did not get to density {order.choice.answer.density:.4g}: its chain ended {where} "
        f"({ended or 'unfinished'}); try another --replicate, or ask for a smaller --target-error or a higher --density"
    )
