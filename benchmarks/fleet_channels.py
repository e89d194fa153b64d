"""Whether later levels of a fleet's chains of channels get faster in slots of the sliced networks' size.

    python benchmarks/fleet_channels.py [FAMILY DEPTH WIDTH CHAINS EPOCHS LEVELS]

trains the same chains on the digits with one CPU thread: twice as a fleet, in slots of whole networks and in slots
without the removed channels, and by the plain loop, which slices, too. It prints the processor time that each level of
all chains takes, builds of packs included, and what is left of the multiply-adds.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from prunecast import data
from prunecast.fleet import ChainFailed, ChainJob, FleetOptions, fleet_events, runner_pool
from prunecast.pruning import Record, StopRules, run_chain
from prunecast.spec import ChainSpec, Method, recipe

WAYS = ("fleet, whole slots", "fleet, sliced slots", "plain loop")


def jobs_of(arguments: argparse.Namespace) -> list[ChainJob]:
    """As many replicates of one network as are asked for."""
    digits = data.load("digits")
    spec = ChainSpec(
        family=arguments.family,
        dataset="digits",
        recipe=replace(recipe("digits"), name="short", epochs=arguments.epochs, drops=(), rewind=1.0),
        method=Method(name="channels", structure="channels", fraction=0.2),
        depth=arguments.depth,
        width=arguments.width,
        num_examples=600,
        replicate=0,
    )
    rules = StopRules(level_cap=arguments.levels, at_chance=0)
    return [
        ChainJob(spec=replace(spec, replicate=k), rules=rules, dataset=lambda: digits)
        for k in range(arguments.chains)
    ]


def timed(way: str, jobs: list[ChainJob], store: Path) -> tuple[dict[int, list[float]], list[Record], float]:
    """Seconds of processor time up to the end of each level, by level; all records; the whole time."""
    began, last = time.process_time(), time.process_time()
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    records = []
    runner_pool.SLICED_ON = ("cpu" if way == WAYS[1] else "none",)
    for record in events(way, jobs, store):
        now = time.process_time()
        seconds[record.level].append(now - last)
        records.append(record)
        last = now
    return seconds, records, time.process_time() - began


def events(way: str, jobs: list[ChainJob], store: Path) -> Iterable[Record]:
    """The records of all chains, as they are finished."""
    if way == WAYS[2]:
        for job in jobs:
            yield from run_chain(job.spec, store, job.dataset, rules=job.rules)
    else:
        options = FleetOptions(most_packs=1, budget=jobs[0].spec.width * len(jobs), threads=1)
        for event in fleet_events(jobs, store, device=torch.device("cpu"), options=options):
            if isinstance(event, ChainFailed):
                raise event.problem
            yield event.record


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family", nargs="?", default="digits_cnn")
    parser.add_argument("depth", nargs="?", type=int, default=6)
    parser.add_argument("width", nargs="?", type=float, default=2.0)
    parser.add_argument("chains", nargs="?", type=int, default=4)
    parser.add_argument("epochs", nargs="?", type=int, default=12)
    parser.add_argument("levels", nargs="?", type=int, default=8)
    arguments = parser.parse_args()
    jobs = jobs_of(arguments)
    torch.set_num_threads(1)
    for way in WAYS:  # the first level of a process takes longer
        with tempfile.TemporaryDirectory() as folder:
            timed(way, [replace(job, rules=StopRules(level_cap=1)) for job in jobs[:1]], Path(folder))
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            seconds, records, whole = timed(way, jobs, Path(folder))
        print(f"{way}: {whole:.1f} s in all", flush=True)
        for level, own in sorted(seconds.items()):
            here, first = ([r.multiply_adds or 0 for r in records if r.level == n] for n in (level, 0))
            left = sum(here) / len(here) / (sum(first) / len(first))
            print(f"  level {level}: {sum(own):.2f} s, {left:.3f} of the multiply-adds", flush=True)


if __name__ == "__main__":
    main()
