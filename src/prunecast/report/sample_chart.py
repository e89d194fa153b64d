"""The chart of a sensitivity study, as Vega-Lite."""

from collections.abc import Sequence

from prunecast.report.vega import PLAIN, Spec, chart, colour, log_axis, rows


def sample_chart(
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]], full: float, title: str
) -> Spec:
    """σ against the number of measurements used, mean over repeats with one standard deviation to either side."""
    names = [name for name, _ in series]
    data = [
        row
        for name, own in series
        for row in rows(
            hue=[name] * len(own),
            count=[count for count, _, _ in own],
            sigma=[100 * mean for _, mean, _ in own],
            low=[100 * max(mean - std, 0.0) for _, mean, std in own],
            high=[100 * (mean + std) for _, mean, std in own],
        )
    ]
    top = min(1.15 * max(row["high"] for row in data), 100 * max(3 * full, 0.1))
    x = log_axis("count", title, [row["count"] for row in data])
    y = {
        "field": "sigma",
        "type": "quantitative",
        "title": "σ of the deviation, %",
        "scale": {"domain": [0, top], "clamp": False},
        "axis": {"format": PLAIN},
    }
    hues = colour("hue", "chosen", names)
    layers: list[Spec] = [
        {
            "data": {"name": "samples"},
            "mark": {"type": "area", "opacity": 0.18, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": hues},
        },
        {
            "data": {"name": "samples"},
            "mark": {"type": "line", "strokeWidth": 2, "point": True, "clip": True},
            "encoding": {"x": x, "y": y, "color": hues},
        },
        {
            "data": {"name": "full"},
            "mark": {"type": "rule", "strokeDash": [5, 4], "color": "var(--ink)"},
            "encoding": {"y": y},
        },
    ]
    return chart(
        "How σ falls as more is measured; the dashed line is the fit to everything.",
        280,
        {"samples": data, "full": rows(sigma=[100 * full])},
        layers,
    )
