"""What removing whole channels saves on CIFAR-10: error against parameters, multiply-adds and time.

    python benchmarks/channels.py STORE

times, on one thread of this CPU, the ResNet-20 of width 1 at every level of `measurements/cifar10-resnet-channels.toml`
in STORE, and the unpruned networks of all its sizes. It joins the times with the errors of the shipped tables, whose
networks were all trained with the same recipe on 12,500 images, prints everything, and draws
docs/pictures/channels.png. Times are kept beside the research tables; without STORE, those are read.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
from PIL import Image
from torch import nn

import prunecast
from prunecast import families
from prunecast.export import Timing, time_network
from prunecast.pruning import chain_folder
from prunecast.report.vega import FIGURE, SMALL, colour, dots, figure, layer, log_axis, panel, rendered, rows
from prunecast.spec import ChainSpec
from prunecast.sweep import read_plan

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "channels.png"
TIMES = ROOT / "benchmarks" / "tables" / "cifar10-resnet-channels-latency.csv"
PLAN = ROOT / "measurements" / "cifar10-resnet-channels.toml"
IMAGE = (3, 32, 32)
DEPTH, EXAMPLES = 20, 12_500
HOW = Timing(runtimes=("torch", "onnx"), batches=(1, 64), seconds=0.3)
PASSES = 2
SIZE = ["depth", "width", "level"]
AXES = {
    "remaining_parameters": "parameters",
    "multiply_adds": "multiply-adds",
    "torch_64": "time of 64 images, torch",
    "onnx_64": "time of 64 images, ONNX",
}


def main(store: Path | None) -> None:
    """Time the networks, print, and draw."""
    if store is not None:
        times(store).to_csv(TIMES, index=False, float_format="%.4f")
    found = curves(pd.read_csv(TIMES))
    print(found.to_string(index=False))
    picture = Image.open(io.BytesIO(rendered(drawing(found))["png"]))
    picture.quantize(64).save(PICTURE, optimize=True)


def times(store: Path) -> pd.DataFrame:
    """Milliseconds of each network, the least of some medians: other programs can only make them longer."""
    found: list[dict[str, float]] = []
    for (spec, level), network in networks(store):
        passes = [time_network(network, IMAGE, HOW) for _ in range(PASSES)]
        least = {
            f"{own[0].runtime}_{own[0].batch}": min(each.milliseconds for each in own)
            for own in zip(*passes, strict=True)
        }
        found.append({"depth": spec.depth, "width": spec.width, "level": level, **least})
        print(found[-1], flush=True)
    return pd.DataFrame(found)


def networks(store: Path) -> Iterator[tuple[tuple[ChainSpec, int], nn.Module]]:
    """The unpruned networks, and what is left of the deepest and widest one at each level."""
    for chain in read_plan(PLAN).chains:
        spec = chain.spec
        model = families.build(
            spec.family,
            depth=spec.depth,
            width=spec.width,
            num_classes=10,
            generator=torch.Generator().manual_seed(0),
        )
        yield (spec, 0), model
        if (spec.depth, spec.width) == (DEPTH, 1):
            units, folder = families.find_units(model, IMAGE), chain_folder(store, spec)
            for record in folder.records()[1:]:
                yield (spec, record.level), units.sliced(model, units.kept(folder.masks(record.level)))


def curves(timed: pd.DataFrame) -> pd.DataFrame:
    """Error and sizes, as shares of the unpruned network of depth 20 and width 1."""
    channels = prunecast.read("cifar10-resnet-channels").frame
    channels = channels.merge(timed, on=SIZE)
    deep = channels[channels["depth"] == DEPTH]
    whole = deep[(deep["width"] == 1) & (deep["level"] == 0)].iloc[0]
    single = prunecast.read("cifar10-resnet-exact").frame
    single = single[
        (single["depth"] == DEPTH) & (single["width"] == 1) & (single["num_examples"] == EXAMPLES)
    ]
    single = single[single["error"] <= deep["error"].max()]
    stored = single["parameters"] - single["weights"] + single["nonzero"]
    saved_nothing = {column: whole[column] for column in AXES}
    parts = {
        "single weights": single.assign(**{**saved_nothing, "remaining_parameters": stored}),
        "whole channels": deep[deep["width"] == 1],
        "smaller, unpruned": channels[channels["level"] == 0].sort_values("multiply_adds", ascending=False),
    }
    found = pd.concat([own.assign(curve=name) for name, own in parts.items()])
    for column in [*AXES, "torch_1", "onnx_1"]:
        found[column] = found[column] / whole[column]
    columns = ["curve", *SIZE, "error", *AXES, "torch_1", "onnx_1"]
    return pd.DataFrame(found[columns])


def drawing(found: pd.DataFrame) -> dict[str, object]:
    """Error against each size."""
    names = list(found["curve"].unique())
    panels = []
    for column, words in AXES.items():
        data = [
            row
            for name, own in found.groupby("curve", sort=False)
            for row in rows(size=own[column], error=own["error"], place=range(len(own)), hue=str(name))
        ]
        encoding = {
            "x": log_axis("size", f"{words}, share of unpruned", list(found[column])),
            "y": log_axis("error", "test error", list(found["error"])),
            "color": colour("hue", "", names, FIGURE),
        }
        order = {"order": {"field": "place", "type": "quantitative"}}
        connected = [row for row in data if row["hue"] != names[-1]]
        layers = [layer(connected, "line", {**encoding, **order}, strokeWidth=1.2), dots(data, encoding)]
        panels.append(panel(words[0].upper() + words[1:], layers, size=SMALL))
    drawn = {**figure(panels, one_legend=True), "columns": 2}
    drawn["config"] = drawn["config"] | {"legend": {**drawn["config"].get("legend", {}), "orient": "top"}}
    return drawn


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
