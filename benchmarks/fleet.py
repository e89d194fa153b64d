"""Seconds per network and epoch of every way to train, on whatever device there is.

python benchmarks/fleet.py [--ways plain,graph,1,1/4,1/16] [--epochs E] [--examples N]

CIFAR ResNet of depth 20, batch 128, random images of CIFAR's shape, one evaluation a training included. The
bound is the time the device needs for the bare arithmetic and memory traffic of one training alone, at the
speeds it shows here on a large product and a large copy.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod

import torch
from torch import Tensor
from torch.nn import functional

from prunecast.architectures import Layer, architecture
from prunecast.data import Draws, draw
from prunecast.data.memory import MemorySource
from prunecast.families import build, prunable
from prunecast.fleet import Pack, pack
from prunecast.spec import Recipe
from prunecast.spec.presets import recipe as preset
from prunecast.spec.streams import rng
from prunecast.training import evaluate, prepare, step, stepper, train
from prunecast.training.optimizer import sgd_step
from prunecast.training.precision import autocast
from prunecast.training.schedule import timeline

FAMILY, DEPTH, CLASSES, SHAPE = "cifar_resnet", 20, 10, (3, 32, 32)
FLEETS = {"1": 16, "1/4": 64, "1/16": 256}
"""Networks of a fleet by their width: all fleets are alike in the channels they have in total."""
BUDGET = 4  # widths added up in one pack


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ways have in common."""

    device: torch.device
    recipe: Recipe
    train: MemorySource
    test: MemorySource
    streams: int


def main() -> None:
    options = parse()
    setting = prepare_setting(options)
    flops, bandwidth = arithmetic_speed(setting.device), copy_speed(setting.device)
    name = torch.cuda.get_device_name() if setting.device.type == "cuda" else "CPU"
    print(f"{name}: {flops / 1e12:.3g} TFLOP/s in a product, {bandwidth / 1e12:.3g} TB/s in a copy")
    print(f"{len(setting.train)} examples, {setting.recipe.epochs:g} epochs, {setting.recipe.precision}")
    print(
        f"{'way':<24}{'networks':>9}{'s per network and epoch':>25}{'bound':>10}{'ratio':>8}{'start-up s':>12}"
    )
    for way in options.ways.split(","):
        networks, width, run = ways(setting)[way]
        startup, seconds = run()
        each = seconds / networks / setting.recipe.epochs
        bound = lower_bound(width, len(setting.train), setting.device, flops, bandwidth)
        name = f"fleet of width {way}" if way in FLEETS else way
        print(
            f"{name:<24}{networks:>9}{each:>25.4f}{bound:>10.4f}{each / bound:>8.1f}{startup:>12.1f}",
            flush=True,
        )


def parse() -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default="plain,graph,1,1/4,1/16", help="which to time, by commas")
    parser.add_argument("--epochs", type=int, default=3 if on_gpu else 1)
    parser.add_argument("--examples", type=int, default=50_000 if on_gpu else 128)
    parser.add_argument("--streams", type=int, default=4 if on_gpu else 1)
    parser.add_argument("--threads", type=int, default=0, help="threads on a CPU; 0 leaves them as they are")
    return parser.parse_args()


def prepare_setting(options: argparse.Namespace) -> Setting:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = True
    precision = "bf16" if device.type == "cuda" else "fp32"
    recipe = preset("cifar10").lasting(options.epochs).changed({"precision": precision})
    return Setting(
        device=device,
        recipe=recipe,
        train=random_source(options.examples, device),
        test=random_source(max(1, options.examples // 5), device),
        streams=options.streams,
    )


def random_source(count: int, device: torch.device) -> MemorySource:
    generator = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 32, 32, 3), generator=generator, dtype=torch.uint8).to(device)
    labels = torch.randint(0, CLASSES, (count,), generator=generator).to(device)
    mean = torch.full((3,), 127.5, device=device)
    return MemorySource(images, labels, mean=mean, std=mean / 2)


Run = Callable[[], tuple[float, float]]


def ways(setting: Setting) -> dict[str, tuple[int, float, Run]]:
    """By name: networks, width, and a function that gives the seconds of start-up and of the training."""
    found: dict[str, tuple[int, float, Run]] = {
        "plain": (1, 1.0, partial(alone, setting, graph=False)),
        "graph": (1, 1.0, partial(alone, setting, graph=True)),
    }
    for name, count in FLEETS.items():
        width = float(Fraction(name))
        found[name] = (count, width, partial(fleet, setting, count, width))
    return found


def network(width: float) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(1)
    return build(FAMILY, depth=DEPTH, width=width, num_classes=CLASSES, generator=generator)


def alone(setting: Setting, *, graph: bool) -> tuple[float, float]:
    """The plain loop, eager or as one CUDA graph."""
    model, count = network(1.0), len(setting.train)
    bench = prepare(
        model, prunable(model), setting.recipe, 0, setting.train, rng(0, "subsample").permutation(count)
    )
    advance = stepper(bench, graph=graph) if graph else lambda: step(bench)
    startup = timed(advance)
    seconds = timed(lambda: train(bench, advance, 0, bench.times.total))
    seconds += timed(
        lambda: evaluate(bench.model, setting.test, torch.arange(len(setting.test)), setting.recipe.precision)
    )
    return startup, seconds


def timed(function: Callable[[], object]) -> float:
    synchronise()
    start = time.perf_counter()
    function()
    synchronise()
    return time.perf_counter() - start


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Packed:
    """Some networks in one pack, with all that a step reads and writes."""

    def __init__(self, setting: Setting, width: float, slots: int) -> None:
        self.setting, model = setting, network(width)
        on_gpu = setting.device.type == "cuda"
        memory_format = torch.channels_last if on_gpu else torch.contiguous_format
        self.pack: Pack = pack(
            [model] * slots, image_shape=SHAPE, device=setting.device, memory_format=memory_format
        )
        for slot in range(slots):
            self.pack.load(slot, model.state_dict())
        self.parameters = list(self.pack.parameters().values())
        self.masks = list(self.pack.masks.values())
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.times = timeline(setting.recipe, len(setting.train))
        self.order, self.draws = self.epoch(slots)
        self.cursor = torch.zeros((), dtype=torch.int64, device=setting.device)
        self.rate = torch.tensor(setting.recipe.learning_rate, device=setting.device)
        self.stream = torch.cuda.Stream() if on_gpu else None  # type: ignore[no-untyped-call]

    def epoch(self, slots: int) -> tuple[Tensor, Draws | None]:
        """Every member's own order, and augmentation."""
        count, device = self.times.epoch * self.times.batch, self.setting.device
        order = [
            torch.from_numpy(rng(slot, "order", 0).permutation(len(self.setting.train))[:count])
            for slot in range(slots)
        ]
        draws = draw(self.setting.recipe.augmentation, slots * count, SHAPE, rng(0, "augmentation", 0))
        return torch.stack(order).to(device), None if draws is None else draws.to(device)

    def step(self) -> None:
        """One step of all members at the cursor."""
        source, batch, slots = self.setting.train, self.times.batch, self.pack.slots
        positions = self.cursor * batch + torch.arange(batch, device=self.setting.device)
        indices = self.order[:, positions].flatten()
        images = source.batch(indices, None if self.draws is None else self.draws[: slots * batch])
        with autocast(self.setting.recipe.precision, self.setting.device):
            scores = self.pack.module(self.pack.join(images.view(slots, batch, *SHAPE)))
        logits = scores.float().transpose(0, 1).flatten(0, 1)
        loss = functional.cross_entropy(logits, source.labels[indices]) * slots
        gradients = list(torch.autograd.grad(loss, self.parameters))
        recipe = self.setting.recipe
        with torch.no_grad():
            arguments = (self.parameters, gradients, self.momenta, self.masks, self.rate)
            sgd_step(*arguments, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
            self.cursor.add_(1).remainder_(self.times.epoch)

    def captured(self) -> Callable[[], None]:
        """The step as a CUDA graph where there is one."""
        if self.stream is None:
            return self.step
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.step()
        return graph.replay

    def evaluate(self) -> Tensor:
        """Wrong answers of every member on the test half."""
        wrong = torch.zeros(self.pack.slots, device=self.setting.device)
        self.pack.module.eval()
        for chosen in torch.split(torch.arange(len(self.setting.test), device=self.setting.device), 500):
            images = self.setting.test.batch(chosen, None).expand(self.pack.slots, -1, -1, -1, -1)
            with torch.no_grad(), autocast(self.setting.recipe.precision, self.setting.device):
                scores = self.pack.module(self.pack.join(images))
            wrong += (scores.argmax(2) != self.setting.test.labels[chosen, None]).sum(0)
        self.pack.module.train()
        return wrong


def fleet(setting: Setting, networks: int, width: float) -> tuple[float, float]:
    """Packs of equal budget, each on its own stream."""
    slots = min(networks, round(BUDGET / width))
    start = time.perf_counter()
    packs = [Packed(setting, width, slots) for _ in range(networks // slots)]
    advances = [each.captured() for each in packs]
    synchronise()
    startup = time.perf_counter() - start
    return startup, timed(lambda: run_packs(packs, advances))


def run_packs(packs: Sequence[Packed], advances: Sequence[Callable[[], None]]) -> None:
    pairs = list(zip(packs, advances, strict=True))
    for first in range(0, len(pairs), packs[0].setting.streams):
        together = pairs[first : first + packs[0].setting.streams]
        for _ in range(packs[0].times.total):
            for packed, advance in together:
                on_stream(packed, advance)
        for packed, _ in together:
            on_stream(packed, packed.evaluate)


def on_stream(packed: Packed, function: Callable[[], object]) -> None:
    with nullcontext() if packed.stream is None else torch.cuda.stream(packed.stream):
        function()


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
