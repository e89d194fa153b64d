"""Pieces of Vega-Lite that every chart of the page shares: axes, colours that follow the theme, rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prunecast.report.palette import OKABE_ITO, colours

Spec = dict[str, Any]
Row = dict[str, Any]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PLAIN = ",.10~g"
"""Plain numbers with thousands apart, never powers of ten."""
STEPS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (3.5, (1,)),
    (2.2, (1, 3)),
    (1.3, (1, 2, 5)),
    (0.5, (1, 2, 3, 4, 6, 8)),
    (-1.0, (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)),
)
"""First digits of the labels on an axis that spans more than so many powers of ten."""
BARE = 0.09
"""Where more than this share of an axis has no label at its lower end, finer digits give some."""
CONFIG: Spec = {
    "font": FONT,
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "gridColor": "var(--grid)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "labelOverlap": True,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--muted)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "orient": "bottom",
        "layout": {"bottom": {"anchor": "start", "direction": "vertical"}},
        "columns": 10,
        "symbolSize": 70,
        "symbolBaseFillColor": "var(--muted)",
        "symbolBaseStrokeColor": "var(--muted)",
    },
    "text": {"color": "var(--ink)", "fontSize": 12},
    "rule": {"color": "var(--line)"},
}


def rounded(value: object) -> object:
    """Numbers with five significant digits, so that a page stays small; everything else as text."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return float(f"{float(value):.5g}") if np.isfinite(value) else None
    return str(value)


def rows(**columns: Iterable[object]) -> list[Row]:
    """Columns as the records a chart reads."""
    names = list(columns)
    return [
        dict(zip(names, map(rounded, values), strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def ticks(values: Iterable[float]) -> list[float]:
    """Round places for the labels of a logarithmic axis: by tens, and more between where that would be too few."""
    found = np.array([value for value in values if value is not None and np.isfinite(value) and value > 0])
    if not len(found):
        return [1.0]
    low, high = float(found.min()), float(found.max())
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    span = np.log10(high / low)
    steps = next(steps for least, steps in STEPS if span > least)

    def inside(digits: Sequence[float]) -> list[float]:
        places = [float(f"{digit * 10.0**decade:.4g}") for decade in decades for digit in digits]
        return [place for place in places if low * 0.999 <= place <= high * 1.001]

    places, least, finer = inside(steps), 10.0 ** (BARE * span), list[float]()
    for place in inside(STEPS[-1][1]):
        if places and place * least < places[0] and (not finer or place > finer[-1] * least):
            finer.append(place)
    places = [*finer, *places]
    return places if len(places) > 1 else [float(f"{low:.2g}"), float(f"{high:.2g}")]


def log_axis(field: str, title: str, values: Iterable[float]) -> Spec:
    """A logarithmic axis labelled in plain numbers."""
    found = [value for value in values if value is not None and np.isfinite(value) and value > 0]
    domain = [min(found) * 0.93, max(found) * 1.07] if found else [0.1, 1.0]
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "domain": [rounded(end) for end in domain], "nice": False},
        "axis": {"values": ticks(domain), "format": PLAIN},
    }


def colour(field: str, title: str, domain: Sequence[str]) -> Spec:
    """A colour for each value; the palette's own are taken from the page's theme."""
    own = [f"var(--series-{OKABE_ITO.index(c) + 1})" if c in OKABE_ITO else c for c in colours(len(domain))]
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "sort": list(domain),
        "scale": {"domain": list(domain), "range": own},
        "legend": {"symbolOpacity": 1},
    }


def tooltip(fields: Mapping[str, str]) -> list[Spec]:
    """What is said of a point: fields with their titles."""
    return [{"field": field, "title": title} for field, title in fields.items()]


def chart(description: str, height: int, datasets: Mapping[str, list[Row]], layers: list[Spec]) -> Spec:
    """A layered chart as wide as its place on the page."""
    return {
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "datasets": dict(datasets),
        "layer": layers,
        "config": CONFIG,
    }
