"""Estimate how long a plan takes on a device: time a few real steps on noise, and count the rest.

    seconds = Σ over chains or packs of (steps · step_seconds + images · image_seconds), + building each shape of pack

Steps and images are those of all levels up to the level cap. The time of a step does not depend on what the images
show. Sizes that were not timed are interpolated by multiply-adds on logarithmic axes. On a GPU the fleet's own code
deals chains into packs and builds them. On a CPU, and where the fleet cannot pack them, chains train one by one.
"""

import functools
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from prunecast import families
from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.data import MOST_OF_DEVICE, Dataset, cores, from_arrays
from prunecast.errors import PrunecastError
from prunecast.fleet import (
    BUDGET,
    BUDGET_ON_CPU,
    STEPS_PER_GRAPH,
    ChainJob,
    FleetOptions,
    Member,
    PackKind,
    PackShape,
    RunnerPool,
    chain_group,
    deal,
    evaluate_pack,
    kind_of,
    renew_copies,
    run_to_the_end,
)
from prunecast.pruning import Chain, Level, Pruned, chain_folder
from prunecast.spec import ChainSpec
from prunecast.sweep.cost import TRAINING_WORK, chain_images, chain_steps, multiply_adds, training_steps
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.inspection import build_network, image_facts, network_arguments
from prunecast.sweep.plan import Plan
from prunecast.sweep.worker import torch_device
from prunecast.training import evaluate, prepare, settings, stepper, timeline, train

LOG = logging.getLogger(__name__)
BYTES_PER_PARAMETER = 12
"""A weight, its gradient and its momentum."""
MOST_TIMED = 4
"""Sizes that are timed per family, dataset and recipe."""
TIMING_SECONDS = 0.4
"""How long one size is timed."""
MOST_SECONDS = 30.0
"""Seconds after which only the largest and the smallest size are still timed."""
COMPILED_DEPTH = 30
"""The largest depth that is timed compiled: compiling takes about a second per layer."""
MOST_WORK = {"cpu": 5e9, "cuda": 2e13}
"""The most multiply-adds of a timed step, well below a second; only part of a larger batch is timed."""
NOISE_IMAGES, EVALUATED_IMAGES = 4096, 512
WORTHWHILE = 1.15
"""The smallest speedup for which more threads are used; timings on a busy machine vary by about 10%."""


@dataclass(frozen=True, kw_only=True)
class TrainingSpeed:
    """The measured speed of one network alone, or of one pack of networks."""

    family: str
    depth: int
    widths: tuple[float, ...]
    batch: int
    mode: str
    """How the steps run: `alone`, or in a pack `eager`, `compiled` or `fused`."""
    step_seconds: float
    image_seconds: float
    """Seconds to evaluate one image with every network."""
    build_seconds: float = 0.0
    uncompiled: bool = False
    """Whether a fleet compiles this pack, which was timed uncompiled to save time."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """The chains of a plan that train in one way."""

    chains: int = 0
    training_runs: int = 0
    """The most there can be, if every chain reaches its level cap."""
    seconds: float = 0.0
    longest: float = 0.0
    """Seconds of the longest of these chains, where each trains alone."""

    def elapsed(self, jobs: int) -> float:
        """Seconds with so many chains at the same time."""
        return max(self.seconds / jobs, self.longest)


@dataclass(frozen=True, kw_only=True)
class Threads:
    """How much faster a network trains on the CPU with more threads."""

    count: int
    speedup: float
    """Of the largest network, over the threads that the plan gives it."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An upper limit of the time that a plan takes."""

    device: str
    networks: tuple[TrainingSpeed, ...] = ()
    alone: Share = Share()
    """Chains that train one after the other."""
    packs: tuple[TrainingSpeed, ...] = ()
    packed: Share = Share()
    """Chains that the fleet packs together."""


@dataclass(frozen=True, kw_only=True)
class TimedWork:
    """The steps and evaluations of one chain, or of a pack of chains, up to the level cap, and how to time them."""

    comparable: tuple[object, ...]
    """Works with the same value are interpolated between."""
    shape: tuple[object, ...]
    """Packs of one shape are built once; empty for chains that train alone."""
    size: float
    steps: int
    images: int
    """Images that every network evaluates."""
    time: Callable[[], TrainingSpeed]


def estimate(plan: Plan, device: str = "cpu", *, fleet: bool | None = None) -> Estimate:
    """Time a few networks or packs of a plan on a device and add up all its training runs.

    Chains count as packed where a sweep packs them, which is on a GPU; `fleet` overrides that.
    """
    place = torch_device(device)
    packing = place.type == "cuda" if fleet is None else fleet
    works, alone = deal_packs(plan.chains, place) if packing else ([], plan.chains)
    unpacked = set(map(id, alone))
    packed = [chain for chain in plan.chains if id(chain) not in unpacked]
    networks, alone_seconds = time_works(_alone(chain, place) for chain in alone)
    packs, packed_seconds = time_works(works)
    return Estimate(
        device=_device_words(place),
        networks=tuple(networks),
        alone=_share(alone, alone_seconds, longest=max(alone_seconds, default=0.0)),
        packs=tuple(packs),
        packed=_share(packed, packed_seconds),
    )


def _share(chains: Sequence[PlannedChain], seconds: Sequence[float], longest: float = 0.0) -> Share:
    runs = sum(chain.rules.level_cap + 1 for chain in chains)
    return Share(chains=len(chains), training_runs=runs, seconds=sum(seconds), longest=longest)


def _device_words(device: torch.device) -> str:
    """The name of the device. Of several GPUs only one is timed, so a sweep takes less."""
    if device.type != "cuda":
        return device.type
    name, count = torch.cuda.get_device_name(device), torch.cuda.device_count()
    return name if count == 1 or device.index is not None else f"one of {count} {name}"


def time_works(works: Iterable[TimedWork]) -> tuple[list[TrainingSpeed], list[float]]:
    """Time a few works of every kind; also the seconds of each work. The first pack of a shape includes building it."""
    groups: dict[tuple[object, ...], list[TimedWork]] = {}
    for work in works:
        groups.setdefault(work.comparable, []).append(work)
    timings, seconds, built = list[TrainingSpeed](), list[float](), set[tuple[object, ...]]()
    began = time.perf_counter()
    for group in groups.values():
        timed: dict[float, TrainingSpeed] = {}
        for work in spread(group):
            if len(timed) < 2 or time.perf_counter() - began < MOST_SECONDS:
                timed[work.size] = work.time()
        timings += [timed[size] for size in sorted(timed)]
        steps = {size: timing.step_seconds for size, timing in timed.items()}
        images = {size: timing.image_seconds for size, timing in timed.items()}
        builds = {size: timing.build_seconds for size, timing in timed.items()}
        for work in group:
            training = work.steps * interpolated(work.size, steps)
            evaluation = work.images * interpolated(work.size, images)
            new = work.shape and work.shape not in built
            seconds.append(training + evaluation + (interpolated(work.size, builds) if new else 0.0))
            built.add(work.shape)
    return timings, seconds


def spread(works: Iterable[TimedWork]) -> list[TimedWork]:
    """The largest work, the smallest, and some evenly between them."""
    by_size = {work.size: work for work in works}
    ordered = [by_size[size] for size in sorted(by_size)]
    places = np.linspace(0, len(ordered) - 1, min(MOST_TIMED, len(ordered))).round().astype(int)
    smallest, *larger = (ordered[place] for place in places)
    return [*larger[-1:], smallest, *larger[:-1]]


def interpolated(size: float, measured: dict[float, float]) -> float:
    """The seconds at a size, on the line through the measured ones on logarithmic axes.

    This line overestimates a fixed time plus a time proportional to the size. Beyond the measured sizes, the nearest
    one counts.
    """
    sizes = sorted(measured)
    seconds = np.log([measured[timed] for timed in sizes])
    return math.exp(float(np.interp(math.log(size), np.log(sizes), seconds)))


def seconds_per_call(function: Callable[[], object]) -> float:
    """The mean time of a call that waits for the device.

    The first call is a warm-up. It counts only if it is so slow that one call is enough.
    """
    began = time.perf_counter()
    function()
    first = time.perf_counter() - began
    if first > 2 * TIMING_SECONDS:
        return first
    began, calls = time.perf_counter(), 0
    while calls < 2 or time.perf_counter() - began < TIMING_SECONDS / 2:
        function()
        calls += 1
    return (time.perf_counter() - began) / calls


def _noise(shape: Sequence[int], num_classes: int, count: int, device: torch.device) -> Dataset:
    """Random images of a shape (channels, height, width)."""
    size = (count, *shape[1:], shape[0])
    images = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
    labels = np.arange(count) % num_classes
    halves = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    return from_arrays(halves, device=device)


def _refuse_too_large(chain: PlannedChain) -> None:
    """Refuse a built-in network whose training does not fit into the memory of this machine."""
    spec = chain.spec
    if ":" in spec.family:
        return
    parameters = architecture(spec.family, **network_arguments(chain)).parameters
    needed, there = BYTES_PER_PARAMETER * parameters, _memory()
    if needed > there:
        raise PrunecastError(
            f"{spec.family} of depth {spec.depth} and width {spec.width:g} has {parameters:,} parameters. Training it "
            f"needs at least {needed / 1e9:,.0f} GB of memory, and this machine has {there / 1e9:,.0f} GB; choose "
            "a smaller width, or leave the estimate out with --no-estimate."
        )


def _memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _alone(chain: PlannedChain, device: torch.device) -> TimedWork:
    """A chain that trains alone."""
    spec = chain.spec
    counted = chain.size.multiply_adds if chain.size else 0
    return TimedWork(
        comparable=(
            spec.family,
            spec.dataset,
            spec.recipe.name,
            timeline(spec.recipe, spec.num_examples).batch,
        ),
        shape=(),
        size=float(counted or multiply_adds(spec.family, spec.depth, spec.width)),
        steps=chain_steps(chain),
        images=chain_images(chain),
        time=partial(time_training, chain, device),
    )


def time_training(chain: PlannedChain, device: torch.device) -> TrainingSpeed:
    """Time real steps and a real evaluation of one network."""
    _refuse_too_large(chain)
    spec, model, (shape, num_classes) = chain.spec, build_network(chain), image_facts(chain)
    whole = timeline(spec.recipe, spec.num_examples).batch
    counted = float(families.multiply_adds(model, shape)) if ":" in spec.family else None
    batch = timed_images(spec, whole, device.type, counted)
    data = _noise(shape, num_classes, 2 * batch, device)
    recipe = replace(spec.recipe, batch_size=batch)
    trainer = prepare(model, families.prunable(model), recipe, 0, data.train, np.arange(2 * batch))
    advance = stepper(trainer)
    everything = torch.arange(len(data.test))
    with settings(recipe.precision, device, spec.threads):
        two_steps = seconds_per_call(lambda: train(trainer, advance, 0, 2))
        test = seconds_per_call(lambda: evaluate(trainer.model, data.test, everything, recipe.precision))
    return TrainingSpeed(
        family=spec.family,
        depth=spec.depth,
        widths=(spec.width,),
        batch=whole,
        mode="alone",
        step_seconds=two_steps / 2 * whole / batch,
        image_seconds=test / len(data.test),
    )


def speedup(chain: PlannedChain, threads: int) -> float:
    """How many times faster a network trains on the CPU with so many threads than with its own number."""
    threaded = replace(chain, spec=replace(chain.spec, threads=threads))
    own, other = (time_training(one, torch.device("cpu")).step_seconds for one in (chain, threaded))
    return own / other


def more_threads(plan: Plan, jobs: int) -> Threads | None:
    """The threads per chain that use the cores which `jobs` chains at a time leave idle, if that is faster."""
    largest = max(plan.chains, key=lambda chain: _alone(chain, torch.device("cpu")).size)
    count = 1 << max(0, (cores() // jobs).bit_length() - 1)
    if count <= largest.spec.threads:
        return None
    gain = speedup(largest, count)
    return Threads(count=count, speedup=gain) if gain >= WORTHWHILE else None


def timed_images(spec: ChainSpec, batch: int, device: str, per_image: float | None = None) -> int:
    """How many images of a batch to time: all, unless a step would take too long. Batch norm needs two.

    `per_image` is the number of multiply-adds of a user's own network, counted by running it.
    """
    family, pixels = FAMILIES.get(spec.family), 1.0
    if family is not None and spec.image_size is not None:
        pixels = spec.image_size**2 / (family.image_shape[1] * family.image_shape[2])
    known = multiply_adds(spec.family, spec.depth, spec.width) * pixels
    work = TRAINING_WORK * max(1.0, per_image if per_image is not None else known)
    return min(batch, max(2, int(MOST_WORK.get(device, MOST_WORK["cpu"]) / work)))


def deal_packs(
    chains: Sequence[PlannedChain], device: torch.device, options: FleetOptions | None = None
) -> tuple[list[TimedWork], list[PlannedChain]]:
    """Group chains and deal them into packs as the fleet does; also the chains that it cannot pack."""
    options = options or FleetOptions(budget=BUDGET if device.type == "cuda" else BUDGET_ON_CPU)
    pool = RunnerPool([chain.spec for chain in chains], options, packs=1)
    groups, alone = _groups(chains, device, pool)
    works: list[TimedWork] = []
    for members in sorted(groups, key=lambda members: members[0].level.last, reverse=True):
        first, kind = chains[members[0].number], kind_of(members[0].chain)
        for part in deal(members, pool.budget(kind, members) or BUDGET):
            shape = pool.whole_shape(kind, part)
            work = TimedWork(
                comparable=(kind.family, kind.dataset, kind.recipe, kind.batch),
                shape=(kind, shape),
                # The memory that a step reads and writes grows with the width, not with its square.
                size=multiply_adds(kind.family, kind.depth, 1.0) * sum(shape),
                steps=chain_steps(first),
                images=chain_images(first),
                time=partial(time_pack, kind, shape, part[0].chain, pool),
            )
            works.append(work)
    return works, alone


def _groups(
    chains: Sequence[PlannedChain], device: torch.device, pool: RunnerPool
) -> tuple[list[list[Member]], list[PlannedChain]]:
    """Groups of chains that train together at every level, and the chains that the fleet cannot pack."""
    noise, networks = functools.cache(_noise), dict[tuple[object, ...], nn.Module]()
    groups, alone = dict[tuple[object, ...], list[Member]](), list[PlannedChain]()
    for number, planned in enumerate(chains):
        spec = planned.spec
        if planned.devices > 1 or not fits(planned, device):
            alone.append(planned)
            continue
        data = noise(*image_facts(planned), NOISE_IMAGES, device)
        key = spec.family, spec.depth, data
        if key not in networks:
            _refuse_too_large(planned)
            networks[key] = build_network(planned)
        member = _member(number, planned, data, networks[key])
        if pool.add(kind := kind_of(member.chain), member.chain):
            width = None if pool.mixes(kind) else spec.width
            group = chain_group(spec), width, planned.rules.level_cap, training_steps(spec, 1)
            groups.setdefault(group, []).append(member)
        else:
            alone.append(planned)
    return list(groups.values()), alone


def fits(planned: PlannedChain, device: torch.device) -> bool:
    """Whether a chain's data fits on the device. Data that is neither known by name nor read is assumed to fit."""
    spec, facts = planned.spec, planned.facts
    known = find_dataset(spec.dataset, spec.loader)
    if known is not None and known.streamed and spec.loader in (None, known.name):
        return False
    if facts is None or device.type != "cuda":
        return True
    pixels = facts.train_examples * math.prod(facts.shape_at(spec.image_size))
    return pixels <= MOST_OF_DEVICE * torch.cuda.mem_get_info(device)[0]


def _member(number: int, planned: PlannedChain, data: Dataset, network: nn.Module) -> Member:
    """A chain before its first level, with no examples chosen."""
    spec, none = planned.spec, np.zeros(0, dtype=np.int64)
    chain = Chain(
        spec=spec,
        folder=chain_folder(Path(), spec),
        dataset=data,
        untrained=network,
        prunable=(),
        examples=none,
        validation=none,
        times=timeline(spec.recipe, spec.num_examples),
    )
    counts, last = Pruned(nonzero=0, alive=None, connected=None), training_steps(spec, 0)
    level = Level(level=0, masks={}, counts=counts, network={}, first=0, last=last)
    job = ChainJob(spec=spec, rules=planned.rules, dataset=lambda: data)
    return Member(number=number, job=job, chain=chain, records=(), level=level)


def time_pack(kind: PackKind, shape: PackShape, chain: Chain, pool: RunnerPool) -> TrainingSpeed:
    """Time real steps and a real evaluation of one pack.

    A pack too large for the memory counts as its halves one after the other, which is how the fleet trains it.
    """
    try:
        return _timed(kind, shape, chain, pool)
    except torch.OutOfMemoryError as failure:
        if len(shape) == 1:
            raise PrunecastError(
                f"{kind.family} of depth {kind.depth} and width {shape[0]:g} does not fit into the memory of "
                f"{kind.device}; remove it from the plan, or give its recipe a smaller batch."
            ) from failure
    finally:
        if kind.device.type == "cuda":
            torch.cuda.empty_cache()
    LOG.warning("A pack of width %g does not fit into the memory of %s.", sum(shape), kind.device)
    half = time_pack(kind, shape[::2], chain, pool)
    ratio = sum(shape) / sum(shape[::2])
    step, image = ratio * half.step_seconds, ratio * half.image_seconds
    return replace(half, widths=shape, step_seconds=step, image_seconds=image)


def _timed(kind: PackKind, shape: PackShape, chain: Chain, pool: RunnerPool) -> TrainingSpeed:
    began = time.perf_counter()
    with settings(kind.recipe.precision, kind.device, 1, trials=False):
        runner = pool.build(kind, shape, chain, may_compile=kind.depth <= COMPILED_DEPTH)
        built, trainer = time.perf_counter(), runner.trainer

        def advance(steps: int) -> None:
            trainer.cursor.zero_()
            runner.advance(steps)
            runner.synchronize()

        def test() -> None:
            indices = np.tile(np.arange(EVALUATED_IMAGES), (trainer.pack.slots, 1))
            run_to_the_end(evaluate_pack(runner, trainer.source, indices))

        with runner.current():
            with torch.no_grad():  # zeros are faster on a GPU; the learning rate stays zero
                for parameter in trainer.parameters:
                    parameter.uniform_(-0.05, 0.05)
                trainer.order.random_(0, len(trainer.source))
            renew_copies(trainer)
            steps = min(STEPS_PER_GRAPH, len(trainer.rates))
            step = seconds_per_call(partial(advance, steps)) / steps
            image = seconds_per_call(test) / EVALUATED_IMAGES
    return TrainingSpeed(
        family=kind.family,
        depth=kind.depth,
        widths=shape,
        batch=kind.batch,
        mode=runner.mode,
        step_seconds=step,
        image_seconds=image,
        build_seconds=built - began,
        uncompiled=pool.compiles(kind, shape) and runner.mode != "compiled",
    )
