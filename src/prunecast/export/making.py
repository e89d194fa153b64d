"""Make a network: train and prune it to the exact density, write it, measure the files, and write its card."""

import copy
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunecast import families
from prunecast.choice import Choice, OtherLatency
from prunecast.data import Dataset
from prunecast.errors import PrunecastError
from prunecast.export import card_text
from prunecast.export.card import (
    Card,
    CardLatency,
    Code,
    Counts,
    Disk,
    Measured,
    Predicted,
    Shape,
    Start,
    Training,
    write_card,
)
from prunecast.export.files import MASK, MODEL, ONNX, SPARSE, filled, write_network
from prunecast.export.model_file import write_program
from prunecast.export.onnx import write_onnx
from prunecast.export.orders import Order, order
from prunecast.export.program import unfused_attention
from prunecast.export.timing import Timing, missing_runtime, time_network
from prunecast.families import INTO_ATTENTION, Weighted, not_prunable
from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.pruning import (
    ChainFolder,
    Masks,
    NOfM,
    Record,
    chain_folder,
    choose_examples,
    dead_layers,
    full_masks,
    make_folder,
    structure_of,
)
from prunecast.spec import CHANNELS, Precision
from prunecast.sweep import (
    Executor,
    OnEvent,
    Plan,
    PlannedChain,
    SweepProgress,
    chain_statuses,
    data_key,
    run_to_end,
    work,
)
from prunecast.table import Table
from prunecast.training import Score, evaluate, settings


def make(
    source: Fit | Table | str | Path,
    plan: Plan,
    folder: Path,
    *,
    on_event: OnEvent | None = None,
    **asked: Any,
) -> Card:
    """Choose a network, train and prune it as the plan says, and write it with its card into a folder.

    Levels that are already in the store are not trained again. `on_event` is called with each level when it is
    finished. `asked` has the options of `order`.
    """
    placed = order(source, plan, folder, **asked)
    train(placed, on_event)
    return finish(placed)


def train(
    order: Order,
    on_event: OnEvent | None = None,
    *,
    progress: SweepProgress | None = None,
    executor: Executor | None = None,
) -> None:
    """Train and prune level by level, continuing from the store, in this process unless `executor` is given."""
    executor = executor or partial(work, device=order.device, loaded={data_key(order.chain): order.dataset})
    done = run_to_end(order.plan, order.store, on_event=on_event, progress=progress, executor=executor)
    if done.failed:
        raise PrunecastError(f"training failed: {done.failed[0].error}")


def finish(order: Order) -> Card:
    """Write a trained network and its card, with the errors that the written files give."""
    status = chain_statuses(order.plan, order.store)[0]
    if status.problem:
        raise PrunecastError(status.problem)
    records = status.records
    _arrived(order, records, status.ended)
    spec = order.chain.spec
    stored = chain_folder(order.store, spec)
    made = made_network(order, records[-1], stored)
    make_folder(order.folder)
    write_network(order.folder, made.network, made.masks, spec.digest)
    measured = measured_by(order, made, records[-1])
    code = write_code(order, made)
    latencies = latencies_of_made(order, made)
    card = Card(
        network=made.shape,
        preprocessing=order.dataset.preprocessing,
        class_names=_class_names(order.dataset),
        question=order.choice.question,
        predicted=predicted(order.choice),
        measured=measured,
        counts=_counts(order, made, records[-1]),
        disk=_disk(order.folder),
        code=code,
        training=_training(order, records, stored.spec()[1]),
        latency=latencies[0] if latencies else None,
        other_latencies=latencies[1:],
    )
    write_card(order.folder, card, card_text.text(card))
    return card


@dataclass(frozen=True, kw_only=True)
class Made:
    """A trained network as it is written: without removed channels, or with zeros for pruned weights."""

    model: nn.Module
    """The untrained module of its shape."""
    network: Mapping[str, Tensor]
    masks: Masks
    shape: Shape
    multiply_adds: tuple[int, int]
    """Multiply-adds of one image, unpruned and pruned."""


def made_network(order: Order, last: Record, stored: ChainFolder) -> Made:
    """The last network of a chain."""
    images = order.dataset.train.image_shape
    whole = stored.network(last.level, order.model.state_dict())
    masks = stored.masks(last.level) if last.level else order.full
    if order.chain.spec.method.structure != CHANNELS:
        products = multiply_adds(order.model, masks, images)
        shape = _shape(order, last)
        return Made(model=order.model, network=whole, masks=masks, shape=shape, multiply_adds=products)
    units = families.find_units(order.model, images)
    kept = units.kept(masks)
    network = {name: units.slice_tensor(name, tensor, kept) for name, tensor in whole.items()}
    sizes = [units.sizes(own).multiply_adds or 0 for own in (units.everything(), kept)]
    return Made(
        model=units.sliced(order.model, kept),
        network=network,
        masks=full_masks({name: network[name] for name in masks}),
        shape=_shape(order, last, units=units.counts(kept)),
        multiply_adds=(sizes[0], sizes[1]),
    )


def _arrived(order: Order, records: tuple[Record, ...], ended: str) -> None:
    """Refuse a chain that ended before the chosen density."""
    last, final = records[-1] if records else None, order.chain.spec.final_nonzero
    assert final is not None, "an order names the weights to keep"
    if last is not None and last.nonzero <= final and last.status == "ok":
        return
    of = "" if order.level is None else f" of {order.level}"
    where = f"at level {last.level}{of}" if last else "before its first level"
    raise PrunecastError(
        f"the network did not reach density {order.choice.answer.density:.4g}: its chain ended {where} "
        f"({ended or 'unfinished'}); try another --replicate, or ask for a smaller --target-error or a higher --density"
    )


def measured_by(order: Order, made: Made, last: Record) -> Measured:
    """Evaluate the network of the files, where the data is and with the recipe's arithmetic."""
    spec, dataset, target = order.chain.spec, order.dataset, order.choice.question.target_error
    device, precision = dataset.test.labels.device, spec.recipe.precision
    model = filled(copy.deepcopy(made.model), order.folder, spec.digest).to(device)
    _, held_out = choose_examples(spec, len(dataset.train))

    def score(source: Any, indices: Any, precision: Precision = precision) -> Score:
        with settings(precision, device, spec.threads):
            return evaluate(model, source, torch.from_numpy(indices), precision)

    everything = np.arange(len(dataset.test))
    test = score(dataset.test, everything)
    validation_error = score(dataset.train, held_out).error if len(held_out) else None
    promised = {Metric.LOSS: test.loss, Metric.VALIDATION_ERROR: validation_error}.get(order.choice.metric)
    value = test.error if promised is None else promised
    low, high = order.choice.answer.interval
    return Measured(
        error=test.error,
        loss=test.loss,
        validation_error=validation_error,
        error_fp32=test.error if precision == "fp32" else score(dataset.test, everything, "fp32").error,
        train_error=last.train_error,
        chance_error=last.chance_error,
        in_interval=low <= value <= high,
        meets_target=None if target is None else value <= target,
    )


def write_code(order: Order, made: Made) -> Code:
    """Write model.py and, if the extra is installed, model.onnx, from the network in the files."""
    model = filled(copy.deepcopy(made.model), order.folder, order.chain.spec.digest)
    how, names = order.dataset.preprocessing, _class_names(order.dataset)
    program = write_program(order.folder, model, made.shape, how, names, order.chain.spec.digest)
    images = made.shape.image_shape
    onnx = write_onnx(order.folder, model, images, how, names, order.chain.spec.digest)
    return Code(
        kind=program.kind,
        image_by_image=program.image_by_image,
        problem=program.problem,
        copied=bool(program.source),
        onnx_image_by_image=onnx.image_by_image,
        onnx_missing=onnx.missing,
        onnx_problem=onnx.problem,
    )


def multiply_adds(
    model: nn.Module, masks: Mapping[str, Tensor], image_shape: tuple[int, ...]
) -> tuple[int, int]:
    """Multiply-adds of one image: of all weights, and of those kept.

    Convolutions, linear and bilinear layers and nn.MultiheadAttention have weights. Other products, as those of queries
    with keys and of attention with values, are counted by running the network; pruning saves none of them.
    """
    uses: list[tuple[str, slice, int]] = []
    names = {id(module): name for name, module in model.named_modules()}

    def weight(module: nn.Module, name: str, places: int, rows: slice = slice(None)) -> None:
        path = names[id(module)]
        uses.append((f"{path}.{name}" if path else name, rows, places))

    def layer(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen = inputs[0] if getattr(module, "transposed", False) else output
        inner = seen.shape[1:-1] if isinstance(module, nn.Linear | nn.Bilinear) else seen.shape[2:]
        weight(module, "weight", math.prod(inner))

    def attention(
        module: nn.MultiheadAttention, inputs: tuple[Tensor, ...], options: dict[str, Any], _: object
    ) -> None:
        given = [*inputs, *(options[name] for name in ("query", "key", "value") if name in options)]
        tokens = [math.prod(tensor.shape[:-1]) for tensor in given[:3]]
        size = module.embed_dim
        for number, name in enumerate(INTO_ATTENTION[1:]):
            if module.in_proj_weight is None:
                weight(module, name, tokens[number])
            else:
                weight(module, INTO_ATTENTION[0], tokens[number], slice(number * size, (number + 1) * size))
        weight(module.out_proj, "weight", tokens[0])

    with torch.no_grad(), _hooks(model, layer, attention):
        model.eval()(torch.zeros(1, *image_shape))
    total = kept = seen = 0
    bilinear = {f"{names[id(own)]}.weight" for own in model.modules() if isinstance(own, nn.Bilinear)}
    for name, rows, places in uses:
        parameter = model.get_parameter(name)[rows]
        total += places * parameter.numel()
        seen += places * parameter.numel() * (name not in bilinear)  # running does not show these
        kept += places * (int(masks[name][rows].sum()) if name in masks else parameter.numel())
    others = max(0, families.multiply_adds(model, image_shape) - seen)
    return total + others, kept + others


@contextmanager
def _hooks(model: nn.Module, layer: Any, attention: Any) -> Iterator[None]:
    """Call functions after the modules that multiply; torch's fused encoder, which calls none of them, is off."""
    inner = {id(module.out_proj) for module in model.modules() if isinstance(module, nn.MultiheadAttention)}
    hooks = [
        module.register_forward_hook(attention, with_kwargs=True)
        if isinstance(module, nn.MultiheadAttention)
        else module.register_forward_hook(layer)
        for module in model.modules()
        if isinstance(module, (*Weighted, nn.Bilinear, nn.MultiheadAttention)) and id(module) not in inner
    ]
    try:
        with unfused_attention():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def latencies_of_made(order: Order, made: Made) -> tuple[CardLatency, ...]:
    """The latencies of a made network in each runtime and batch of the table, the answer's first.

    There are none if the table has none. Runtimes that this machine lacks are left out.
    """
    promised, most = order.choice.answer, order.choice.question.max_latency
    if promised.latency_ms is None:
        return ()
    how = Timing().named(order.choice.timed_with)
    runtime, batch = how.runtimes[0], how.batches[0]
    first = OtherLatency(
        runtime=runtime, batch=batch, milliseconds=promised.latency_ms, interval=promised.latency_interval
    )
    found = []
    for own in (first, *promised.other_latencies):
        if missing_runtime(own.runtime):
            continue
        name = f"{own.runtime}-{own.batch}-{how.threads}"
        (timed,) = time_network(copy.deepcopy(made.model), made.shape.image_shape, how.named(name))
        budget = most if own is first else None
        found.append(
            CardLatency(
                predicted=own.milliseconds,
                interval=own.interval,
                measured=timed.milliseconds,
                low=timed.low,
                high=timed.high,
                runtime=timed.runtime,
                batch=timed.batch,
                threads=how.threads,
                within_budget=None if budget is None else timed.milliseconds <= budget,
            )
        )
    return tuple(found)


def _class_names(dataset: Dataset) -> tuple[str, ...]:
    """The names of the classes, else their numbers; bytes of folder names that are no text are replaced."""
    names = dataset.class_names or map(str, range(dataset.num_classes))
    return tuple(os.fsencode(name).decode(errors="replace") for name in names)


def predicted(choice: Choice) -> Predicted:
    """What was predicted."""
    best = choice.answer
    return Predicted(
        law=choice.law,
        table=choice.table,
        metric=choice.metric,
        value=best.error,
        interval=best.interval,
        probability=best.probability,
        source=best.source,
        findings=choice.findings,
    )


def _shape(order: Order, last: Record, units: Mapping[str, int] | None = None) -> Shape:
    spec = order.chain.spec
    return Shape(
        family=spec.family,
        depth=spec.depth,
        width=float(spec.width),
        num_classes=order.dataset.num_classes,
        image_shape=order.dataset.train.image_shape,
        density=last.density,
        level=last.level,
        units=None if units is None else dict(units),
    )


def _counts(order: Order, made: Made, last: Record) -> Counts:
    structure = structure_of(order.chain.spec.method.structure)(order.model)
    alive, masks = last.effective_density, made.masks
    stored = last.parameters - last.weights + last.nonzero
    if made.shape.units is not None:
        stored = sum(parameter.numel() for parameter in made.model.parameters())
    return Counts(
        parameters=last.parameters,
        weights=last.weights,
        nonzero=last.nonzero,
        stored=stored,
        not_prunable=not_prunable(made.model, masks),
        dead_layers=dead_layers(masks),
        connected=None if alive is None else round(alive * last.weights),
        multiply_adds=made.multiply_adds[0],
        multiply_adds_kept=made.multiply_adds[1],
        kept_dense=structure.kept_dense() if isinstance(structure, NOfM) else (),
    )


def _disk(folder: Path) -> Disk:
    dense, mask, sparse = ((folder / name).stat().st_size for name in (MODEL, MASK, SPARSE))
    onnx = (folder / ONNX).stat().st_size if (folder / ONNX).exists() else None
    return Disk(dense=dense, mask=mask, sparse=sparse, onnx=onnx)


def _training(order: Order, records: tuple[Record, ...], about: dict[str, Any]) -> Training:
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
        split=order.dataset.split,
        start=_start(order.chain),
    )


def _start(chain: PlannedChain) -> Start | None:
    spec = chain.spec
    if spec.start is None:
        return None
    file = "" if chain.start is None else chain.start.name
    return Start(file=file, digest=spec.start, as_it_is=spec.start_trained)
