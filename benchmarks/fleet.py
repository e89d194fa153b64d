"""Seconds per network and epoch of every way to train, on whatever device there is.

python benchmarks/fleet.py [--ways plain,graph,1,1/4,1/16,mixed] [--epochs E] [--examples N]

CIFAR ResNet of depth 20, batch 128, random images of CIFAR's shape; every training ends with its evaluation on the
test half and on its own examples. A fleet is named by its width, and may say more: `1/4@16g32x2` are packs whose
widths add up to 16, convolutions in groups of 32 channels or more, on 2 streams; `mixed` are two each of widths 1 to
1/16 in one pack. Every way has a process of its own:
they start up side by side, then are timed one after the other. The bound is the time the device needs for the bare
arithmetic and memory traffic of one training alone, at the speeds it shows here on a large product and a large copy.
"""

import argparse
import fcntl
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

import torch

from prunecast.architectures import Layer, architecture
from prunecast.data import Dataset
from prunecast.data.memory import MemorySource
from prunecast.families import build, prunable
from prunecast.fleet import Job, Options
from prunecast.fleet.members import Member, kind_of
from prunecast.fleet.shapes import deal, places
from prunecast.fleet.train import Ends, train_level
from prunecast.fleet.yard import Yard
from prunecast.pruning import StopRules, open_chain, open_level
from prunecast.spec import ChainSpec, Recipe, method
from prunecast.spec.presets import recipe as preset
from prunecast.spec.streams import rng
from prunecast.training import evaluate, prepare, step, stepper, train
from prunecast.training.precision import settings

FAMILY, DEPTH, CLASSES, SHAPE = "cifar_resnet", 20, 10, (3, 32, 32)
NETWORKS = 16
"""Networks of width 1 in a fleet; of narrower ones as many as have the same channels in total."""
TRIAL = 2
"""Steps of the trial that ends a start-up."""
WAIT = 150


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ways have in common."""

    device: torch.device
    recipe: Recipe
    data: Dataset


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to train: so many networks of a width, after a start-up."""

    widths: tuple[float, ...]
    start: Callable[[], object]
    run: Callable[[], object]


def main() -> None:
    options = parse()
    if options.worker:
        work(options)
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    names = options.ways.split(",")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            __file__,
            *sys.argv[1:],
            "--ways",
            options.ways,
            "--folder",
            folder,
            "--worker",
        ]
        workers = [subprocess.Popen([*command, way]) for way in names]
        for worker in workers:
            worker.wait()
        results = {way: result(Path(folder), way) for way in names}
    flops, bandwidth = arithmetic_speed(device), copy_speed(device)
    print(f"{name}: {flops / 1e12:.3g} TFLOP/s in a product, {bandwidth / 1e12:.3g} TB/s in a copy")
    print(f"{options.examples} examples, {options.epochs} epochs (plain and graph: {lone_epochs(options)})")
    print(
        f"{'way':<20}{'networks':>9}{'s per network and epoch':>25}{'bound':>10}{'ratio':>8}{'start-up s':>12}"
    )
    for way, found in results.items():
        if found is None:
            print(f"{way:<20} failed")
            continue
        widths, each, startup = found
        bounds = [lower_bound(width, options.examples, device, flops, bandwidth) for width in widths]
        networks, bound = len(widths), sum(bounds) / len(bounds)
        shown = way if way in ("plain", "graph") else f"fleet of {way}"
        print(f"{shown:<20}{networks:>9}{each:>25.4f}{bound:>10.4f}{each / bound:>8.1f}{startup:>12.1f}")


def parse() -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default="plain,graph,1,1/4,1/16,mixed", help="which to time, by commas")
    parser.add_argument("--epochs", type=int, default=8 if on_gpu else 1)
    parser.add_argument("--examples", type=int, default=50_000 if on_gpu else 128)
    parser.add_argument("--threads", type=int, default=2, help="torch threads of every way")
    parser.add_argument("--profile", type=Path, help="folder for a profile of every fleet's steps")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path(), help=argparse.SUPPRESS)
    return parser.parse_args()


def lone_epochs(options: argparse.Namespace) -> int:
    return min(options.epochs, 2)


def file_of(folder: Path, way: str, ending: str) -> Path:
    return folder / f"{way.replace('/', '_')}.{ending}"


def result(folder: Path, way: str) -> tuple[list[float], float, float] | None:
    path = file_of(folder, way, "json")
    return tuple(json.loads(path.read_text())) if path.exists() else None


def work(options: argparse.Namespace) -> None:
    """Start one way up, wait until the others have, and time it alone."""
    torch.set_num_threads(options.threads)
    lone = options.worker in ("plain", "graph")
    epochs = lone_epochs(options) if lone else options.epochs
    setting = prepare_setting(options.examples, epochs)
    with settings(setting.recipe.precision, setting.device, options.threads):
        began = time.perf_counter()
        try:
            if lone:
                way = alone(setting, graph=options.worker == "graph")
            else:
                way = fleet(setting, options.worker, options.folder / "lock")
            way.start()
            synchronise()
        except Exception:
            traceback.print_exc()
            return
        finally:
            file_of(options.folder, options.worker, "ready").touch()
        startup = time.perf_counter() - began
        wait_for_others(options)
        with (options.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            seconds = timed(way.run)
            if options.profile and not lone:
                profile(way, file_of(options.profile, options.worker, "txt"))
            each = seconds / len(way.widths) / epochs
            found = json.dumps([way.widths, each, startup])
            file_of(options.folder, options.worker, "json").write_text(found)
            print(f"{options.worker}: {each:.4f} s, start-up {startup:.1f} s", flush=True)


def wait_for_others(options: argparse.Namespace) -> None:
    until = time.perf_counter() + WAIT
    ready = [file_of(options.folder, way, "ready") for way in options.ways.split(",")]
    while time.perf_counter() < until and not all(path.exists() for path in ready):
        time.sleep(0.1)


def prepare_setting(examples: int, epochs: int) -> Setting:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = "bf16" if device.type == "cuda" else "fp32"
    recipe = preset("cifar10").lasting(epochs).changed({"precision": precision})
    data = Dataset(
        name="random",
        train=random_source(examples, device),
        test=random_source(max(1, examples // 5), device),
        num_classes=CLASSES,
        chance_error=0.9,
        digest="random",
    )
    return Setting(device=device, recipe=recipe, data=data)


def random_source(count: int, device: torch.device) -> MemorySource:
    generator = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 32, 32, 3), generator=generator, dtype=torch.uint8).to(device)
    labels = torch.randint(0, CLASSES, (count,), generator=generator).to(device)
    mean = torch.full((3,), 127.5, device=device)
    return MemorySource(images, labels, mean=mean, std=mean / 2)


def alone(setting: Setting, *, graph: bool) -> Way:
    """The plain loop, eager or as one CUDA graph."""
    generator = torch.Generator().manual_seed(1)
    model = build(FAMILY, depth=DEPTH, width=1.0, num_classes=CLASSES, generator=generator)
    source, recipe = setting.data.train, setting.recipe
    examples = rng(0, "subsample").permutation(len(source))
    bench = prepare(model, prunable(model), recipe, 0, source, examples)
    advance = stepper(bench) if graph else lambda: step(bench)

    def run() -> None:
        train(bench, advance, 0, bench.times.total)
        for half in (setting.data.test, source):
            evaluate(bench.model, half, torch.arange(len(half)), recipe.precision)

    return Way(widths=(1.0,), start=advance, run=run)


def fleet(setting: Setting, name: str, turn: Path) -> Way:
    """Packs of equal budget, each on a stream of its own, as the fleet trains them."""
    found = re.fullmatch(r"([\d/]+|mixed)(?:@(\d+))?(?:g(\d+))?(?:x(\d+))?", name)
    if found is None:
        raise SystemExit(f"There is no way {name}.")
    on_gpu = setting.device.type == "cuda"
    streams = int(found[4] or (4 if on_gpu else 1))
    options = Options(
        workers=streams,
        budget=float(found[2] or 4),
        compile=on_gpu,
        smallest_group=int(found[3]) if found[3] else None,
    )
    members = open_members(setting, widths_of(found[1]))
    kind = kind_of(members[0].chain)
    specs = [member.chain.spec for member in members]
    yard, trial_yard = Yard(specs, options), Yard(specs, replace(options, compile=False))
    for each in (yard, trial_yard):
        each.check(kind, members[0].chain)
    packs = deal(members, yard.budget(kind, members))
    pool, ahead, stop = ThreadPoolExecutor(streams), ThreadPoolExecutor(streams), threading.Event()
    meeting = threading.Barrier(min(streams, len(packs)))

    def one(members: list[Member], yard: Yard, *, trial: bool) -> None:
        if trial:  # every thread gets a runner of its own
            meeting.wait()
            members = [replace(member, level=replace(member.level, last=TRIAL)) for member in members]
        shape = yard.shape(kind, members)
        with yard.runner(kind, shape, members[0].chain) as runner:
            if trial:
                meeting.wait(WAIT)
            end = train_level(runner, members, places(shape, members), ahead, stop)
        assert isinstance(end, Ends), "a network diverged"

    def start() -> None:
        with turn.open("a") as lock:  # libraries choose their kernels best while nobody else is on the device
            fcntl.flock(lock, fcntl.LOCK_EX)
            try_out(trial_yard)
            trial_yard.clear()
        try_out(yard)

    def try_out(yard: Yard) -> None:
        yard.shape(kind, packs[0])
        list(pool.map(lambda members: one(members, yard, trial=True), packs[:streams]))

    def run() -> None:
        list(pool.map(lambda members: one(members, yard, trial=False), packs))

    return Way(widths=tuple(member.width for member in members), start=start, run=run)


def widths_of(name: str) -> list[float]:
    if name == "mixed":
        return [2.0**-k for k in range(5) for _ in range(2)]
    width = float(Fraction(name))
    return [width] * round(NETWORKS / width)


def open_members(setting: Setting, widths: list[float]) -> list[Member]:
    """Chains at level 0, each a replicate of its own."""
    store = Path(tempfile.mkdtemp())
    members: list[Member] = []
    for replicate, width in enumerate(widths):
        spec = ChainSpec(
            family=FAMILY,
            dataset="random",
            recipe=setting.recipe,
            method=method("imp"),
            depth=DEPTH,
            width=width,
            num_examples=len(setting.data.train),
            replicate=replicate,
        )
        job = Job(spec=spec, rules=StopRules(), dataset=lambda: setting.data)
        chain = open_chain(spec, store, setting.data)
        same = members and members[-1].width == width
        level = members[-1].level if same else open_level(chain, [])  # its masks and counts are the same
        network = dict(chain.untrained.state_dict())
        own = replace(level, network=network)
        members.append(Member(number=replicate, job=job, chain=chain, records=(), level=own))
    return members


def profile(way: Way, path: Path) -> None:
    """Where the device's time goes in one more run."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    path.parent.mkdir(parents=True, exist_ok=True)
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        way.start()
        synchronise()
    path.write_text(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=60))


def timed(function: Callable[[], object]) -> float:
    synchronise()
    start = time.perf_counter()
    function()
    synchronise()
    return time.perf_counter() - start


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def lower_bound(width: float, examples: int, device: torch.device, flops: float, bandwidth: float) -> float:
    """The longer of arithmetic and memory traffic for one epoch of one network trained alone.

    A step takes 6 operations per multiply-add (forward, and two products backward).
    """
    layers = architecture(FAMILY, depth=DEPTH, width=width, num_classes=CLASSES).layers
    operations = 6 * sum(layer.multiply_adds for layer in layers)
    size = 2 if device.type == "cuda" else 4
    return examples * max(operations / flops, size * sum(map(values_moved, layers)) / bandwidth)


def values_moved(layer: Layer) -> int:
    """Values read and written per image with every elementwise chain in one kernel.

    A convolution: inputs and outputs once forward; backward the output's gradient twice, the inputs once, their
    gradient once. A norm: two reads and a write forward; backward two reads of input and gradient and a write. An
    addition: one read more each way. ReLU rides along.
    """
    inputs, outputs = prod(layer.in_shape), prod(layer.out_shape)
    if layer.kind == "conv":
        return 3 * inputs + 3 * outputs
    return {"norm": 8 * outputs, "add": 2 * outputs}.get(layer.kind, 0)


def arithmetic_speed(device: torch.device) -> float:
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    return 2 * size**3 / min(timed(lambda: matrix @ matrix) for _ in range(5))


def copy_speed(device: torch.device) -> float:
    values = torch.zeros(2**28 if device.type == "cuda" else 2**25, device=device)
    other = torch.empty_like(values)
    return 2 * values.nbytes / min(timed(lambda: other.copy_(values)) for _ in range(5))


if __name__ == "__main__":
    main()
