"""What the chart that follows the slider shows, as rows."""

from collections.abc import Sequence

import numpy as np

from prunecast.report.answers import Answer
from prunecast.report.charts import Hue, frontier_data
from prunecast.report.curves import Curve, Rows
from prunecast.report.vega import Row, rows


def answer_data(
    measured: Rows,
    members: Sequence[Curve],
    others: Sequence[Curve],
    found: Sequence[Answer],
    own: Hue,
    minimise: str,
) -> dict[str, list[Row]]:
    """What is drawn for one number of examples: every member's curve, measured points and the frontier."""
    frontier = [(size_of(answer, minimise), answer.target) for answer in found if answer.choice.met]
    return frontier_data(measured, members, others, frontier, own)


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
