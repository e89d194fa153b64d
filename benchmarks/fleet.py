"""Seconds per network and epoch of every way to train, on a GPU if there is one.

python benchmarks/fleet.py [--ways plain,graph,1,1/4,1/16,mixed | all] [--epochs E] [--examples N] [--limit S]

CIFAR ResNet of depth 20, batch 128, random images of CIFAR's shape. Every training run ends with an evaluation on the
test set and on its own examples. A fleet is named by its width and options: `1/4@4g0x4` has packs of total width 4,
dense convolutions (g32: groups of at least 32 channels) and 4 streams. `mixed` has two networks each of widths 1 to
1/16 in one pack. `vit:1` has networks of another row (see fleet_rows.py), `vit:1@8x2-eager` does not compile its
packs, and `all` are all rows of the table in the docs. Each way runs in its own process, one after the other on an
otherwise idle machine; its start-up is timed separately. The bound is the time for the arithmetic and memory traffic
of one training run, at the speeds that this device reaches in a large matrix product and a large copy.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from fleet_bound import arithmetic_speed, copy_speed, lower_bound, synchronise, timed
from fleet_rows import ALL
from fleet_ways import LONE, alone, fleet, prepare_setting, row_of

from prunecast.training import settings

PROFILED = 16
"""Steps of a profile."""


def main() -> None:
    options = parse()
    if options.worker:
        work(options)
        return
    names = list(ALL) if options.ways == "all" else options.ways.split(",")
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        own = ["--folder", folder]
        for name in names:
            line = [sys.executable, __file__, *sys.argv[1:], *own, "--worker", name]
            try:
                subprocess.run(line, check=False, timeout=options.limit)
            except subprocess.TimeoutExpired:
                print(f"{name}: not done within {options.limit:g} s", flush=True)
        results = {name: result(options.folder, name) for name in names}
    tell(results, options)


def tell(results: dict[str, tuple[list[float], float, float] | None], options: argparse.Namespace) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    flops, bandwidth = arithmetic_speed(device), copy_speed(device)
    print(f"{name}: {flops / 1e12:.3g} TFLOP/s in a product, {bandwidth / 1e12:.3g} TB/s in a copy")
    print(f"{options.epochs} epochs (plain and graph: {lone_epochs(options)})")
    print(
        f"{'way':<32}{'examples':>9}{'networks':>9}{'s per network and epoch':>25}{'bound':>10}{'ratio':>8}"
        f"{'start-up s':>12}"
    )
    for way, found in results.items():
        if found is None:
            print(f"{way:<32} failed")
            continue
        widths, each, startup = found
        row, examples = row_of(way), examples_of(way, options)
        each_bound = {
            width: lower_bound(row, width, examples, device, flops, bandwidth) for width in set(widths)
        }
        networks, bound = len(widths), sum(each_bound[width] for width in widths) / len(widths)
        shown = way if is_lone(way) else f"fleet of {way}"
        print(
            f"{shown:<32}{examples:>9}{networks:>9}{each:>25.4f}{bound:>10.4f}{each / bound:>8.1f}{startup:>12.1f}"
        )


def parse() -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", default="plain,graph,1,1/4,1/16,mixed", help="which to time, by commas")
    parser.add_argument("--epochs", type=int, default=8 if on_gpu else 1)
    parser.add_argument("--examples", type=int, help="the row's own on a GPU, else 128")
    parser.add_argument("--limit", type=float, help="seconds after which a way is given up")
    parser.add_argument("--threads", type=int, default=2, help="torch threads of every way")
    parser.add_argument("--profile", type=Path, help="folder for a profile of every fleet's steps")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path(), help=argparse.SUPPRESS)
    return parser.parse_args()


def lone_epochs(options: argparse.Namespace) -> int:
    return 2 if options.epochs > 2 else int(options.epochs)


def is_lone(way: str) -> bool:
    return way.rpartition(":")[2] in LONE


def examples_of(way: str, options: argparse.Namespace) -> int:
    usual = row_of(way).examples if torch.cuda.is_available() else 128
    return options.examples or usual


def file_of(folder: Path, way: str, ending: str) -> Path:
    return folder / f"{way.replace('/', '_').replace(':', '-')}.{ending}"


def result(folder: Path, way: str) -> tuple[list[float], float, float] | None:
    path = file_of(folder, way, "json")
    return tuple(json.loads(path.read_text())) if path.exists() else None


def work(options: argparse.Namespace) -> None:
    """Start one way up and time it."""
    torch.set_num_threads(options.threads)
    lone = is_lone(options.worker)
    epochs = lone_epochs(options) if lone else options.epochs
    setting = prepare_setting(row_of(options.worker), examples_of(options.worker, options), epochs)
    with settings(setting.recipe.precision, setting.device, options.threads, trials=lone):
        began = time.perf_counter()
        graph = options.worker.endswith("graph")
        way = alone(setting, graph=graph) if lone else fleet(setting, options.worker)
        way.start()
        synchronise()
        startup = time.perf_counter() - began
        seconds = timed(way.run)
        each = seconds / len(way.widths) / epochs
        file_of(options.folder, options.worker, "json").write_text(json.dumps([way.widths, each, startup]))
        print(f"{options.worker}: {each:.4f} s, start-up {startup:.1f} s", flush=True)
        if options.profile and way.steps:
            profile(way.steps, file_of(options.profile, options.worker, "txt"))


def profile(steps: Callable[[int], object], path: Path) -> None:
    """Where the device's time goes in some more steps."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    path.parent.mkdir(parents=True, exist_ok=True)
    steps(PROFILED)
    seconds = timed(lambda: steps(PROFILED))
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        steps(PROFILED)
        synchronise()
    table = seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90)
    path.write_text(f"{PROFILED} steps take {1e3 * seconds:.2f} ms\n{table}")


if __name__ == "__main__":
    main()
