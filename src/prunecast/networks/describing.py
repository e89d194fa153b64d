"""From a trained network to its card."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunecast.choice import Choice
from prunecast.choice.source import quantity
from prunecast.laws import Fit
from prunecast.networks.card import Card, Counts, Disk, Measured, Predicted, Shape, Training
from prunecast.networks.files import MASK, MODEL, SPARSE
from prunecast.networks.measuring import Errors
from prunecast.pruning import Record

if TYPE_CHECKING:
    from prunecast.networks.making import Order


def describe(
    order: "Order",
    records: tuple[Record, ...],
    about: dict[str, Any],
    errors: Errors,
    arithmetic: tuple[int, int],
) -> Card:
    """Everything that is known about a made network; `about` is what its chain's spec.json says."""
    return Card(
        network=_shape(order, records[-1]),
        question=order.choice.question,
        predicted=predicted(order.choice, order.fit),
        measured=_measured(order.choice, order.fit, errors, records[-1]),
        counts=_counts(records[-1], arithmetic),
        disk=_disk(order.folder),
        training=_training(order, records, about),
    )


def predicted(choice: Choice, fit: Fit) -> Predicted:
    """What was promised."""
    best = choice.answer
    return Predicted(
        law=choice.law,
        table=choice.table,
        metric=quantity(fit),
        value=best.error,
        interval=best.interval,
        probability=best.probability,
        source=best.source,
        notes=choice.notes,
    )


def _measured(choice: Choice, fit: Fit, errors: Errors, last: Record) -> Measured:
    value = getattr(errors, quantity(fit))
    value = errors.error if value is None else float(value)
    low, high = choice.answer.interval
    target = choice.question.target_error
    return Measured(
        error=errors.error,
        loss=errors.loss,
        validation_error=errors.validation_error,
        train_error=last.train_error,
        chance_error=last.chance_error,
        in_interval=low <= value <= high,
        meets_target=None if target is None else value <= target,
    )


def _shape(order: "Order", last: Record) -> Shape:
    spec = order.chain.spec
    return Shape(
        family=spec.family,
        depth=spec.depth,
        width=float(spec.width),
        num_classes=order.dataset.num_classes,
        image_shape=order.dataset.train.image_shape,
        density=last.density,
        level=last.level,
    )


def _counts(last: Record, arithmetic: tuple[int, int]) -> Counts:
    alive = last.effective_density
    return Counts(
        parameters=last.parameters,
        weights=last.weights,
        nonzero=last.nonzero,
        stored=last.parameters - last.weights + last.nonzero,
        connected=None if alive is None else round(alive * last.weights),
        multiply_adds=arithmetic[0],
        multiply_adds_kept=arithmetic[1],
    )


def _disk(folder: Path) -> Disk:
    dense, mask, sparse = ((folder / name).stat().st_size for name in (MODEL, MASK, SPARSE))
    return Disk(dense=dense, mask=mask, sparse=sparse)


def _training(order: "Order", records: tuple[Record, ...], about: dict[str, Any]) -> Training:
    spec = order.chain.spec
    kept = ("level", "density", "error", "seconds")
    return Training(
        dataset=spec.dataset,
        data=about["data"],
        num_examples=spec.num_examples,
        recipe=dataclasses.asdict(spec.recipe),
        method=dataclasses.asdict(spec.method),
        replicate=spec.replicate,
        levels=tuple({name: getattr(record, name) for name in kept} for record in records),
        seconds=sum(record.seconds for record in records),
        device=records[-1].device,
        code=records[-1].code,
        environment=about["environment"],
        spec=spec.digest,
    )
