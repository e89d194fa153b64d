"""What whole channels save: errors on the digits, and the latency of a ResNet-20 without some of its channels.

    python benchmarks/channels.py FOLDER

trains the plan below into FOLDER (some minutes on two cores), times a CIFAR ResNet-20 without the same share of
the channels of every layer, prints both, and draws docs/pictures/channels.png.
"""

import csv
import sys
import time
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from prunecast import families
from prunecast.export import Timing, time_network
from prunecast.report.vega import FIGURE, WIDE, colour, dots, figure, layer, log_axis, panel, rendered, rows
from prunecast.sweep import export, read_plan, run_plan

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "channels.png"
PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = 4
num_examples = 600
recipe = {preset = "digits", name = "short", epochs = 12, drops = [8], rewind = 1}
replicates = 2
[[grid]]
width = 1
method = ["imp", "imp-channels"]
level_cap = 14
[[grid]]
width = [0.125, 0.1875, 0.25, 0.375, 0.5, 0.75]
method = "none"
level_cap = 0
"""
NAMES = {"imp": "single weights", "imp-channels": "whole channels", "none": "trained small"}
SHARES = (1.0, 0.8, 0.65, 0.5, 0.35, 0.25)
"""Channels that are kept of every layer of the ResNet-20."""
HOW = Timing(runtimes=("torch", "onnx"), batches=(1, 64), seconds=1.0, clock=time.thread_time)
"""The time of the thread itself, so that a busy machine does not matter much."""


def errors(folder: Path) -> list[dict[str, object]]:
    """The mean error over replicates against parameters that are left, for each way of getting there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    plan = read_plan(folder / "plan.toml")
    for _ in run_plan(plan, folder / "store"):
        pass
    export(plan, folder / "store", folder / "table.csv")
    with (folder / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in table:
        groups.setdefault((row["method"], row["width"], row["level"]), []).append(row)
    found: list[dict[str, object]] = []
    for (method, _, _), own in groups.items():
        found += rows(
            parameters=[fmean(float(row["remaining_parameters"]) for row in own)],
            error=[max(0.5 / 500, fmean(float(row["error"]) for row in own))],
            hue=NAMES[method],
        )
    return found


def latencies() -> list[dict[str, object]]:
    """How many times faster a ResNet-20 is without channels, against the multiply-adds that are left."""
    model = families.build(
        "cifar_resnet", depth=20, width=1, num_classes=10, generator=torch.Generator().manual_seed(0)
    )
    units = families.find_units(model, (3, 32, 32))
    whole = time_network(model, (3, 32, 32), HOW)
    full = units.sizes(units.everything()).multiply_adds or 1
    found: list[dict[str, object]] = []
    for share in SHARES:
        counts = np.bincount(units.groups)
        kept = units.first(
            {name: max(1, round(share * own)) for name, own in zip(units.names, counts, strict=True)}
        )
        products = units.sizes(kept).multiply_adds or 0
        for own, before in zip(time_network(units.sliced(model, kept), (3, 32, 32), HOW), whole, strict=True):
            faster = before.milliseconds / own.milliseconds
            name = f"{own.runtime}, batch {own.batch}"
            print(
                f"{share:5.2f} of the channels, {products / full:5.2f} of the multiply-adds, {name:16}"
                f" {own.milliseconds:8.3f} ms ({own.low:.3f} to {own.high:.3f}), {faster:.2f} times faster"
            )
            found += rows(products=[products / full], faster=[faster], hue=name)
    return found


def draw(measured: list[dict[str, object]], timed: list[dict[str, object]]) -> None:
    """Both as one picture."""
    panels = []
    for title, own, x, y in (
        ("Digits: error", measured, ("parameters", "parameters left"), ("error", "test error")),
        ("ResNet-20: speed", timed, ("products", "share of multiply-adds left"), ("faster", "times faster")),
    ):
        names = list(dict.fromkeys(str(row["hue"]) for row in own))
        encoding = {
            "x": log_axis(x[0], x[1], [float(str(row[x[0]])) for row in own]),
            "y": log_axis(y[0], y[1], [float(str(row[y[0]])) for row in own]),
            "color": colour("hue", "", names, FIGURE),
        }
        layers = [layer(own, "line", encoding, strokeWidth=1.2), dots(own, encoding)]
        panels.append(panel(title, layers, size=WIDE))
    PICTURE.write_bytes(rendered(figure(panels, one_legend=False))["png"])


if __name__ == "__main__":
    draw(errors(Path(sys.argv[1])), latencies())
