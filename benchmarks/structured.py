"""What each structure of pruning saves at equal error: parameters, and milliseconds of one CPU thread.

    python benchmarks/structured.py FOLDER
    PRUNECAST_DATA=DATA python benchmarks/structured.py FOLDER cifar10

trains a plan below into FOLDER (digits: some minutes on two cores; CIFAR-10, which DATA has: most of an hour on one
core), times every network of it in PyTorch and ONNX Runtime, and prints how many times smaller and faster than the
unpruned network each structure gets at no larger an error. For the digits it draws docs/pictures/structured.png. The
same command continues after a stop.

Two replicates and the 1,197 test images of the digits show no differences in error below about 0.004. The second limit
of the digits was set after a first look at the errors, because at an equal error no network that was trained small is
left. Those of CIFAR-10 were set before anything was trained.
"""

import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import torch

from prunecast.export import Latency, TimedLevel, Timing, fastest, time_table, trained_chains
from prunecast.report.vega import (
    FIGURE,
    SMALL,
    Row,
    colour,
    dots,
    figure,
    layer,
    log_axis,
    panel,
    rendered,
    rows,
)
from prunecast.sweep import event_line, read_plan, run_plan

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "structured.png"
DIGITS = """
family = "digits_cnn"
dataset = "digits"
depth = 4
num_examples = 600
recipe = {preset = "digits", name = "short", epochs = 12, drops = [8], rewind = 1}
replicates = 2
[[grid]]
width = 3
method = "imp"
level_cap = 8
[[grid]]
width = 3
method = {name = "imp-channels", structure = "channels", fraction = 0.15}
level_cap = 8
[[grid]]
width = 3
method = "imp-2:4"
[[grid]]
width = [0.5, 1, 1.5, 2, 2.5]
method = "none"
level_cap = 0
"""
CIFAR10 = """
family = "cifar_resnet"
dataset = "cifar10"
depth = 8
num_examples = 2500
recipe = {preset = "cifar10", name = "short", epochs = 8, schedule = "cosine", warmup = 1, rewind = 1, batch_size = 32}
[[grid]]
width = 1
method = {name = "imp-channels", structure = "channels", fraction = 0.2}
level_cap = 6
[[grid]]
width = [0.25, 0.35, 0.5, 0.71]
method = "none"
level_cap = 0
[[grid]]
width = 1
method = {name = "layerwise", structure = "channels", score = "layerwise-magnitude", fraction = 0.2}
level_cap = 3
[[grid]]
width = 1
replicates = [1]
method = {name = "imp-channels", structure = "channels", fraction = 0.2}
level_cap = 1
"""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is trained, and the errors that are compared."""

    plan: str
    unpruned: str
    """The method whose level 0 is the unpruned network."""
    more_error: tuple[float, ...]
    """What networks may have beyond an error equal to the unpruned one's."""
    picture: Path | None = None
    passes: int = 3
    """All networks are timed so often, one after the other, and the least of these medians counts."""


PROBLEMS = {
    "digits": Problem(plan=DIGITS, unpruned="imp", more_error=(0.0, 0.005), picture=PICTURE),
    "cifar10": Problem(plan=CIFAR10, unpruned="imp-channels", more_error=(0.0, 0.01, 0.02), passes=2),
}
NAMES = {
    "imp": "single weights",
    "imp-channels": "channels",
    "layerwise": "channels, by layer",
    "imp-2:4": "2:4",
    "none": "small one from scratch",
}
HOW = Timing(runtimes=("torch", "onnx"), batches=(1, 64), seconds=0.25)
PARAMETERS = "parameters"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A network of one way of pruning, mean over replicates."""

    structure: str
    error: float
    sizes: dict[str, float]
    """parameters, and milliseconds by runtime and batch"""


def trained(folder: Path, problem: Problem) -> list[TimedLevel]:
    """Every network of the plan, trained and timed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(problem.plan, encoding="utf-8")
    plan = read_plan(folder / "plan.toml")
    for event in run_plan(plan, folder / "store"):
        print(event_line(plan, event), flush=True)
    chains = trained_chains(plan, folder / "store")
    passes = [list(time_table(chains, folder / "store", HOW)) for _ in range(problem.passes)]
    return [
        replace(same[0], latencies=fastest([own.latencies for own in same]))
        for same in zip(*passes, strict=True)
    ]


def points(levels: Iterable[TimedLevel]) -> list[Point]:
    """Means over replicates, by structure, width and level; the unpruned network begins the curve of each structure."""
    groups: dict[tuple[str, float, int], list[TimedLevel]] = {}
    for own in levels:
        groups.setdefault((own.spec.method.name, own.spec.width, own.record.level), []).append(own)
    return [
        Point(
            structure=NAMES[method],
            error=fmean(own.record.error for own in replicates),
            sizes={
                PARAMETERS: fmean(own.record.remaining_parameters or 0 for own in replicates),
                **{
                    axis: fmean(own.latencies[place].milliseconds for own in replicates)
                    for place, axis in enumerate(map(axis_name, replicates[0].latencies))
                },
            },
        )
        for (method, _, _), replicates in groups.items()
    ]


def axis_name(own: Latency) -> str:
    """A runtime and a batch in words."""
    return f"{'ONNX Runtime' if own.runtime == 'onnx' else own.runtime}, batch {own.batch}"


def unpruned(levels: Sequence[TimedLevel], method: str) -> tuple[Point, float]:
    """The unpruned network, and the largest error that counts as equal to its own: mean plus standard deviation."""
    own = [level for level in levels if level.spec.method.name == method and not level.record.level]
    (whole,) = points(own)
    return whole, whole.error + stdev(level.record.error for level in own)


def table(found: Sequence[Point], whole: Point, equal: float, more_error: Sequence[float]) -> None:
    """How many times smaller and faster each structure gets, for each error allowed."""
    print(f"\n{platform.machine()}, torch {torch.__version__}, one thread; unpruned error {whole.error:.4f}")
    print("".join(f"{axis}: {size:,.4g}\n" for axis, size in whole.sizes.items()))
    for more in more_error:
        limit = equal + more
        print(f"Times fewer or faster than unpruned, the best network with an error of at most {limit:.4f}:")
        print(f"{'':24}" + "".join(f"{axis:>24}" for axis in whole.sizes))
        for name in dict.fromkeys(own.structure for own in found):
            good = [own for own in found if own.structure == name and own.error <= limit]
            ratios = [
                f"{max(size / own.sizes[axis] for own in good):.2f}" if good else "none"
                for axis, size in whole.sizes.items()
            ]
            print(f"{name:24}" + "".join(f"{ratio:>24}" for ratio in ratios))
    print("\nEvery network: error, then sizes in the same order")
    for own in found:
        print(
            f"{own.structure:24}{own.error:.4f}  " + "".join(f"{size:>12,.4g}" for size in own.sizes.values())
        )


def draw(found: Sequence[Point], whole: Point, picture: Path) -> None:
    """Error against each size, relative to the unpruned network's."""
    names = list(dict.fromkeys(own.structure for own in found))
    panels = []
    for axis, size in whole.sizes.items():
        data: list[Row] = []
        for name in names:
            own = [point for point in found if point.structure == name]
            data += rows(
                size=[point.sizes[axis] / size for point in own],
                error=[point.error for point in own],
                place=range(len(own)),
                hue=name,
            )
        words = "parameters" if axis == PARAMETERS else "milliseconds"
        encoding = {
            "x": log_axis("size", f"{words}, share of unpruned", [float(row["size"]) for row in data]),
            "y": log_axis("error", "test error", [point.error for point in found]),
            "color": colour("hue", "", names, FIGURE),
        }
        order = {"order": {"field": "place", "type": "quantitative"}}
        layers = [layer(data, "line", {**encoding, **order}, strokeWidth=1.2), dots(data, encoding)]
        panels.append(panel(axis[0].upper() + axis[1:], layers, size=SMALL))
    drawn = {**figure(panels, one_legend=True), "columns": 2}
    drawn["config"] = drawn["config"] | {"legend": {**drawn["config"].get("legend", {}), "orient": "top"}}
    picture.write_bytes(rendered(drawn)["png"])


def main(folder: Path, name: str = "digits") -> None:
    """Train, time, print and draw."""
    problem = PROBLEMS[name]
    levels = trained(folder, problem)
    found = points(levels)
    whole, limit = unpruned(levels, problem.unpruned)
    table(found, whole, limit, problem.more_error)
    if problem.picture is not None:
        draw(found, whole, problem.picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
