"""How a whole fleet grows with its chains: time, memory and start-up, on whatever device there is.

python benchmarks/fleet_chains.py [--chains 25,50,100,200] [--levels L] [--epochs E] [--examples N]

Chains of CIFAR ResNets of depth 20 and mixed widths on random images of CIFAR's shape, from an empty store to their
last level: opened, packed, trained, evaluated, pruned and stored as in a sweep. Each number of chains has a process of
its own. `waited` are the seconds that streams waited for packs to be built, `compiled` those of compiling beside.
"""

import argparse
import json
import logging
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from fleet_rows import ROWS
from fleet_ways import Setting, prepare_setting

from prunecast.fleet import ChainJob, LevelFinished, fleet_events
from prunecast.pruning import StopRules
from prunecast.spec import ChainSpec, method

WIDTHS = {"cuda": (1.0, 0.5, 0.25, 0.125, 0.0625), "cpu": (0.25, 0.125, 0.0625)}


def main() -> None:
    options = parse()
    if options.worker:
        print(json.dumps(measure(options.worker, options)))
        return
    print(
        f"{'chains':>7}{'trainings':>11}{'s':>9}{'ms a training':>15}{'waited s':>10}{'compiled s':>12}",
        end="",
    )
    print(f"{'GPU GiB':>9}{'host MiB':>10}")
    for chains in options.chains.split(","):
        line = [sys.executable, __file__, *sys.argv[1:], "--worker", chains]
        done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print("{:7d}{:11d}{:9.1f}{:15.1f}{:10.1f}{:12.1f}{:9.2f}{:10.0f}".format(*found), flush=True)


def measure(chains: int, options: argparse.Namespace) -> list[float]:
    """One fleet from beginning to end."""
    setting, told = prepare_setting(ROWS["resnet"], options.examples, options.epochs), Told()
    logging.getLogger("prunecast").addHandler(told)
    logging.getLogger("prunecast").setLevel(logging.INFO)
    rules = StopRules(level_cap=options.levels - 1)
    jobs = [ChainJob(spec=spec, rules=rules, dataset=lambda: setting.data) for spec in specs(chains, setting)]
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        events = list(fleet_events(jobs, Path(store), device=setting.device))
        seconds = time.perf_counter() - began
    assert all(isinstance(event, LevelFinished) for event in events), "a chain failed"
    trainings = len(events)
    on_gpu = setting.device.type == "cuda"
    gpu = torch.cuda.max_memory_reserved() / 2**30 if on_gpu else 0.0
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [chains, trainings, seconds, 1e3 * seconds / trainings, *told.waited, gpu, host]


def specs(chains: int, setting: Setting) -> list[ChainSpec]:
    widths = WIDTHS[setting.device.type]
    return [
        ChainSpec(
            family=setting.row.family,
            dataset="random",
            recipe=setting.recipe,
            method=method("imp"),
            depth=setting.row.depth,
            width=widths[number % len(widths)],
            num_examples=len(setting.data.train),
            replicate=number // len(widths),
        )
        for number in range(chains)
    ]


class Told(logging.Handler):
    """Hears from the fleet how long its streams waited for packs, and how long it compiled beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = [0.0, 0.0]

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what the fleet says when it ends."""
        if found := re.search(r"waited ([\d.]+) s for packs, and ([\d.]+) s", record.getMessage()):
            self.waited = [float(found[1]), float(found[2])]


def parse() -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--chains", default="25,50,100,200" if on_gpu else "12,24,48", help="how many, by commas"
    )
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8 if on_gpu else 1)
    parser.add_argument("--examples", type=int, default=12_500 if on_gpu else 256)
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
