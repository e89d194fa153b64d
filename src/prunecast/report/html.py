"""Sections as one HTML file that needs nothing else."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from prunecast import __version__
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.parts import Chart, Grid, Section
from prunecast.report.vega import Spec
from prunecast.table import Table

if TYPE_CHECKING:
    from markupsafe import Markup


def render(
    table: Table,
    fitted: Fit | None,
    body: Sequence[Section],
    *,
    chart: Chart | None = None,
    grid: Grid | None = None,
    found: Sequence[dict[str, Any]] = (),
    start: int = 0,
) -> str:
    """The page as HTML: everything inlined, every word escaped, nothing allowed to run but its own two scripts.

    `found` is what the slider looks up, one entry a target, and `chart` and `grid` show the same.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("prunecast.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = coded
    specs, datasets = packed(_charts(chart, body))
    scripts = {"charts": library(), "code": _text("page.js")}
    data = {"charts": specs, "datasets": datasets, "answers": list(found), "start": start}
    subject = " on ".join(word for word in (table.family, table.dataset) if word) or table.source
    return environment.get_template("page.html").render(
        title=f"What pruning does to {subject}",
        table=table,
        fitted=fitted,
        chart=chart,
        grid=grid,
        steps=len(found),
        start=start,
        first=found[start] if found else None,
        sections=body,
        style=_text("page.css"),
        scripts=scripts,
        hashes=" ".join(_hash(script) for script in scripts.values()),
        data=script_json(data),
        version=__version__,
        words=words,
    )


def _charts(chart: Chart | None, body: Sequence[Section]) -> list[Chart]:
    found = [] if chart is None else [chart]
    for section in body:
        found += [*section.charts, *(one for inner in section.after for one in inner.charts)]
    return found


def packed(charts: Sequence[Chart]) -> tuple[dict[str, Spec], list[dict[str, Any]]]:
    """Specifications whose data sets are places in a common list, in which each stands once and names stand once."""
    found: dict[str, int] = {}
    specs: dict[str, Spec] = {}
    for one in charts:
        places = {}
        for name, records in one.spec["datasets"].items():
            columns = list(records[0]) if records else []
            table = {"columns": columns, "rows": [[row[column] for column in columns] for row in records]}
            places[name] = found.setdefault(json.dumps(table), len(found))
        specs[one.name] = {**one.spec, "datasets": places}
    return specs, [json.loads(text) for text in found]


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
