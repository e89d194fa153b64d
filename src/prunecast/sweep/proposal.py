"""Propose a plan for a user's network and data: sizes that can be built, a recipe, and the largest grid that fits.

    seconds of a chain = steps · step_seconds + images · image_seconds + runs · 0.3

Every network of the grid is timed on the device. The proposal is the largest grid that fits into the time; the rest of
the time goes into longer training. Chains train in the order of the plan, as many at a time as the cores allow, and get
more threads if there are fewer chains than cores and that is faster. Chains that fall to chance or are disconnected end
early, so the time is an upper limit.
"""

import dataclasses
import heapq
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import torch
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
Size = tuple[int, float]
"""Depth and width."""
BASE_DEPTHS = (6, 8, 4, 3, 5, 2, 10, 7, 9, 12, 11, 14, 16, 18, 20, 26, 34, 50, 121, 1)
"""Depths that are tried until one can be built."""
MOST_TRIED = 8
"""How many depths are tried around a wanted one."""
CHANNELS = 32
"""The width that is tried first where a function takes a number of channels."""
LARGE_IMAGE = 96
"""Images that all have one size up to this are not resized."""
IMAGE_SIZES = (64, 32, 96, 128, 224)
"""Sizes that other images are resized to, until the network accepts one; those that enlarge them come last."""
MOST_TOKENS = 64
ALL = Fraction(1)
SHARES = {"all": ALL, "1/4": Fraction(1, 4)}
"""Dataset sizes as shares of all training images, by their words in a plan."""
STEPS, EPOCHS = 2000, (8, 100)
"""Steps that a training run should have, and the limits of the epochs that this takes."""
MOST_EPOCHS = 160
MOST_LEVELS = 30
LEAST_LEVELS = 12
WEIGHTS_LEFT = 30
"""The most weights that the last level of the largest network may have, so that it is no better than chance."""
ENOUGH_TO_DIVIDE = 2000
"""The fewest training images for which a plan also trains on a quarter of them."""
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
    """A plan for a family and data, and how long it takes."""

    family: str
    data: ProposedData
    depths: tuple[int, ...]
    widths: tuple[float, ...]
    takes: tuple[str, ...]
    """Which of depth and width the family has."""
    possible: int
    """How many sizes the family has that a plan with enough time would compare."""
    shares: tuple[str, ...]
    """Numbers of examples as shares of all."""
    replicates: int
    level_cap: int
    recipe: Recipe
    seconds: float
    """The longest that the plan takes on the device."""
    jobs: int
    """Chains at a time."""
    threads: int = 1
    """Threads of each chain on the CPU."""
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A candidate grid: places in the family's depths and widths, and the numbers of shares, replicates and levels."""

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
"""Candidate grids, the largest first. Sizes that a family lacks are left out or replaced by the nearest."""


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
    """The largest plan that fits into the time; `data` is a folder, archive, arrays, function or named dataset.

    `on_timing` is called before each network is timed, with its number and how many there are.
    """
    place = torch_device(device)
    found, sizes = _match(family, data, image_size)
    grids = _Grids(found, sizes, jobs or usual_jobs(device))
    grids.time(place, on_timing)
    candidates = [
        grids.proposal(rung, factor)
        for rung in RUNGS
        for factor in (4, 2, 1, 0.5, *([0.25] if rung is RUNGS[-1] else []))
        if factor <= 1 or factor * grids.recipe.epochs <= MOST_EPOCHS
    ]
    for candidate in candidates:
        if candidate.seconds <= SPARE * 3600 * hours:
            return dataclasses.replace(candidate, device=device)
    least = min(candidate.seconds for candidate in candidates)
    remedy = f"give --hours {math.ceil(least / SPARE / 360) / 10:g}, a smaller --image-size or a GPU"
    raise PrunecastError(
        f"the smallest plan for {sizes.family} takes up to {duration(least)} on {device}; {remedy}."
    )


@dataclass(frozen=True, kw_only=True)
class FamilySizes:
    """The depths and widths that a family is measured at, the most important first in each."""

    family: str
    depths: tuple[int, ...]
    widths: tuple[float, ...]
    takes: tuple[str, ...]
    weights: int
    """Prunable weights of the largest network."""
    normalised: bool
    """Whether it has batch norm."""


def _match(family: str, data: str, image_size: int | None) -> tuple[ProposedData, FamilySizes]:
    """The data at the first image size that the family accepts, and the sizes that the family has then."""
    problem: PrunecastError | None = None
    for found in _datasets(data, image_size):
        shape, classes = found.facts.image_shape, found.facts.num_classes
        try:
            name = _with_patches(shape) if family == VIT else family
            if found.loader == "folder":  # reading the images shows whether the plan can run
                found = _loaded(found.dataset, found.loader, found.root, found.image_size)
            return found, _sizes(name, shape, classes)
        except PrunecastError as refusal:
            problem = problem or refusal
    assert problem is not None
    raise problem


def _with_patches(shape: Shape) -> str:
    """The ViT with the smallest patches that divide an image into few enough tokens."""
    fitting = [size for size in VIT_PATCH_SIZES if not (shape[1] % size or shape[2] % size)]
    few = [size for size in fitting if shape[1] * shape[2] <= MOST_TOKENS * size**2]
    if not fitting:
        raise PrunecastError(
            f"images of {shape[1]}x{shape[2]} pixels cannot be cut into patches; give an --image-size such as 64."
        )
    return vit_family(few[0] if few else fitting[-1])


def _datasets(data: str, image_size: int | None) -> Iterator[ProposedData]:
    """The data at one image size after another. The images of a folder are not decoded yet."""
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
            size = {"depth": depth, "width": width, "num_classes": num_classes, "image_shape": shape}
            return size_of(family, **size).weights
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


class _Grids:
    """The grids of a family on its data, and how long each takes."""

    def __init__(self, found: ProposedData, sizes: FamilySizes, jobs: int) -> None:
        self.found, self.sizes, self.jobs = found, sizes, jobs
        self.recipe = _recipe(sizes, found.facts)
        self.timings: dict[Size, TrainingSpeed] = {}
        self.speedups = {1: 1.0}
        """How many times faster the largest network trains, by threads per chain, while more threads pay."""

    def chain(self, size: Size, recipe: Recipe, share: Fraction = ALL, cap: int = 0) -> PlannedChain:
        """A chain of the grid, on a share of the training images."""
        spec = ChainSpec(
            family=self.sizes.family,
            dataset=self.found.dataset,
            loader=self.found.loader,
            image_size=self.found.image_size,
            recipe=recipe,
            method=method("imp"),
            depth=size[0],
            width=size[1],
            num_examples=int(share * self.found.facts.train_examples),
        )
        rules, root, facts = StopRules(level_cap=cap), self.found.root, self.found.facts
        return PlannedChain(spec=spec, rules=rules, root=root, keep_weights=False, seen=facts)

    def time(self, device: torch.device, on_timing: Callable[[int, int], None]) -> None:
        """Time every network of the grid, and on the CPU the largest one with more threads."""
        grid = list(itertools.product(self.sizes.depths, self.sizes.widths))
        for number, size in enumerate(grid, 1):
            on_timing(number, len(grid))
            self.timings[size] = time_training(self.chain(size, self.recipe), device)
        largest = self.chain((max(self.sizes.depths), max(self.sizes.widths)), self.recipe)
        while device.type == "cpu" and (threads := 2 * max(self.speedups)) <= cores():
            gain = speedup(largest, threads)
            if gain < WORTHWHILE * self.speedups[threads // 2]:
                break
            self.speedups[threads] = gain

    def proposal(self, rung: Rung, factor: float) -> Proposal:
        """The plan of a rung with so many times the recipe's epochs, and how long it takes."""
        sizes, recipe = self.sizes, _lasting(self.recipe, factor * self.recipe.epochs)
        divided = self.found.facts.train_examples >= ENOUGH_TO_DIVIDE
        shares = dict(list(SHARES.items())[: rung.shares if divided else 1])
        to_chance = math.log(max(2.0, sizes.weights / WEIGHTS_LEFT)) / -math.log(1 - method("imp").fraction)
        cap = min(max(LEAST_LEVELS, math.ceil(to_chance)), rung.most_levels)
        depths, widths = _chosen_depths(sizes.depths, rung.depths), _chosen(sizes.widths, rung.widths)
        seconds = [
            _seconds(self.chain(size, recipe, share, cap), self.timings[size])
            for size in itertools.product(depths, widths)
            for share in shares.values()
            for _ in range(rung.replicates)
        ]
        threads, at_once, elapsed = _fastest(seconds, self.jobs, self.speedups)
        return Proposal(
            family=sizes.family,
            data=self.found,
            depths=tuple(sorted(depths)),
            widths=tuple(sorted(widths)),
            takes=sizes.takes,
            possible=len(sizes.depths) * len(sizes.widths),
            shares=tuple(shares),
            replicates=rung.replicates,
            level_cap=cap,
            recipe=recipe,
            seconds=elapsed,
            jobs=at_once,
            threads=threads,
        )


def _seconds(chain: PlannedChain, speed: TrainingSpeed) -> float:
    """Seconds of a chain up to its last level."""
    training = chain_steps(chain) * speed.step_seconds + chain_images(chain) * speed.image_seconds
    return training + (chain.rules.level_cap + 1) * RUN_SECONDS


def _fastest(seconds: Sequence[float], jobs: int, speedups: dict[int, float]) -> tuple[int, int, float]:
    """Threads per chain, chains at a time, and seconds of the fastest way to train chains of these durations."""
    best = (1, 1, math.inf)
    for threads, speed in speedups.items():
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
    """The values at these places, as far as they exist; otherwise the last value."""
    return [values[place] for place in places if place < len(values)] or [values[-1]]


def _chosen_depths(depths: Sequence[int], places: Sequence[int]) -> list[int]:
    """As for widths, but a single depth is never deeper than the base: depth 1 has no half, so a deeper one follows."""
    found = _chosen(depths, places)
    return found if len(found) > 1 else [min(*found, depths[0])]
