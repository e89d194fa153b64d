"""The chart that follows the slider, as Vega-Lite."""

from collections.abc import Sequence

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


def answer_chart(
    measured: Rows,
    members: Sequence[Curve],
    others: Sequence[Curve],
    found: Sequence[Answer],
    start: int,
    own: Hue,
    minimise: str,
) -> Spec:
    """Error against size: every member's curve, measured points, the frontier, and the network chosen."""
    met = [answer for answer in found if answer.choice.met]
    frontier = rows(
        line=[0] * len(met),
        density=[-i for i in range(len(met))],
        error=[a.target for a in met],
        size=[size_of(a, minimise) for a in met],
    )
    sizes = [*measured.size, *(value for curve in members for value in curve.size)]
    errors = [*measured.error, *(row["error"] for row in frontier)]
    x = log_axis("size", UNITS[minimise], sizes)
    y = log_axis("error", "test error", errors)
    colours = colour("hue", own.title, own.names)
    coloured = lines(x, y, "members", strokeWidth=1.6, opacity=0.75)
    coloured["encoding"]["color"] = colours
    datasets = {
        "members": curve_rows(members, own),
        "others": curve_rows(others, own),
        "points": point_rows(measured, own),
        "frontier": frontier,
        **chosen(found[start], minimise),
    }
    layers = [
        lines(x, y, "others", strokeWidth=0.8, opacity=0.55, color="var(--faint)"),
        coloured,
        points(x, y, own),
        lines(x, y, "frontier", strokeWidth=3.2, color="var(--ink)", opacity=0.9),
        *_chosen_layers(x, y),
    ]
    return chart(
        "Test error against size of pruned networks; the same answers stand in the table below.",
        440,
        datasets,
        layers,
    )


def _chosen_layers(x: Spec, y: Spec) -> list[Spec]:
    """The target as a line across, and the chosen network with its interval."""
    accent = "var(--accent)"
    return [
        {
            "data": {"name": "target"},
            "mark": {"type": "rule", "color": accent, "strokeDash": [5, 4], "strokeWidth": 1.4},
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
