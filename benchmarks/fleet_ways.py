"""The ways to train that are compared: the plain loop, one CUDA graph, fleets; random images of CIFAR's shape."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import torch
from fleet_rows import ROWS, Row

from prunecast.data import Dataset, MemorySource
from prunecast.families import prunable
from prunecast.fleet import ChainJob, FleetOptions
from prunecast.fleet.device import Coroutine, Loop, host_threads
from prunecast.fleet.level import LevelResult, LevelTraining
from prunecast.fleet.members import Member, kind_of
from prunecast.fleet.queue import deal, slots_by_width
from prunecast.fleet.runner import Runner
from prunecast.fleet.runner_pool import RunnerPool
from prunecast.pruning import StopRules, open_chain, open_level
from prunecast.spec import ChainSpec, Recipe, method, rng
from prunecast.spec import recipe as preset
from prunecast.training import evaluate, prepare, step, stepper, train

NAME = re.compile(r"(?:(\w+):)?([\d/]+|mixed)(?:@([\d.]+))?(?:g(\d+))?(?:x(\d+))?(-eager)?")
TRIAL = 2
"""Steps of the trial that ends a start-up."""
LONE = ("plain", "graph")
"""Ways that train one network."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ways have in common."""

    row: Row
    device: torch.device
    recipe: Recipe
    data: Dataset


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to train: so many networks of a width, after a start-up."""

    widths: tuple[float, ...]
    start: Callable[[], object]
    run: Callable[[], object]
    steps: Callable[[int], object] | None = None
    """So many steps of as many packs as train at once, and nothing else."""


def row_of(name: str) -> Row:
    """The networks of a way: CIFAR ResNets unless it names others."""
    row, _, _ = name.rpartition(":")
    if row and row not in ROWS:
        raise SystemExit(f"There is no row {row}; there are {', '.join(ROWS)}.")
    return ROWS[row or "resnet"]


def prepare_setting(row: Row, examples: int, epochs: int) -> Setting:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = "bf16" if device.type == "cuda" else "fp32"
    recipe = preset("cifar10").lasting(epochs).changed({**row.recipe, "precision": precision})
    data = Dataset(
        name="random",
        train=random_source(row, examples, device),
        test=random_source(row, max(1, examples // 5), device),
        num_classes=row.classes,
        chance_error=1 - 1 / row.classes,
        digest="random",
    )
    return Setting(row=row, device=device, recipe=recipe, data=data)


def random_source(row: Row, count: int, device: torch.device) -> MemorySource:
    channels, height, width = row.image_shape
    generator = torch.Generator(device).manual_seed(count)
    images = torch.randint(
        0, 256, (count, height, width, channels), generator=generator, dtype=torch.uint8, device=device
    )
    labels = torch.randint(0, row.classes, (count,), generator=generator, device=device)
    mean = torch.full((channels,), 127.5, device=device)
    return MemorySource(images, labels, mean=mean, std=mean / 2)


def alone(setting: Setting, *, graph: bool) -> Way:
    """The plain loop, eager or as one CUDA graph."""
    model = setting.row.network(1.0)
    source, recipe = setting.data.train, setting.recipe
    examples = rng(0, "subsample").permutation(len(source))
    trainer = prepare(model, prunable(model), recipe, 0, source, examples)
    advance = stepper(trainer) if graph else lambda: step(trainer)

    def run() -> None:
        train(trainer, advance, 0, trainer.times.total)
        for half in (setting.data.test, source):
            evaluate(trainer.model, half, torch.arange(len(half)), recipe.precision)

    return Way(widths=(1.0,), start=advance, run=run)


def fleet(setting: Setting, name: str) -> Way:
    """Packs of equal budget, each on a stream of its own, as the fleet trains them."""
    found = NAME.fullmatch(name)
    if found is None:
        raise SystemExit(f"There is no way {name}.")
    on_gpu = setting.device.type == "cuda"
    streams = int(found[5] or (2 if on_gpu else 1))
    options = FleetOptions(
        most_packs=streams,
        budget=float(found[3] or (8 if on_gpu else 4)),
        compile=on_gpu and found[6] is None,
        smallest_group=int(found[4] or 32) or None,
    )
    members = open_members(setting, widths_of(found[2], setting.row))
    kind = kind_of(members[0].chain)
    pool = RunnerPool([member.chain.spec for member in members], options)
    pool.add(kind, members[0].chain)
    packs = deal(members, pool.budget(kind, members) or 1.0)
    shape = pool.whole_shape(kind, packs[0])
    host = host_threads(2 * streams, 1)

    def level(runner: Runner, own: list[Member]) -> Coroutine[None]:
        training = LevelTraining(
            runner=runner, members=own, slots=slots_by_width(shape, own), host=host, stopping=lambda: False
        )
        end = yield from training.run()
        well = isinstance(end, LevelResult) and not any(trained.diverged for trained in end.trained)
        assert well, "a network diverged"
        pool.give_back(kind, shape, runner)

    def train_all(waiting: list[list[Member]]) -> None:
        """Train packs as coroutines of this thread, so many at once as there are streams."""
        loop = Loop()
        while loop or waiting:
            while waiting and len(loop) < streams:
                own = waiting.pop(0)
                runner = pool.take(kind, shape, own[0].chain)
                assert runner is not None, "the memory is full"
                loop.start(level(runner, own), runner.current)
            loop.step()

    def start() -> None:
        train_all([[trial(member) for member in own] for own in packs[:streams]])

    def run() -> None:
        train_all(list(packs))

    def steps(count: int) -> None:
        own = [pool.take(kind, shape, members[0].chain) for _ in packs[:streams]]
        runners = [runner for runner in own if runner is not None]
        for runner in runners:
            with runner.current():
                with torch.no_grad():  # numbers, because zeros are faster
                    for parameter in runner.trainer.parameters:
                        parameter.uniform_(-0.05, 0.05)
                runner.trainer.cursor.zero_()
                runner.advance(count)
        for runner in runners:
            runner.synchronize()
            pool.give_back(kind, shape, runner)

    return Way(widths=tuple(member.width for member in members), start=start, run=run, steps=steps)


def trial(member: Member) -> Member:
    """A member whose level has a few steps only."""
    return replace(member, level=replace(member.level, last=TRIAL))


def widths_of(name: str, row: Row) -> list[float]:
    if name == "mixed":
        return [2.0**-k for k in range(5) for _ in range(2)]
    width = float(Fraction(name))
    return [width] * max(1, round(row.networks / width))


def open_members(setting: Setting, widths: list[float]) -> list[Member]:
    """Chains at level 0, each a replicate of its own."""
    store = Path(tempfile.mkdtemp())
    members: list[Member] = []
    for replicate, width in enumerate(widths):
        spec = ChainSpec(
            family=setting.row.family,
            dataset="random",
            recipe=setting.recipe,
            method=method("imp"),
            depth=setting.row.depth,
            width=width,
            num_examples=len(setting.data.train),
            replicate=replicate,
        )
        job = ChainJob(spec=spec, rules=StopRules(), dataset=lambda: setting.data)
        chain = open_chain(spec, store, setting.data)
        same = members and members[-1].width == width
        level = members[-1].level if same else open_level(chain, [])  # its masks and counts are the same
        network = dict(chain.untrained.state_dict())
        own = replace(level, network=network)
        members.append(Member(number=replicate, job=job, chain=chain, records=(), level=own))
    return members
