"""Sections as one HTML file that needs nothing else."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from prunecast import __version__
from prunecast.choice.spoken import Speak
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.report import spoken, words
from prunecast.report.limits import beyond
from prunecast.report.parts import Chart, Section
from prunecast.report.top import Top, lookup
from prunecast.report.vega import Row, Spec
from prunecast.table import Table

if TYPE_CHECKING:
    from markupsafe import Markup


def render(
    table: Table, fitted: Fit | None, body: Sequence[Section], *, speak: Speak, answer: Top | None = None
) -> str:
    """The page as HTML: everything inlined, every word escaped, nothing allowed to run but its own two scripts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("prunecast.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = coded
    body = [spoken.section(one, speak) for one in body]
    asking, charts, data = _looked_up(answer, fitted, speak)
    specs, places, datasets = packed([*charts, *_charts(body)], data)
    for one, place in zip(asking["sizes"], places, strict=True):
        one["datasets"] = place
    scripts = {"charts": library(), "code": _text("page.js")}
    subject = " on ".join(word for word in (table.family, table.dataset) if word) or table.source
    return environment.get_template("page.html").render(
        title=f"What pruning does to {subject}",
        table=table,
        fitted=fitted,
        chart=charts[0] if charts else None,
        grids=[spoken.grid(one.grid, speak) for one in answer.answered] if answer else [],
        sections=body,
        style=_text("page.css"),
        scripts=scripts,
        hashes=" ".join(_hash(script) for script in scripts.values()),
        data=script_json({"charts": specs, "datasets": datasets, **asking}),
        version=__version__,
        words=words,
        **asking,
    )


def _looked_up(
    answer: Top | None, fitted: Fit | None, speak: Speak
) -> tuple[dict[str, Any], list[Chart], list[dict[str, list[Row]]]]:
    """What the page looks up, the chart that follows it, and what is drawn for each number of examples."""
    word = speak("error")
    if answer is None or fitted is None:
        return {"sizes": [], "shown": 0, "word": word, "explained": []}, [], []
    asking = {
        "sizes": lookup(answer, speak),
        "shown": answer.shown,
        "word": word,
        "asked": "" if answer.target_error is None else f"{answer.target_error:.6g}",
        "share": fitted.metric == "error",
        "beyond": beyond(fitted, speak),
        "explained": [speak(text) for text in answer.text],
    }
    return asking, [spoken.chart(answer.chart, speak)], [one.data for one in answer.answered]


def _charts(body: Sequence[Section]) -> list[Chart]:
    return [
        chart
        for section in body
        for chart in (*section.charts, *(one for inner in section.after for one in inner.charts))
    ]


def packed(
    charts: Sequence[Chart], beside: Sequence[Mapping[str, list[Row]]] = ()
) -> tuple[dict[str, Spec], list[dict[str, int]], list[dict[str, Any]]]:
    """Specifications and further data whose sets are places in a common list, in which each stands once."""
    found: dict[str, int] = {}

    def places(datasets: Mapping[str, list[Row]]) -> dict[str, int]:
        return {name: found.setdefault(_columns(records), len(found)) for name, records in datasets.items()}

    specs = {one.name: {**one.spec, "datasets": places(one.spec["datasets"])} for one in charts}
    return specs, [places(data) for data in beside], [json.loads(text) for text in found]


def _columns(records: list[Row]) -> str:
    """Records with the names of their columns once."""
    columns = list(records[0]) if records else []
    return json.dumps({"columns": columns, "rows": [[row[column] for column in columns] for row in records]})


def coded(text: str) -> "Markup":
    """Text whose words between backticks are set as commands; all of it is escaped."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def script_json(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(name: str) -> str:
    return (resources.files("prunecast.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """The digest by which the page allows a script; nothing else may run."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def library() -> str:
    """Vega-Lite, Vega and vega-embed as one script, from the installed package."""
    try:
        import vl_convert
    except ImportError:
        raise PrunecastError(
            "the page needs a charting library: install it with pip install 'prunecast[report]'"
        ) from None
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")
