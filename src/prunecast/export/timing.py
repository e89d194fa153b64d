"""Latency on this machine: of a made network and the unpruned one, or of every network of a plan's table.

A network is called for a while to warm up, then again and again for some time, which is divided into parts. The latency
is the median of the calls in the fastest part, with the range from the 10th to the 90th percentile. Weights do not
matter, so networks are timed with their initial ones; levels that have the same layers are timed once.

One thread of a CPU is timed by its processor time, which other programs change little. Several threads and GPUs are
timed by the clock on the wall.
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn

from prunecast import families
from prunecast.errors import PrunecastError, first_line
from prunecast.export.files import build, load_network, read_card
from prunecast.export.onnx import INPUT, exported, missing_module
from prunecast.export.program import example, quiet
from prunecast.pruning import Record, chain_folder
from prunecast.spec import CHANNELS, ChainSpec
from prunecast.sweep import ChainStatus, Plan, chain_statuses, image_facts, inspect
from prunecast.table import RUNTIMES, TIMED_WITH, Runtime, latency_column
from prunecast.text import plain_count

PARTS = 5
"""Latency is measured in so many parts, and the quietest one counts: other programs can only make calls slower."""
FEWEST, MOST = 5, 10_000
"""Calls in a part, however long they take."""
WARM_SHARE = 0.2
"""The warm-up takes this share of the measured time."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long one call of a network takes."""

    runtime: Runtime
    batch: int
    """Images per call."""
    milliseconds: float
    """The median over the calls of the fastest part."""
    low: float
    """The 10th percentile."""
    high: float
    """The 90th percentile."""
    calls: int
    """In all parts; 0 where only the table is known that a run wrote."""


Latencies = tuple[Latency, ...]
"""The latencies of a network, by runtime and batch."""
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

    @property
    def name(self) -> str:
        """The first runtime and batch with the threads, as tables name them."""
        return f"{self.runtimes[0]}-{self.batches[0]}-{self.threads}"

    @property
    def columns(self) -> list[str]:
        """The columns of latencies, each with its runtime and batch."""
        return [latency_column(runtime, batch) for runtime, batch in product(self.runtimes, self.batches)]

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

    made: Latencies
    unpruned: Latencies


@dataclass(frozen=True, kw_only=True)
class TimedLevel:
    """A level of a chain."""

    spec: ChainSpec
    record: Record
    latencies: Latencies


def time_network(model: nn.Module, image_shape: Sequence[int], how: Timing) -> Latencies:
    """Measure a network in every runtime with every batch."""
    shape = tuple(image_shape)
    found = []
    with _threads(how.threads):
        for runtime in how.runtimes:
            prepare = _PREPARED[runtime](model.eval(), shape, how.threads)
            clock = time.thread_time if runtime != "cuda" and how.threads == 1 else time.perf_counter
            for batch in how.batches:
                parts = _measured(prepare(example(shape, batch)), clock, how.seconds)
                low, median, high = np.percentile(min(parts, key=statistics.median), (10, 50, 90)) * 1000
                found.append(
                    Latency(
                        runtime=runtime,
                        batch=batch,
                        milliseconds=float(median),
                        low=float(low),
                        high=float(high),
                        calls=sum(map(len, parts)),
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


Call = Callable[[], object]
"""One call of a network, which has ended when it returns."""
Prepare = Callable[[Tensor], Call]
"""From images to the call that is timed."""


def _torch(model: nn.Module, device: str, finish: Callable[[], object]) -> Prepare:
    """PyTorch on a device; `finish` returns when the device has done what it was given.

    Images are on the device before the call, and logits stay there.
    """
    own = copy.deepcopy(model).to(device)

    def prepare(images: Tensor) -> Call:
        there = images.to(device)

        def call() -> None:
            with torch.inference_mode():
                own(there)
            finish()

        return call

    return prepare


def _cpu(model: nn.Module, _shape: tuple[int, ...], _threads: int) -> Prepare:
    return _torch(model, "cpu", lambda: None)


def _cuda(model: nn.Module, _shape: tuple[int, ...], _threads: int) -> Prepare:
    if not torch.cuda.is_available():
        raise PrunecastError(
            "--runtime cuda needs a GPU, and torch finds none on this machine; measure --runtime torch on the CPU, or "
            "run this command where the GPU is."
        )
    return _torch(model, "cuda", torch.cuda.synchronize)


def _onnx(model: nn.Module, image_shape: tuple[int, ...], threads: int) -> Prepare:
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
    return lambda images: partial(session.run, None, {INPUT: images.numpy()})


_PREPARED: dict[Runtime, Callable[[nn.Module, tuple[int, ...], int], Prepare]] = {
    "torch": _cpu,
    "onnx": _onnx,
    "cuda": _cuda,
}
"""By runtime, from a network, the shape of an image and a number of threads."""


def missing_runtime(runtime: str) -> bool:
    """Whether networks cannot be timed in this runtime here."""
    return (
        bool(missing_module()) if runtime == "onnx" else runtime == "cuda" and not torch.cuda.is_available()
    )


def _measured(call: Call, clock: Callable[[], float], seconds: float) -> list[list[float]]:
    """The seconds of each call in each part of the time, after some calls to warm up."""
    end = time.perf_counter() + WARM_SHARE * seconds
    for _ in range(2):
        call()
    while time.perf_counter() < end:
        call()
    return [_part(call, clock, seconds / PARTS) for _ in range(PARTS)]


def _part(call: Call, clock: Callable[[], float], seconds: float) -> list[float]:
    """The seconds of each call for some time."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < FEWEST or (time.perf_counter() < end and len(found) < MOST):
        began = clock()
        call()
        found.append(clock() - began)
    return found


def time_made(folder: Path, how: Timing) -> TimedNetwork:
    """Measure a network that `prunecast make` wrote, and the unpruned one that it came from."""
    about = read_card(folder)["network"]
    made, unpruned = (
        time_network(model, about["image_shape"], how) for model in (load_network(folder), build(about))
    )
    return TimedNetwork(made=made, unpruned=unpruned)


def trained_chains(plan: Plan, store: Path) -> list[ChainStatus]:
    """The chains of a plan with finished levels, in its order."""
    statuses = chain_statuses(inspect(plan, official=False).plan, store)
    if problem := next((own.problem for own in statuses if own.problem), ""):
        raise PrunecastError(problem)
    return [own for own in statuses if own.records and not own.left_out]


def time_table(
    chains: Sequence[ChainStatus],
    store: Path,
    how: Timing,
    before: Mapping[Level, Latencies] = MappingProxyType({}),
) -> Iterator[TimedLevel]:
    """Measure the network of every finished level; those that were measured `before` are not measured again."""
    known: dict[tuple[object, ...], Latencies] = {}
    for status in chains:
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
    return columns | {latency_column(own.runtime, own.batch): own.milliseconds for own in others}


def fastest(same: Sequence[Latencies]) -> Latencies:
    """Of several measurements of a network, the fastest in each runtime with each batch."""
    return tuple(min(own, key=lambda latency: latency.milliseconds) for own in zip(*same, strict=True))


def latencies_of(row: Mapping[str, str | None], how: Timing) -> Latencies | None:
    """What `latency_columns` wrote into a row; None where networks were not timed, or in another way."""
    return read_latencies(row, how, {how.columns[0]: ("latency_ms", "latency_low_ms", "latency_high_ms")})


def read_latencies(
    row: Mapping[str, str | None],
    how: Timing,
    named: Mapping[str, tuple[str, str, str]] = MappingProxyType({}),
) -> Latencies | None:
    """The latencies in a row; `named` has the columns of median, 10th and 90th percentile where there are several."""
    if row.get(TIMED_WITH) != how.name:
        return None
    found = []
    for column, (runtime, batch) in zip(how.columns, product(how.runtimes, how.batches), strict=True):
        try:
            median, low, high = (float(row.get(own) or "") for own in named.get(column, (column,) * 3))
        except ValueError:
            return None
        found.append(Latency(runtime=runtime, batch=batch, milliseconds=median, low=low, high=high, calls=0))
    return tuple(found)
