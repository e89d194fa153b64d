"""Pieces of Vega-Lite that every chart shares: themes, rows, axes labelled in plain numbers, and colours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Spec = dict[str, Any]
Row = dict[str, Any]
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
OKABE_ITO = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#8C7A2B")
"""The colour-blind safe palette of Okabe and Ito, its yellow darkened so that it can be seen on white."""
VIRIDIS = (
    *("#440154", "#482475", "#414487", "#355F8D", "#2A788E"),
    *("#21918C", "#22A884", "#44BF70", "#7AD151", "#BDDF26"),
)
"""Steps of viridis, for more values than the palette has colours."""
HUES = ("ink", "muted", "line", "grid", "faint", "accent", "paper")


@dataclass(frozen=True, kw_only=True)
class Theme:
    """How a chart looks: its colours, font, sizes and the place of its legends."""

    ink: str
    muted: str
    line: str
    grid: str
    faint: str
    accent: str
    paper: str
    series: tuple[str, ...]
    """colours that tell values apart"""
    font: str
    font_size: int
    background: str | None
    legend: Spec
    translucent: bool
    """whether dots let others shine through; a PDF of translucent dots is thirty times as large"""

    def colours(self, amount: int) -> list[str]:
        """As many colours, in order."""
        if amount <= len(self.series):
            return list(self.series[:amount])
        return [VIRIDIS[round(i * (len(VIRIDIS) - 1) / (amount - 1))] for i in range(amount)]

    @property
    def config(self) -> Spec:
        """The part of a specification that says how everything looks."""
        text = {"labelFontSize": self.font_size, "titleFontWeight": "normal"}
        title = {"fontSize": self.font_size + 1, "fontWeight": "normal", "anchor": "start"}
        return {
            "font": self.font,
            "background": self.background,
            "view": {"stroke": None},
            "axis": {
                **text,
                "titleFontSize": self.font_size + 1,
                "labelColor": self.muted,
                "titleColor": self.muted,
                "gridColor": self.grid,
                "domainColor": self.line,
                "tickColor": self.line,
                "titlePadding": 10,
                "labelOverlap": True,
                "labelSeparation": 4,
            },
            "legend": {
                **text,
                "titleFontSize": self.font_size,
                "labelColor": self.ink,
                "titleColor": self.muted,
                "symbolSize": 70,
                "symbolBaseFillColor": self.muted,
                "symbolBaseStrokeColor": self.muted,
                **self.legend,
            },
            "title": {
                **title,
                "color": self.ink,
                "subtitleColor": self.muted,
                "subtitleFontSize": self.font_size,
            },
            "text": {"color": self.ink, "fontSize": self.font_size},
            "rule": {"color": self.line},
        }


PAGE = Theme(
    **{name: f"var(--{name})" for name in HUES},
    series=tuple(f"var(--series-{index + 1})" for index in range(len(OKABE_ITO))),
    font="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    font_size=12,
    background=None,
    legend={
        "orient": "bottom",
        "layout": {"bottom": {"anchor": "start", "direction": "vertical"}},
        "columns": 10,
    },
    translucent=True,
)
"""The page's charts take their colours from its style sheet, which knows light, dark and print."""
FIGURE = Theme(
    ink="#1B1F24",
    muted="#3F4650",
    line="#5B6470",
    grid="#E6E9EE",
    faint="#C9CED6",
    accent="#C2372E",
    paper="#FFFFFF",
    series=OKABE_ITO,
    font="Liberation Sans, Arial, Helvetica, sans-serif",
    font_size=12,
    background="#FFFFFF",
    legend={"orient": "right", "offset": 12},
    translucent=False,
)
"""Figures have fixed colours, and a font that comes with the renderer, so that they look alike everywhere."""


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
    found = _positive(values)
    if not found:
        return [1.0]
    low, high = min(found), max(found)
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


def _positive(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values if value is not None and np.isfinite(value) and value > 0]


def log_axis(field: str, title: str, values: Iterable[float], margin: float = 1.07) -> Spec:
    """A logarithmic axis labelled in plain numbers."""
    found = _positive(values)
    domain = [min(found) / margin, max(found) * margin] if found else [0.1, 1.0]
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "domain": [rounded(end) for end in domain], "nice": False},
        "axis": {"values": ticks(domain), "format": PLAIN},
    }


def axis(field: str, title: str, domain: Sequence[float] | None = None) -> Spec:
    """A linear axis labelled in plain numbers."""
    scale = {"domain": [rounded(end) for end in domain], "nice": False} if domain else {"zero": False}
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": {"format": PLAIN},
    }


def colour(field: str, title: str, domain: Sequence[str], theme: Theme = PAGE) -> Spec:
    """A colour for each value, with a legend where there are several."""
    return {
        "field": field,
        "type": "nominal",
        "title": title or None,
        "sort": list(domain),
        "scale": {"domain": list(domain), "range": theme.colours(len(domain))},
        "legend": {"symbolOpacity": 1} if len(domain) > 1 else None,
    }


def layer(data: str, mark: str, encoding: Mapping[str, Spec], **options: object) -> Spec:
    """One layer of a chart: marks of one kind, cut off at the axes."""
    return {
        "data": {"name": data},
        "mark": {"type": mark, "clip": True, **options},
        "encoding": dict(encoding),
    }


def tooltip(fields: Mapping[str, str]) -> list[Spec]:
    """What a pointer over a mark shows: fields with their titles."""
    return [{"field": field, "title": title} for field, title in fields.items()]


def chart(
    description: str,
    height: int,
    datasets: Mapping[str, list[Row]],
    layers: list[Spec],
    theme: Theme = PAGE,
) -> Spec:
    """A layered chart as wide as its place on the page."""
    return {
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "datasets": dict(datasets),
        "layer": layers,
        "config": theme.config,
    }
