"""The chart that follows the slider, as Vega-Lite."""

from collections.abc import Sequence

import numpy as np

from prunecast.report.answers import Answer
from prunecast.report.charts import Hue, curve_rows, point_rows
from prunecast.report.curves import Curve, Rows
from prunecast.report.vega import Row, rows

UNITS = {
    "stored": "stored parameters",
    "nonzero": "non-zero weights",
    "multiply-adds": "multiply-adds of one image",
    "paper": "depth · width² · density",
}


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
