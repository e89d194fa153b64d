"""Pieces of Vega-Lite that page and figures share: themes, rows, axes labelled in plain numbers, colours, panels."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
"""First digits of the labels of an axis, by the number of powers of ten that it exceeds."""
BARE = 0.09
"""Where more than this share of an axis has no label at its lower end, finer digits give some."""
OKABE_ITO = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#8C7A2B")
"""The colour-blind safe palette of Okabe and Ito, its yellow darkened so that it can be seen on white."""
VIRIDIS = (
    *("#440154", "#482475", "#414487", "#355F8D", "#2A788E"),
    *("#21918C", "#22A884", "#44BF70", "#7AD151", "#BDDF26"),
)
"""Steps of viridis, for more values than the palette has colours."""
SMALL, WIDE = (320, 240), (380, 270)
"""Width and height of a panel of a figure in points, without its axes and legend."""
COLUMNS = 3
PIXELS_PER_POINT = 2.0
RESOURCES = re.compile(rb"(?:^ +/\w+ \d+ 0 R\n)+", re.MULTILINE)
"""A list of references in a PDF file."""
CLIP = re.compile(r'(?<=#|")clip\d+')
"""The name of a clipping path in an SVG file."""
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
    """colours of the values of an axis, in order"""
    font: str
    font_size: int
    background: str | None
    axis: Spec
    legend: Spec
    translucent: bool
    """whether dots are translucent; a PDF file of translucent dots is thirty times as large"""

    def colours(self, amount: int) -> list[str]:
        """As many colours, in order."""
        if amount <= len(self.series):
            return list(self.series[:amount])
        return [VIRIDIS[round(i * (len(VIRIDIS) - 1) / (amount - 1))] for i in range(amount)]

    @property
    def config(self) -> Spec:
        """The part of a specification that says how everything looks."""
        text = {"labelFontSize": self.font_size, "titleFontWeight": "normal"}
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
                **self.axis,
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
            "text": {"color": self.ink, "fontSize": self.font_size},
            "rule": {"color": self.line},
        }


PAGE = Theme(
    **{name: f"var(--{name})" for name in HUES},
    series=tuple(f"var(--series-{index + 1})" for index in range(len(OKABE_ITO))),
    font="system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    font_size=12,
    background=None,
    axis={"labelOverlap": "greedy", "labelSeparation": 4},
    legend={
        "orient": "bottom",
        "layout": {"bottom": {"anchor": "start", "direction": "vertical"}},
        "columns": 10,
    },
    translucent=True,
)
"""The page's charts take their colours from its style sheet, which has a light, a dark and a print version."""
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
    axis={"labelOverlap": "greedy", "labelSeparation": 4, "labelFlush": False},
    legend={"orient": "right", "offset": 12},
    translucent=False,
)
"""Figures have fixed colours, and a font that comes with the renderer, so that they look alike everywhere."""


def rounded(value: object) -> object:
    """A number with five significant digits, which keeps pages small; anything else as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        return float(f"{float(value):.5g}") if np.isfinite(value) else None
    return str(value)


def rows(**columns: Iterable[object] | str | float) -> list[Row]:
    """Columns as the records that a chart reads; a single word or number is repeated in every record."""
    lists = {name: _column(own) for name, own in columns.items() if not isinstance(own, str | float | int)}
    amount = len(next(iter(lists.values())))
    found = {name: lists[name] if name in lists else [rounded(own)] * amount for name, own in columns.items()}
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _column(values: Iterable[object]) -> list[object]:
    """Values as `rounded` makes them; arrays of numbers take a faster way."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isfinite(values).all():
        return [float(f"{value:.5g}") for value in values.tolist()]
    return [rounded(value) for value in values]


def ticks(values: Iterable[float]) -> list[float]:
    """Round labels for a logarithmic axis: powers of ten, and values between them if these are too few."""
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
    return places if len(places) > 1 else _even_ticks(low, high)


def _even_ticks(low: float, high: float) -> list[float]:
    """Two or more evenly spaced round numbers between two ends; one number if both ends are equal."""
    if low == high:
        return [float(f"{low:.2g}")]
    unit = 10.0 ** np.floor(np.log10(high - low))
    for step in (unit, unit / 2, unit / 5):
        places = [float(f"{step * i:.4g}") for i in range(int(np.ceil(low / step)), int(high / step) + 1)]
        if len(places) > 1:
            break
    return places


def _positive(values: Iterable[float]) -> list[float]:
    return [float(value) for value in values if value is not None and np.isfinite(value) and value > 0]


def log_axis(field: str, title: str, values: Iterable[float], margin: float = 1.07) -> Spec:
    """A logarithmic axis labelled in plain numbers."""
    found = _positive(values)
    domain = [min(found) * (2 - margin), max(found) * margin] if found else [0.1, 1.0]
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"type": "log", "domain": [rounded(end) for end in domain], "nice": False},
        "axis": {"values": ticks(domain), "format": PLAIN},
    }


def axis(field: str, title: str, domain: Sequence[float]) -> Spec:
    """A linear axis labelled in plain numbers."""
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [rounded(end) for end in domain], "nice": False},
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


def layer(data: str | list[Row], mark: str, encoding: Mapping[str, Any], **options: object) -> Spec:
    """One layer of a chart: marks of one kind, cut off at the axes, of named data or of rows given here."""
    return {
        "data": {"name": data} if isinstance(data, str) else {"values": data},
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


def dots(data: list[Row], encoding: Mapping[str, Any], size: int = 34, **options: object) -> Spec:
    """A layer of dots."""
    return layer(data, "point", encoding, filled=True, size=size, opacity=1, **options)


def bars(data: list[Row], encoding: Mapping[str, Any], **options: object) -> Spec:
    """A layer of the bars of a histogram, made by `bins`."""
    ends = {"x2": {"field": "end"}, "y2": {"field": "base"}}
    return layer(data, "rect", {**encoding, **ends}, **options)


def bins(edges: NDArray[np.float64], heights: NDArray[Any], hue: str = "") -> list[Row]:
    """The bars of a histogram as rows."""
    return rows(start=edges[:-1], end=edges[1:], height=heights, base=0, hue=hue)


def layers_of(spec: Spec) -> list[Spec]:
    """The layers of a chart for a panel of a figure: with their data, without tooltips."""
    return [
        {
            **own,
            "data": {"values": spec["datasets"][own["data"]["name"]]},
            "encoding": {name: value for name, value in own["encoding"].items() if name != "tooltip"},
        }
        for own in spec["layer"]
    ]


def at(own: Spec, value: float) -> Spec:
    """A fixed place on an axis, whose grid stays."""
    kept = {name: part for name, part in own.items() if name != "field"}
    return {**kept, "axis": {**own["axis"], "grid": True}, "datum": rounded(value)}


def fixed(mark: str, encoding: Mapping[str, Any], **options: object) -> Spec:
    """A layer of one mark that no data move: a line across, words, a background."""
    return layer([{}], mark, encoding, **options)


def panel(title: str, layers: Sequence[Spec], subtitle: str = "", size: tuple[int, int] = SMALL) -> Spec:
    """One panel of a figure; titles are marks, so that those of panels side by side align."""
    above, titles = 10, []
    for words, larger, ink in ((subtitle, 0, FIGURE.muted), (title, 1, FIGURE.ink)):
        if words:
            place = {"x": {"value": 0}, "y": {"value": -above}}
            look = {"align": "left", "baseline": "bottom", "color": ink, "clip": False}
            titles.append(fixed("text", place, text=words, fontSize=FIGURE.font_size + larger, **look))
            above += FIGURE.font_size + 5
    return {"width": size[0], "height": size[1], "layer": [*layers, *titles]}


def figure(panels: Sequence[Spec], heading: str = "", *, one_legend: bool = False) -> Spec:
    """Panels side by side, three in a row, with a legend each or one for all."""
    scales = "shared" if one_legend else "independent"
    look = {"fontSize": FIGURE.font_size + 2, "fontWeight": "normal", "anchor": "start", "offset": 14}
    return {
        **({"title": {"text": heading, "color": FIGURE.ink, **look}} if heading else {}),
        "concat": list(panels),
        "columns": COLUMNS,
        "spacing": {"column": 24, "row": 28},
        "resolve": {"scale": {"color": scales, "shape": scales}},
        "padding": 8,
        "config": {**FIGURE.config, "aria": False},
    }


def share_y(panels: Sequence[Spec]) -> list[Spec]:
    """Panels side by side with one logarithmic vertical axis, labelled at the first."""
    axes = [
        [own["encoding"]["y"] for own in one["layer"] if "scale" in own["encoding"].get("y", {})]
        for one in panels
    ]
    shared = log_axis("", "", [end for own in axes for end in own[0]["scale"]["domain"]], margin=1.0)
    for index, own in enumerate(axes):
        for y in own:
            y |= {"scale": shared["scale"], "axis": {**shared["axis"], "labels": not index}}
            y["title"] = None if index else y["title"]
    return list(panels)


def rendered(spec: Spec) -> dict[str, bytes]:
    """A figure as the contents of a PDF, a PNG and an SVG file, the same bytes from the same specification."""
    import vl_convert

    names: dict[str, str] = {}  # the renderer counts clipping paths on from one figure to the next
    svg = CLIP.sub(
        lambda found: names.setdefault(found[0], f"clip{len(names)}"), vl_convert.vegalite_to_svg(spec)
    )
    pdf = RESOURCES.sub(  # the renderer writes lists of references in random order
        lambda found: b"".join(sorted(found[0].splitlines(keepends=True))), vl_convert.svg_to_pdf(svg)
    )
    return {"pdf": pdf, "png": vl_convert.svg_to_png(svg, scale=PIXELS_PER_POINT), "svg": svg.encode()}
