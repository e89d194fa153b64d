"""A plan for a network and data of your own: sizes that can be built, a recipe, and as much as fits into a time.

    seconds of a chain = steps · step_seconds + images · image_seconds + runs · 0.3

Chains train in the order of the plan, as many at a time as the cores allow. A chain gets more threads where that is
faster: where there are fewer chains than cores.

Every network of the grid is timed on the device. The richest grid that fits is taken; what is left of the time goes
into longer training. Chains that fall to chance or are disconnected end before their last level, so this is an upper
limit.
"""

import dataclasses
import heapq
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torch.nn.modules.batchnorm import _BatchNorm

from prunecast import families
from prunecast.catalog import (
    FAMILIES,
    VIT_PATCH_SIZES,
    DatasetFacts,
    Shape,
    dataset_names,
    find_dataset,
    own_dataset,
    vit_family,
)
from prunecast.data import Split, cores, load, survey
from prunecast.errors import PrunecastError
from prunecast.pruning import StopRules
from prunecast.spec import ChainSpec, Recipe, method
from prunecast.sweep.cost import chain_images, chain_steps
from prunecast.sweep.estimation import WORTHWHILE, TrainingSpeed, speedup, time_training
from prunecast.sweep.grid import VIT, PlannedChain
from prunecast.sweep.inspection import facts_of, size_of
from prunecast.sweep.run import usual_jobs
from prunecast.sweep.worker import torch_device
from prunecast.text import duration, normalized

T = TypeVar("T")
BASE_DEPTHS = (6, 8, 4, 3, 5, 2, 10, 7, 9, 12, 11, 14, 16, 18, 20, 26, 34, 50, 121, 1)
"""Depths that are tried until one can be built."""
MOST_TRIED = 8
"""Depths that are tried around a wanted one."""
CHANNELS = 32
"""The width that is tried first where a function takes a number of channels."""
LARGE_IMAGE = 96
"""Images of one size up to this keep it."""
IMAGE_SIZES = (64, 32, 96, 128, 224)
"""Sizes that other images are resized to, until the network accepts one; those that enlarge them come last."""
MOST_TOKENS = 64
STEPS, EPOCHS = 2000, (8, 100)
"""Steps that a training run should have, and the fewest and most epochs for them."""
MOST_EPOCHS = 160
MOST_LEVELS = 30
LEAST_LEVELS = 12
WEIGHTS_LEFT = 30
"""Weights that the last level of the largest network should have at most, so that it is at chance."""
ENOUGH_TO_DIVIDE = 2000
"""Training images from which a quarter of them is worth a configuration of its own."""
RUN_SECONDS = 0.3
"""Seconds that a training run takes besides its steps: opening, pruning, writing."""
SPARE = 0.9
"""The share of the time that is planned."""


@dataclass(frozen=True, kw_only=True)
class ProposedData:
    """The data of a proposal, as a plan names it."""

    dataset: str
    loader: str | None = None
    root: Path | None = None
    image_size: int | None = None
    facts: DatasetFacts
    split: Split | None = None
    """How prunecast splits it; None if it has a test set."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A plan in numbers."""

    family: str
    data: ProposedData
    depths: tuple[int, ...]
    widths: tuple[float, ...]
    takes: tuple[str, ...]
    """Which of depth and width the family has."""
    possible: int
    """Sizes of networks that it can compare, given enough time."""
    shares: tuple[str, ...]
    """Numbers of examples as shares of all."""
    replicates: int
    level_cap: int
    recipe: Recipe
    seconds: float
    """At most, on the device."""
    device: str
    jobs: int
    """Chains at a time."""
    threads: int = 1
    """Of a chain on the CPU."""


@dataclass(frozen=True, kw_only=True)
class Rung:
    """The sizes of a candidate plan, counted from the most important one, and its replicates and levels."""

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    shares: int = 1
    replicates: int = 1
    most_levels: int = MOST_LEVELS


RUNGS = (
    Rung(depths=(0, 1, 2), widths=(0, 1, 2), shares=2, replicates=3),
    Rung(depths=(0, 1, 2), widths=(0, 1, 2), shares=2, replicates=2),
    Rung(depths=(0, 1, 2), widths=(0, 1, 2), replicates=2),
    Rung(depths=(0, 1), widths=(0, 1, 2), replicates=2),
    Rung(depths=(0, 1), widths=(0, 1, 2)),
    Rung(depths=(0, 1), widths=(0, 1)),
    Rung(depths=(0,), widths=(0, 1, 2), most_levels=20),
    Rung(depths=(0,), widths=(0, 1), most_levels=20),
    Rung(depths=(1,), widths=(0, 1, 2), most_levels=20),
    Rung(depths=(1,), widths=(1, 2), most_levels=20),
    Rung(depths=(1,), widths=(1, 2), most_levels=14),
    Rung(depths=(1,), widths=(2,), most_levels=14),
)
"""Candidate plans, the largest first; a size that a family lacks is left out or replaced by the nearest."""


def propose(
    family: str,
    data: str,
    *,
    hours: float = 1.0,
    device: str = "cpu",
    image_size: int | None = None,
    jobs: int | None = None,
    on_timing: Callable[[int, int], None] = lambda number, networks: None,
) -> Proposal:
    """The richest plan for a family on a folder, an archive, arrays, a function or a named dataset that fits.

    `on_timing` is called before each network is timed, with its number and how many there are.
    """
    place = torch_device(device)
    family, found, sizes = _match(family, data, image_size)
    recipe, chains = _recipe(sizes, found.facts), jobs or usual_jobs(device)
    grid = list(itertools.product(sizes.depths, sizes.widths))
    timings: dict[tuple[int, float], TrainingSpeed] = {}
    for number, size in enumerate(grid, 1):
        on_timing(number, len(grid))
        spec = _spec(sizes, found, recipe, *size, found.facts.train_examples)
        timings[size] = time_training(spec, place, found.facts)
    largest = _spec(sizes, found, recipe, max(sizes.depths), max(sizes.widths), found.facts.train_examples)
    speeds = _speeds(largest, found.facts) if device == "cpu" else {1: 1.0}
    candidates = [
        dataclasses.replace(candidate, family=family, device=device)
        for candidate in _candidates(sizes, found, recipe, timings, chains, speeds)
    ]
    for candidate in candidates:
        if candidate.seconds <= SPARE * 3600 * hours:
            return candidate
    least = min(candidates, key=lambda candidate: candidate.seconds)
    remedy = f"give --hours {math.ceil(least.seconds / SPARE / 360) / 10:g}, a smaller --image-size or a GPU"
    raise PrunecastError(
        f"the smallest plan for {family} takes up to {duration(least.seconds)} on {device}; {remedy}."
    )


@dataclass(frozen=True, kw_only=True)
class FamilySizes:
    """The depths and widths that a family is measured at, the most important first in each."""

    family: str
    depths: tuple[int, ...]
    widths: tuple[float, ...]
    takes: tuple[str, ...]
    weights: int
    """Of the largest network."""
    normalised: bool
    """Whether it has batch norm."""


def _match(family: str, data: str, image_size: int | None) -> tuple[str, ProposedData, FamilySizes]:
    """Data at the first size of images that the family accepts."""
    problem: PrunecastError | None = None
    for found in _datasets(data, image_size):
        shape, classes = found.facts.image_shape, found.facts.num_classes
        try:
            name = _with_patches(shape) if family == VIT else family
            if found.loader == "folder":  # reading the images shows whether the plan can run
                found = _loaded(found.dataset, found.loader, found.root, found.image_size)
            return name, found, _sizes(name, shape, classes)
        except PrunecastError as refusal:
            problem = problem or refusal
    assert problem is not None
    raise problem


def _with_patches(shape: Shape) -> str:
    """The ViT with the smallest patches that fill an image and are not too many."""
    fitting = [size for size in VIT_PATCH_SIZES if not (shape[1] % size or shape[2] % size)]
    few = [size for size in fitting if shape[1] * shape[2] <= MOST_TOKENS * size**2]
    if not fitting:
        raise PrunecastError(
            f"images of {shape[1]}x{shape[2]} pixels cannot be cut into patches; give an --image-size such as 64."
        )
    return vit_family(few[0] if few else fitting[-1])


def _datasets(data: str, image_size: int | None) -> Iterator[ProposedData]:
    """The data at one size of images after another; that of a folder is not decoded yet."""
    path = Path(data).expanduser()
    if ":" in data:
        facts = own_dataset(data)
        name = facts.name if facts is not None else data.partition(":")[0].rpartition(".")[2]
        yield _loaded(name, loader=data, image_size=image_size)
    elif path.exists():
        yield from _files(path.resolve(), image_size)
    elif (known := find_dataset(data)) is not None:
        facts = dataclasses.replace(known, image_shape=known.shape_at(image_size))
        yield ProposedData(dataset=known.name, image_size=image_size, facts=facts)
    else:
        raise PrunecastError(
            f"there is no {data}; give a folder or an archive of images, an .npz file, module:function, or one of "
            f"{', '.join(dataset_names())}."
        )


def _files(path: Path, image_size: int | None) -> Iterator[ProposedData]:
    official = next(
        (facts for facts in map(find_dataset, dataset_names()) if facts and path.name in facts.files), None
    )
    if official is not None:
        yield _loaded(official.name, root=path, image_size=image_size)
        return
    name = path.name.partition(".")[0] or "images"
    taken = normalized(name) in map(normalized, (*dataset_names(), "folder", "arrays"))
    dataset = f"{name}-images" if taken else name
    if path.suffix == ".npz" or (path / "train_images.npy").exists():
        yield _loaded(dataset, loader="arrays", root=path, image_size=image_size)
        return
    seen = survey(path)
    width, height = min(seen.sizes)
    one = len(seen.sizes) == 1 and max(width, height) <= LARGE_IMAGE
    usual = sorted(IMAGE_SIZES, key=lambda size: size > max(seen.shorter_side, min(IMAGE_SIZES)))
    sizes: Sequence[int | None] = (image_size,) if image_size else (None, *usual) if one else usual
    for size in sizes:
        facts = DatasetFacts(
            name=dataset,
            num_classes=seen.num_classes,
            chance_error=seen.chance_error,
            image_shape=(3, size or height, size or width),
            train_examples=seen.train_examples,
            test_examples=seen.test_examples,
        )
        yield ProposedData(
            dataset=dataset, loader="folder", root=path, image_size=size, facts=facts, split=seen.split
        )


def _loaded(
    dataset: str, loader: str | None = None, root: Path | None = None, image_size: int | None = None
) -> ProposedData:
    data = load(loader or dataset, root=root, image_size=image_size)
    return ProposedData(
        dataset=dataset,
        loader=loader,
        root=root,
        image_size=image_size,
        facts=facts_of(dataset, data),
        split=data.split,
    )


def _sizes(family: str, shape: Shape, num_classes: int) -> FamilySizes:
    """Find by trying which depths and widths a family has."""
    problems: list[PrunecastError] = []

    def weights(depth: int, width: float) -> int | None:
        try:
            return size_of(family, depth, width, num_classes, shape).weights
        except PrunecastError as problem:
            problems.append(problem)
            return None

    users_own = ":" in family
    arguments = families.arguments(family) if users_own else ("depth", "width")
    takes = tuple(name for name in arguments if name in ("depth", "width"))
    given = _defaults(family) if users_own else {}
    if "depth" not in takes:
        depths = [1]
    elif "depth" in given:
        depths = [int(given["depth"])]
    else:
        depths = [depth for depth in BASE_DEPTHS if users_own or depth in FAMILIES[family].depths]
    width = given.get("width", 1)
    depth = next((depth for depth in depths if weights(depth, width) is not None), None)
    if depth is None:
        raise problems[0]
    others = _other_depths(depth) if "depth" in takes else ()
    found = _different(depth, others, lambda other: weights(other, width))
    narrower = _narrower_widths(width) if "width" in takes else ()
    widths = _different(width, narrower, lambda other: weights(depth, other))
    largest = weights(max(found), max(widths))
    model = families.build(family, depth=depth, width=width, num_classes=num_classes, image_shape=shape)
    normalised = any(isinstance(module, _BatchNorm) for module in model.modules())
    return FamilySizes(
        family=family,
        depths=found,
        widths=widths,
        takes=takes,
        weights=largest or weights(depth, width) or 1,
        normalised=normalised,
    )


def _defaults(family: str) -> dict[str, float]:
    """The depth and the width that a user's own function has by default; a width in channels also without one."""
    found: dict[str, float] = {}
    for name, parameter in inspect.signature(families.find(family)).parameters.items():
        if name in ("depth", "width") and isinstance(parameter.default, int | float):
            found[name] = parameter.default
        elif name == "width" and parameter.annotation in (int, "int"):
            found[name] = CHANNELS
    return found


def _different(base: T, others: Iterable[Sequence[T]], weights: Callable[[T], int | None]) -> tuple[T, ...]:
    """The base and, of each of the others, the first size whose network has another number of weights."""
    known = {base: weights(base)}
    for sizes in others:
        for size in sizes:
            count = weights(size)
            if count is not None and count not in known.values():
                known[size] = count
                break
    return tuple(known)


def _other_depths(base: int) -> Iterator[list[int]]:
    """Depths around half of the base, and around twice of it."""
    for wanted, values in ((base / 2, range(1, base)), (base * 2, range(base + 1, 3 * base + 1))):
        yield sorted(values, key=lambda depth: abs(depth - wanted))[:MOST_TRIED]


def _narrower_widths(base: float) -> Iterator[list[float]]:
    """Widths of about half and of about a quarter of the base; numbers of channels stay whole."""
    whole = isinstance(base, int) and base > 1
    for factors in ((1 / 2, 3 / 4, 2 / 3), (1 / 4, 1 / 3, 3 / 8)):
        yield [max(1, round(factor * base)) if whole else factor * base for factor in factors]


def _recipe(sizes: FamilySizes, facts: DatasetFacts) -> Recipe:
    """SGD for networks with batch norm, AdamW for others; the learning rate falls along a cosine.

    A user's own network keeps its initial weights: they belong to its design, above all in transformers.
    """
    batch = 8
    while batch < 128 and 16 * batch <= facts.train_examples:
        batch *= 2
    steps = max(1, facts.train_examples // batch)
    epochs = float(min(max(round(STEPS / steps), EPOCHS[0]), EPOCHS[1]))
    optimizer = (
        {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 1e-4}
        if sizes.normalised
        else {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.05, "weight_decay_on": "weights"}
    )
    photos = facts.image_shape[0] == 3 and min(facts.image_shape[1:]) >= 32
    base = Recipe(
        name="init",
        epochs=epochs,
        batch_size=batch,
        schedule="cosine",
        initial_weights="own" if ":" in sizes.family else "he-uniform",
        augmentation="flip-shift" if photos else "none",
        **optimizer,  # type: ignore[arg-type]
    )
    return _lasting(base, epochs)


def _lasting(recipe: Recipe, epochs: float) -> Recipe:
    """The recipe with so many epochs; warm-up and rewind point are a sixteenth of it, as in the paper."""
    early = round(epochs / 16, 2)
    return dataclasses.replace(recipe, epochs=epochs, warmup=early, rewind=early)


def _spec(
    sizes: FamilySizes, found: ProposedData, recipe: Recipe, depth: int, width: float, examples: int
) -> ChainSpec:
    return ChainSpec(
        family=sizes.family,
        dataset=found.dataset,
        loader=found.loader,
        image_size=found.image_size,
        recipe=recipe,
        method=method("imp"),
        depth=depth,
        width=width,
        num_examples=examples,
    )


def _candidates(
    sizes: FamilySizes,
    found: ProposedData,
    recipe: Recipe,
    timings: dict[tuple[int, float], TrainingSpeed],
    jobs: int,
    speeds: dict[int, float],
) -> Iterator[Proposal]:
    """Plans from the richest to the least; each first with the longest training."""
    fraction = method("imp").fraction
    to_chance = math.ceil(math.log(max(2.0, sizes.weights / WEIGHTS_LEFT)) / -math.log(1 - fraction))
    for rung in RUNGS:
        shares = ("all", "1/4")[: rung.shares if found.facts.train_examples >= ENOUGH_TO_DIVIDE else 1]
        cap = min(max(LEAST_LEVELS, to_chance), rung.most_levels)
        depths, widths = _chosen_depths(sizes.depths, rung.depths), _chosen(sizes.widths, rung.widths)
        grid = [(depth, width) for depth in depths for width in widths]
        for factor in (4, 2, 1, 0.5, *([0.25] if rung is RUNGS[-1] else [])):
            if factor > 1 and factor * recipe.epochs > MOST_EPOCHS:
                continue
            longer = _lasting(recipe, factor * recipe.epochs)
            seconds = [
                _seconds(sizes, found, longer, size, share, cap, timings)
                for size in grid
                for share in shares
                for _ in range(rung.replicates)
            ]
            threads, at_once, elapsed = _fastest(seconds, jobs, speeds)
            yield Proposal(
                family=sizes.family,
                data=found,
                depths=tuple(sorted(depths)),
                widths=tuple(sorted(widths)),
                takes=sizes.takes,
                possible=len(sizes.depths) * len(sizes.widths),
                shares=shares,
                replicates=rung.replicates,
                level_cap=cap,
                recipe=longer,
                seconds=elapsed,
                device="",
                jobs=at_once,
                threads=threads,
            )


def _speeds(largest: ChainSpec, facts: DatasetFacts) -> dict[int, float]:
    """By threads per chain: how many times faster the largest network trains with them, as long as it pays."""
    speeds = {1: 1.0}
    while (threads := 2 * max(speeds)) <= cores():
        gain = speedup(largest, threads, facts)
        if gain < WORTHWHILE * speeds[threads // 2]:
            break
        speeds[threads] = gain
    return speeds


def _fastest(seconds: Sequence[float], jobs: int, speeds: dict[int, float]) -> tuple[int, int, float]:
    """Threads per chain, chains at a time and seconds of the fastest way to train chains that take so long each."""
    best = (1, 1, math.inf)
    for threads, speed in speeds.items():
        at_once = max(1, min(jobs, len(seconds), cores() // threads if threads > 1 else jobs))
        elapsed = _elapsed(seconds, at_once) / speed
        if elapsed * (WORTHWHILE if threads > 1 else 1) < best[2]:
            best = threads, at_once, elapsed
    return best


def _elapsed(seconds: Sequence[float], at_once: int) -> float:
    """Seconds until all chains are trained, if each starts as soon as one of `at_once` workers is free."""
    workers = [0.0] * at_once
    for own in seconds:
        heapq.heapreplace(workers, workers[0] + own)
    return max(workers)


def _chosen(values: Sequence[T], places: Sequence[int]) -> list[T]:
    """The values at these places, of those that there are; the last one if there are none."""
    return [values[place] for place in places if place < len(values)] or [values[-1]]


def _chosen_depths(depths: Sequence[int], places: Sequence[int]) -> list[int]:
    """As for widths; but where the place of half the depth has a deeper network, a single one is not deeper."""
    found = _chosen(depths, places)
    return found if len(found) > 1 else [min(*found, depths[0])]


def _seconds(
    sizes: FamilySizes,
    found: ProposedData,
    recipe: Recipe,
    size: tuple[int, float],
    share: str,
    cap: int,
    timings: dict[tuple[int, float], TrainingSpeed],
) -> float:
    """Seconds of one chain to its last level."""
    examples = found.facts.train_examples if share == "all" else found.facts.train_examples // 4
    chain = PlannedChain(
        spec=_spec(sizes, found, recipe, *size, examples),
        rules=StopRules(level_cap=cap),
        root=found.root,
        keep_weights=False,
        seen=found.facts,
    )
    timing, runs = timings[size], cap + 1
    training = chain_steps(chain) * timing.step_seconds + chain_images(chain) * timing.image_seconds
    return training + runs * RUN_SECONDS
