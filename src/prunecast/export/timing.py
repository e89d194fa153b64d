"""Latency on this machine: of a made network and the unpruned one, or of every network of a plan's table.

A network is called for a while to warm up, then again and again for some time. The latency is the median of these
calls, with the range from the 10th to the 90th percentile. The values of weights do not matter, so networks are timed
with their initial ones; levels that have the same layers are timed once.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from prunecast import families
from prunecast.errors import PrunecastError, first_line
from prunecast.export.files import build, load_network, read_card
from prunecast.export.onnx import INPUT, exported, missing_module
from prunecast.export.program import example, quiet
from prunecast.pruning import Record, chain_folder
from prunecast.spec import CHANNELS, ChainSpec
from prunecast.sweep import Plan, chain_statuses, image_facts, inspect
from prunecast.text import plain_count

Runtime = Literal["torch", "onnx"]
RUNTIMES: tuple[Runtime, ...] = ("torch", "onnx")
FEWEST, MOST = 10, 10_000
"""The least number of calls, however long they take."""
WARM_SHARE = 0.2
"""The warm-up takes this share of the measured time."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long one call of a network takes."""

    runtime: Runtime
    batch: int
    """Images per call."""
    milliseconds: float
    """The median over all calls."""
    low: float
    """The 10th percentile."""
    high: float
    """The 90th percentile."""
    calls: int
    """0 where only the table is known that a run wrote."""


Level = tuple[str, int]
"""A chain's digest and the number of a level."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How to measure."""

    runtimes: tuple[Runtime, ...] = ("torch",)
    batches: tuple[int, ...] = (1,)
    threads: int = 1
    seconds: float = 0.5
    """Of every network, runtime and batch."""
    clock: Callable[[], float] = time.perf_counter
    """The clock; with one thread, `time.thread_time` leaves out other programs."""

    @property
    def name(self) -> str:
        """The first runtime and batch with the threads, as tables name them."""
        return f"{self.runtimes[0]}-{self.batches[0]}-{self.threads}"

    def named(self, name: str) -> "Timing":
        """The same with the runtime, batch and threads that a table names; unchanged if it names none."""
        runtime, batch, threads = (*name.split("-"), "", "")[:3]
        known = next((own for own in RUNTIMES if own == runtime), None)
        images, cores = plain_count(batch, digits=5), plain_count(threads, digits=3)
        if known is None or not images or not cores or name.count("-") != 2:
            return self
        return replace(self, runtimes=(known,), batches=(images,), threads=cores)

    def __post_init__(self) -> None:
        """Refuse what cannot be measured."""
        if min(self.batches, default=0) < 1:
            raise PrunecastError("a batch has at least one image; give a positive number.")
        if not 0 < self.seconds < float("inf"):
            raise PrunecastError(f"seconds is {self.seconds:g}; give a positive number.")


@dataclass(frozen=True, kw_only=True)
class TimedNetwork:
    """A made network and the unpruned one of its depth and width."""

    made: tuple[Latency, ...]
    unpruned: tuple[Latency, ...]


@dataclass(frozen=True, kw_only=True)
class TimedLevel:
    """A level of a chain."""

    spec: ChainSpec
    record: Record
    latencies: tuple[Latency, ...]


def time_network(model: nn.Module, image_shape: Sequence[int], how: Timing) -> tuple[Latency, ...]:
    """Measure a network on the CPU, in every runtime with every batch."""
    model = model.eval()
    found = []
    with _threads(how.threads):
        for runtime in how.runtimes:
            call = _torch(model) if runtime == "torch" else _onnx(model, tuple(image_shape), how.threads)
            for batch in how.batches:
                images = example(tuple(image_shape), batch)
                seconds = _measured(lambda call=call, images=images: call(images), how)  # type: ignore[misc]
                low, median, high = np.percentile(seconds, (10, 50, 90)) * 1000
                found.append(
                    Latency(
                        runtime=runtime,
                        batch=batch,
                        milliseconds=float(median),
                        low=float(low),
                        high=float(high),
                        calls=len(seconds),
                    )
                )
    return tuple(found)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch(model: nn.Module) -> Callable[[Any], object]:
    def call(images: Any) -> object:
        with torch.inference_mode():
            return model(images)

    return call


def _onnx(model: nn.Module, image_shape: tuple[int, ...], threads: int) -> Callable[[Any], object]:
    """ONNX Runtime with a network that is exported for batches of any size."""
    if missing := missing_module():
        raise PrunecastError(
            f"--runtime onnx needs {missing}: pip install 'prunecast[onnx]', or measure torch alone."
        )
    import onnxruntime

    try:
        data = exported(model, image_shape)
    except Exception as failure:  # torch.onnx raises anything
        raise PrunecastError(
            f"torch.onnx cannot export this network ({first_line(failure)}); measure --runtime torch alone."
        ) from failure
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    with quiet():
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def call(images: Any) -> object:
        result: object = session.run(None, {INPUT: images.numpy()})
        return result

    return call


def _measured(call: Callable[[], object], how: Timing) -> list[float]:
    """The seconds of each call, after some calls to warm up."""
    end = time.perf_counter() + WARM_SHARE * how.seconds
    for _ in range(2):
        call()
    while time.perf_counter() < end:
        call()
    found: list[float] = []
    end = time.perf_counter() + how.seconds
    while len(found) < FEWEST or (time.perf_counter() < end and len(found) < MOST):
        began = how.clock()
        call()
        found.append(how.clock() - began)
    return found


def time_made(folder: Path, how: Timing) -> TimedNetwork:
    """Measure a network that `prunecast make` wrote, and the unpruned one that it came from."""
    about = read_card(folder)["network"]
    made, unpruned = (
        time_network(model, about["image_shape"], how) for model in (load_network(folder), build(about))
    )
    return TimedNetwork(made=made, unpruned=unpruned)


def time_table(
    plan: Plan, store: Path, how: Timing, before: Mapping[Level, tuple[Latency, ...]] = MappingProxyType({})
) -> Iterator[TimedLevel]:
    """Measure the network of every finished level, in the order of the plan.

    Levels that were measured `before` are not measured again, unless all were.
    """
    statuses = chain_statuses(inspect(plan, official=False).plan, store)
    shown = [own for own in statuses if not own.left_out]
    if {(own.chain.spec.digest, record.level) for own in shown for record in own.records} <= before.keys():
        before = {}
    known: dict[tuple[object, ...], tuple[Latency, ...]] = {}
    for status in statuses:
        if status.problem:
            raise PrunecastError(status.problem)
        if status.left_out or not status.records:
            continue
        spec, (shape, num_classes) = status.chain.spec, image_facts(status.chain)
        whole = build({**vars(spec), "num_classes": num_classes, "image_shape": shape})
        for record in status.records:
            model, left = whole, ()
            if spec.method.structure == CHANNELS and record.level:
                units = families.find_units(whole, shape)
                kept = units.kept(chain_folder(store, spec).masks(record.level))
                model, left = units.sliced(whole, kept), tuple(units.counts(kept).values())  # type: ignore[assignment]
            key = (spec.family, spec.depth, spec.width, num_classes, shape, left)
            if (spec.digest, record.level) in before:
                known.setdefault(key, before[spec.digest, record.level])
            if key not in known:
                known[key] = time_network(model, shape, how)
            yield TimedLevel(spec=spec, record=record, latencies=known[key])


def latency_columns(latencies: Sequence[Latency], how: Timing) -> dict[str, float | str]:
    """The columns of a table's row: the first latency with its range, how it was timed, the medians of the others."""
    first, *others = latencies
    columns: dict[str, float | str] = {
        "latency_ms": first.milliseconds,
        "latency_low_ms": first.low,
        "latency_high_ms": first.high,
        "timed_with": how.name,
    }
    return columns | {f"latency_ms_{own.runtime}_{own.batch}": own.milliseconds for own in others}


def latencies_of(row: Mapping[str, str | None], how: Timing) -> tuple[Latency, ...] | None:
    """What `latency_columns` wrote into a row; None where networks were not timed, or in another way."""
    if row.get("timed_with") != how.name:
        return None
    found = []
    for place, (runtime, batch) in enumerate(product(how.runtimes, how.batches)):
        other = f"latency_ms_{runtime}_{batch}"
        columns = (other, other, other) if place else ("latency_ms", "latency_low_ms", "latency_high_ms")
        try:
            median, low, high = (float(row.get(column) or "") for column in columns)
        except ValueError:
            return None
        found.append(Latency(runtime=runtime, batch=batch, milliseconds=median, low=low, high=high, calls=0))
    return tuple(found)
