"""The chart that follows the slider, as Vega-Lite."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prunecast.report.answers import Answer
from prunecast.report.charts import Hue, curve_rows, lines, point_rows, points
from prunecast.report.curves import Curve, Rows
from prunecast.report.vega import Row, Spec, chart, colour, log_axis, rows

UNITS = {
    "stored": "stored parameters",
    "nonzero": "non-zero weights",
    "multiply-adds": "multiply-adds of one image",
    "paper": "depth · width² · density",
}
DRAWN = ("points", "frontier")
"""What an axis has to hold."""


def answer_data(
    measured: Rows,
    members: Sequence[Curve],
    others: Sequence[Curve],
    found: Sequence[Answer],
    own: Hue,
    minimise: str,
) -> dict[str, list[Row]]:
    """What is drawn for one number of examples: every member's curve, measured points and the frontier."""
    met = [answer for answer in found if answer.choice.met]
    return {
        "members": line_rows(members, own),
        "others": line_rows(others, own),
        "points": point_rows(measured, own),
        "frontier": rows(
            line=[0] * len(met),
            density=[-i for i in range(len(met))],
            error=[a.target for a in met],
            size=[size_of(a, minimise) for a in met],
        ),
    }


def line_rows(curves: Sequence[Curve], own: Hue) -> list[Row]:
    """Points of predicted curves with no more than this chart needs."""
    needed = ("line", "hue", "error", "size", "density")
    return [{name: row[name] for name in needed} for row in curve_rows(curves, own)]


def answer_chart(
    all_data: Sequence[Mapping[str, list[Row]]], first: Mapping[str, list[Row]], own: Hue, unit: str
) -> Spec:
    """Error against size: sizes of all numbers of examples, errors of the one that is shown."""
    sizes = [row["size"] for data in all_data for name in ("members", *DRAWN) for row in data[name]]
    x, y = log_axis("size", unit, sizes), error_axis(first)
    params = view(first)
    y["scale"] = {"type": "log", "nice": False, "domain": [{"expr": "low"}, {"expr": "high"}]}
    y["axis"]["values"] = {"expr": "labels"}
    coloured = lines(x, y, "members", strokeWidth=1.6, opacity=0.75)
    coloured["encoding"]["color"] = colour("hue", own.title, own.names)
    layers = [
        lines(x, y, "others", strokeWidth=0.8, opacity=0.55, color="var(--faint)"),
        coloured,
        points(x, y, own, len(first["points"])),
        lines(x, y, "frontier", strokeWidth=3.2, color="var(--ink)", opacity=0.9),
        *_chosen_layers(x, y),
    ]
    drawn = chart(
        "Test error against size of pruned networks; the same answers stand in the table below.",
        440,
        first,
        layers,
    )
    return {**drawn, "params": [{"name": name, "value": value} for name, value in params.items()]}


def error_axis(data: Mapping[str, list[Row]]) -> Spec:
    """The axis that holds the errors drawn for one number of examples."""
    return log_axis("error", "test error", [row["error"] for name in DRAWN for row in data[name]])


def view(data: Mapping[str, list[Row]]) -> dict[str, Any]:
    """Where that axis begins and ends and which labels it has, for the page to set."""
    axis = error_axis(data)
    low, high = axis["scale"]["domain"]
    return {"low": low, "high": high, "labels": axis["axis"]["values"]}


def _chosen_layers(x: Spec, y: Spec) -> list[Spec]:
    """The target as a line across, and the chosen network with its interval."""
    accent = "var(--accent)"
    return [
        {
            "data": {"name": "target"},
            "mark": {"type": "rule", "color": accent, "strokeDash": [5, 4], "strokeWidth": 1.4, "clip": True},
            "encoding": {"y": y},
        },
        {
            "data": {"name": "chosen"},
            "mark": {"type": "rule", "color": accent, "strokeWidth": 2.4, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": {"name": "chosen"},
            "mark": {
                "type": "point",
                "filled": True,
                "size": 190,
                "color": accent,
                "stroke": "var(--paper)",
                "strokeWidth": 2.5,
                "opacity": 1,
            },
            "encoding": {"x": x, "y": y},
        },
    ]


def chosen(answer: Answer, minimise: str) -> dict[str, list[Row]]:
    """The two data sets that follow the slider."""
    low, high = answer.network.interval
    return {
        "target": rows(error=[answer.target]),
        "chosen": rows(
            size=[size_of(answer, minimise)], error=[answer.network.error], low=[low], high=[high]
        ),
    }


def size_of(answer: Answer, minimise: str) -> float:
    """The chosen network's size in the measure that is minimised."""
    best = answer.network
    sizes = {
        "stored": best.stored_parameters,
        "nonzero": best.nonzero_parameters,
        "paper": best.paper_size,
        "multiply-adds": best.multiply_adds or np.nan,
    }
    return float(sizes[minimise])
