"""Run five families on one GPU again and again, stopped and resumed, and compare every chain with the plain loop.

python benchmarks/soak.py --data cifar-10-batches-bin [--runs 20] [--at-once 4] [--scale 1] [--folder DIR] [--out FILE]

The families are a ViT as users write it, a depthwise CNN, VGG-16, ResNet-18 on 64x64 images (in two shapes of packs),
and ResNet-20. Half of the runs train all of them in one fleet, the others one family each. A run is a process that is
told to stop after some seconds, once or twice, and started again until it has ended; some runs compile their packs. A
run passes if its exit status is 0 (130 where it was stopped), every chain has the levels that the plain loop has, and
none diverges that does not diverge there. Errors are compared with those of the plain loop, level by level, beside the
noise between its replicates. With `--folder`, the same command goes on where it was cut off.
"""

import argparse
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES: dict[str, dict[str, Any]] = {
    "vit": {"family": "soak_nets:transformer", "depth": 6, "grid": [([1.0, 0.5], 12_800)]},
    "depthwise": {"family": "fleet_rows:depthwise", "depth": 6, "grid": [([1.0, 0.5], 6_400)]},
    "vgg": {"family": "vgg", "depth": 16, "grid": [([0.25, 0.125], 6_400)]},
    "resnet18": {
        "family": "tinyimagenet_resnet",
        "depth": 18,
        "grid": [([0.25, 0.125], 6_400), ([0.5], 3_200)],
    },
    "resnet20": {"family": "cifar_resnet", "depth": 20, "grid": [([1.0, 0.25, 0.0625], 6_400)]},
}
"""Widths and numbers of examples. The widest ResNets-18 need packs of another shape than the others."""
LARGE_IMAGES = ("resnet18",)
ENLARGED = "cifar10-64x64.npz"
"""Images of CIFAR-10, every pixel drawn as two by two, for the families of `LARGE_IMAGES`."""
REPLICATES = 3
LEVEL_CAP = 1
EPOCHS = 5
TRIES = 12
"""Starts of a run after which it has failed."""
COMPILED_FROM = {"side by side": 100, "stacked": 100, "alone": 100}
Levels = dict[tuple[str, float, int, int], tuple[float, str]]
"""By family, width, replicate and level: the test error and the record's status."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the soak."""

    name: str
    families: tuple[str, ...]
    seed: int
    plain: bool = False
    compiled: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    run: Run
    statuses: tuple[int, ...]
    """Of its processes, in order."""
    seconds: float
    levels: Levels
    tail: str
    cut_off: bool
    """Whether it went on after this program itself was killed, which counts as its stop."""

    @property
    def failed(self) -> bool:
        """Whether a process ended otherwise than by itself or because it was told to stop."""
        return self.statuses[-1] != 0 or any(status not in (0, 130) for status in self.statuses)


def main() -> None:
    given = parse()
    if given.worker:
        sys.exit(work(given))
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ENLARGED).exists():
            enlarge(given.data, folder / ENLARGED)
        for family in FAMILIES:
            (folder / f"{family}.toml").write_text(plan_text(family, given.scale))
        references = [
            Run(name=f"plain-{family}", families=(family,), seed=0, plain=True) for family in FAMILIES
        ]
        runs = [*references, *runs_of(given.runs)]
        runs.sort(key=lambda run: (run.plain, run.compiled), reverse=True)  # these take longest
        with ThreadPoolExecutor(given.at_once) as pool:
            outcomes = list(pool.map(lambda run: finish(run, folder, given), runs))
    plain = {key: value for own in outcomes if own.run.plain for key, value in own.levels.items()}
    report(outcomes, plain, given)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of CIFAR-10, the official binary version"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=4, help="processes on the GPU at the same time")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual number of examples")
    parser.add_argument("--out", type=Path, help="JSON file for the outcomes")
    parser.add_argument("--folder", type=Path, help="keep stores and outcomes here, and go on from them")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def runs_of(count: int) -> list[Run]:
    """All families together and each alone, in turn."""
    alone = itertools.cycle(FAMILIES)
    runs = []
    for number in range(count):
        together = number % 2 == 0
        runs.append(
            Run(
                name=f"run-{number + 1}",
                families=tuple(FAMILIES) if together else (next(alone),),
                seed=number,
                compiled=number % 8 in (0, 7),
            )
        )
    return runs


def plan_text(family: str, scale: float) -> str:
    own = FAMILIES[family]
    enlarged = [f'loader = "arrays"\nroot = "{ENLARGED}"']
    lines = [
        f'family = "{own["family"]}"',
        'dataset = "cifar10"',
        *(enlarged if family in LARGE_IMAGES else ['root = "cifar-10-batches-bin"']),
        f"depth = {own['depth']}",
        f"replicates = {REPLICATES}",
        f"level_cap = {LEVEL_CAP}",
    ]
    recipe = [
        "[recipe]",
        'name = "soak"',
        "batch_size = 128",
        f"epochs = {EPOCHS}",
        "rewind = 1",
        'precision = "bf16"',
        'augmentation = "flip-shift"',
    ]
    adam = [
        'optimizer = "adamw"',
        "learning_rate = 0.001",
        'schedule = "cosine"',
        "warmup = 1",
        "gradient_clip = 1.0",
    ]
    recipe += adam if family == "vit" else ["learning_rate = 0.02", 'schedule = "cosine"']
    grids = [
        f"[[grid]]\nwidth = {widths}\nnum_examples = {128 * max(1, round(scale * examples / 128))}"
        for widths, examples in own["grid"]
    ]
    return "\n".join([*lines, *recipe, *grids, ""])


def enlarge(data: Path, path: Path) -> None:
    """Write some of the official images at 64x64."""
    arrays = {}
    for part, name, count in (("train", "data_batch_1.bin", 10_000), ("test", "test_batch.bin", 2_000)):
        rows = np.fromfile(data / name, np.uint8).reshape(-1, 3073)[:count]
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"{part}_images"] = images.repeat(2, axis=1).repeat(2, axis=2)
        arrays[f"{part}_labels"] = rows[:, 0]
    np.savez(path, allow_pickle=False, **arrays)


def finish(run: Run, folder: Path, given: argparse.Namespace) -> Outcome:
    """Start a run's process until it has ended, and tell it to stop the first times."""
    chance, statuses, tail, began = random.Random(run.seed), list[int](), "", time.perf_counter()
    own = folder / run.name
    own.mkdir(exist_ok=True)
    kept, began_already = own / "outcome.json", (own / "started").exists()
    if kept.exists():
        return outcome(run, json.loads(kept.read_text()))
    (own / "started").touch()
    stops = 0 if run.plain or began_already else chance.randint(1, 2)
    line = [sys.executable, __file__, "--worker", ",".join(run.families), "--folder", str(own)]
    line += ["--data", str(given.data.absolute()), "--device", given.device]
    line += ["--plain"] * run.plain + ["--compiled"] * run.compiled
    while len(statuses) < TRIES and (not statuses or statuses[-1] == 130):
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            limit = chance.uniform(12, 30) if len(statuses) < stops else None
            tail, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            tail, _ = process.communicate()
        statuses.append(process.returncode)
    found = own / "levels.json"
    body = {
        "statuses": statuses,
        "seconds": round(time.perf_counter() - began),
        "levels": json.loads(found.read_text()) if found.exists() else [],
        "tail": tail[-2000:],
        "cut_off": began_already,
    }
    kept.write_text(json.dumps(body))
    print(
        f"{run.name}: {', '.join(run.families)}{', compiled' * run.compiled}: exit {statuses}, "
        f"{len(body['levels'])} levels, {body['seconds']} s",
        flush=True,
    )
    return outcome(run, body)


def outcome(run: Run, body: dict[str, Any]) -> Outcome:
    """What `finish` wrote down of a run."""
    levels = {
        (family, width, replicate, level): (error, status)
        for family, width, replicate, level, error, status in body["levels"]
    }
    return Outcome(
        run=run,
        statuses=tuple(body["statuses"]),
        seconds=body["seconds"],
        levels=levels,
        tail=body["tail"],
        cut_off=body["cut_off"],
    )


def work(given: argparse.Namespace) -> int:
    """Train the chains of some families in one process; 130 where it was told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(130))  # nothing is under way before the sweep
    from prunecast.errors import PrunecastError
    from prunecast.fleet import runner_pool
    from prunecast.sweep import Failed, chain_statuses, inspect, read_plan, run_plan

    def stop(_: int, __: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    if given.compiled:
        runner_pool.COMPILE_FROM = COMPILED_FROM  # type: ignore[assignment]
    names = given.worker.split(",")
    plans = [
        inspect(read_plan(given.folder.parent / f"{name}.toml", data=given.data.parent)).plan
        for name in names
    ]
    signal.signal(signal.SIGTERM, stop)
    plan = replace(plans[0], chains=tuple(chain for own in plans for chain in own.chains))
    try:
        for event in run_plan(plan, given.folder / "store", device=given.device, plain=given.plain):
            if isinstance(event, Failed):
                print(event)
                return 1
    except KeyboardInterrupt:
        return 130
    except PrunecastError as problem:
        print(problem)
        return 2
    families = [name for name, own in zip(names, plans, strict=True) for _ in own.chains]
    rows = [
        (family, own.chain.spec.width, own.chain.spec.replicate, record.level, record.error, record.status)
        for family, own in zip(families, chain_statuses(plan, given.folder / "store"), strict=True)
        for record in own.records
    ]
    (given.folder / "levels.json").write_text(json.dumps(rows))
    return 0


def report(outcomes: list[Outcome], plain: Levels, given: argparse.Namespace) -> None:
    runs = [own for own in outcomes if not own.run.plain]
    failed = [own for own in outcomes if own.failed]
    for own in failed:
        print(f"{own.run.name} failed with {own.statuses}:\n{own.tail}\n")
    missing = [
        (own.run.name, key)
        for own in runs
        for key in plain
        if key[0] in own.run.families and key not in own.levels
    ]
    diverged = [
        (own.run.name, key)
        for own in runs
        for key, (_, status) in own.levels.items()
        if status != plain.get(key, (0.0, status))[1]
    ]
    print(f"{len(runs)} runs, {len(failed)} failed; {len(missing)} levels missing")
    print(f"{len(diverged)} levels with another status than in the plain loop: {diverged}")
    print(f"{'family':<12}{'levels':>8}{'mean':>9}{'rms':>8}{'largest':>9}{'noise of a difference':>23}")
    summary = {}
    for family in FAMILIES:
        ratios = np.array(
            [
                math.log(error / plain[key][0])
                for own in runs
                for key, (error, _) in own.levels.items()
                if key[0] == family and key in plain
            ]
        )
        noise = math.sqrt(2) * spread(plain, family)
        if len(ratios):
            rms, largest = float(np.sqrt(np.mean(ratios**2))), float(np.abs(ratios).max())
            summary[family] = {
                "levels": len(ratios),
                "mean": float(ratios.mean()),
                "rms": rms,
                "largest": largest,
                "noise": noise,
            }
            print(
                f"{family:<12}{len(ratios):>8}{ratios.mean():>9.3f}{rms:>8.3f}{largest:>9.3f}{noise:>23.3f}"
            )
    if given.out:
        told = [
            {
                "run": own.run.name,
                "families": own.run.families,
                "compiled": own.run.compiled,
                "statuses": own.statuses,
                "seconds": own.seconds,
                "cut_off": own.cut_off,
            }
            for own in outcomes
        ]
        given.out.write_text(
            json.dumps(
                {"runs": told, "missing": missing, "diverged": diverged, "families": summary}, indent=1
            )
        )
    sys.exit(1 if failed or missing or diverged else 0)


def spread(levels: Levels, family: str) -> float:
    """The standard deviation of log errors between replicates of one width and level."""
    groups: dict[tuple[float, int], list[float]] = {}
    for (name, width, _, level), (error, _) in levels.items():
        if name == family:
            groups.setdefault((width, level), []).append(math.log(error))
    return math.sqrt(float(np.mean([np.var(own, ddof=1) for own in groups.values()]))) if groups else math.nan


if __name__ == "__main__":
    main()
