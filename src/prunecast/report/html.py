"""The page of a table as one HTML file: the answer on top, the evidence below."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from prunecast import __version__
from prunecast.choice import (
    DEFAULT_CONFIDENCE,
    DEFAULT_SIZES,
    Question,
    as_fit,
    check_target,
    question_for,
    validated,
)
from prunecast.errors import PrunecastError, sentence
from prunecast.laws import AUTO, Fit
from prunecast.metric import Metric
from prunecast.report import fits
from prunecast.report.answers import AnswerPanel, answer_panel
from prunecast.report.charts import FittedTable
from prunecast.report.document import Chart, Section
from prunecast.report.studies import study_sections
from prunecast.report.vega import Row, Spec
from prunecast.table import Table
from prunecast.wording import report as wording

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, kw_only=True)
class Page:
    """One HTML file, and why it lacks a law or an answer, if it does."""

    html: str
    missing: str = ""
    """why it has no law or no answer, in a sentence; empty if it has both"""


def page(
    table: Table,
    *,
    law: str = AUTO,
    target_error: float | None = None,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
    confidence: float = DEFAULT_CONFIDENCE,
    studies: bool = True,
    all_studies: bool = False,
    first: Sequence[Section] = (),
    command: str = "prunecast.report.page",
    on_step: Callable[[str], None] = lambda step: None,
) -> Page:
    """The page of a table; if the table is too small for a law, the page says what is missing.

    Like `choose`, it uses validation errors if every row has one. `first` are sections to show right after the
    answer, such as the result of training the chosen network. `on_step` is called with the name of each step before
    the step begins, because a page of a large table takes a while.
    """
    check_target(target_error, table.metric)
    on_step("fitting the law")
    try:
        fit = as_fit(table, law)
    except PrunecastError as problem:
        why = wording.no_law(sentence(problem))
        body = [fits.missing_section(table, why), *first, fits.origin_section(table, None, command)]
        return Page(html=_render(table, table.metric, None, body), missing=why)
    question = question_for(
        fit,
        target_error=target_error,
        minimise=minimise,
        num_examples=num_examples,
        sizes=sizes,
        confidence=confidence,
    )
    fitted = FittedTable(table=validated(table) or table, fit=fit, minimise=question.minimise)
    on_step("choosing a network for every target")
    answer, why = _answer(fitted, question)
    body = [
        *([Section(name="missing", title="No answer yet", text=[why])] if why else []),
        *first,
        fits.fit_section(fitted),
        fits.parameters_section(fitted),
        fits.invariant_section(fitted),
        *([_evidence(fitted.table, fit, on_step, everything=all_studies)] if studies else []),
        fits.unknown_section(fit),
        fits.origin_section(table, fit, command),
    ]
    on_step("writing the page")
    return Page(html=_render(table, fit.metric, fit, body, answer), missing=why)


def _answer(fitted: FittedTable, question: Question) -> tuple[AnswerPanel | None, str]:
    """The answer, or why the table allows none; an error if another question may have one."""
    try:
        return answer_panel(fitted, question), ""
    except PrunecastError as problem:
        if question != question_for(fitted.fit, target_error=question.target_error):
            raise
        return None, wording.no_answer(sentence(problem))


def _evidence(table: Table, fit: Fit, on_step: Callable[[str], None], *, everything: bool) -> Section:
    return Section(
        name="studies",
        title="The evidence",
        text=[wording.evidence(fit.title)],
        subsections=tuple(study_sections(table, fit, on_step, everything=everything)),
    )


def _render(
    table: Table, metric: Metric, fit: Fit | None, body: Sequence[Section], answer: AnswerPanel | None = None
) -> str:
    """The page as HTML: everything inlined, every text escaped, no script allowed but its own two."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("prunecast.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = coded
    nothing: dict[str, Any] = {"sizes": [], "shown": 0, "examples": [], "measures": []}
    lookup = nothing if answer is None else answer.lookup()
    lookup.update(word=metric.word, share=metric.is_share)
    found = () if answer is None else answer.sets
    examples = len(lookup["examples"])
    every = [*(() if answer is None else [answer.chart]), *_charts(body)]
    specs, places, datasets = packed(every, [own.data for own in found])
    for one, place in zip(lookup["sizes"], places, strict=True):
        one["datasets"] = place
    scripts = {"charts": library(), "code": _text("page.js")}
    return environment.get_template("page.html").render(
        title=wording.page_title(table.family, table.dataset, table.source),
        lead=wording.page_lead(table.source, len(table), fit),
        fitted=fit is not None,
        chart=None if answer is None else answer.chart,
        grids=[own.grid for own in found],
        several=wording.several_dataset_sizes(fit, examples) if fit is not None and examples > 1 else "",
        sections=body,
        style=_text("page.css"),
        scripts=scripts,
        hashes=" ".join(_hash(script) for script in scripts.values()),
        data=script_json({"charts": specs, "datasets": datasets, **lookup}),
        version=__version__,
        **lookup,
    )


def _charts(body: Sequence[Section]) -> list[Chart]:
    return [chart for section in body for chart in (*section.charts, *_charts(section.subsections))]


def packed(
    every: Sequence[Chart], others: Sequence[Mapping[str, list[Row]]] = ()
) -> tuple[dict[str, Spec], list[dict[str, int]], list[dict[str, Any]]]:
    """Charts and other data that refer to their data sets by indexes into a common list without duplicates."""
    found: dict[str, int] = {}

    def places(datasets: Mapping[str, list[Row]]) -> dict[str, int]:
        return {name: found.setdefault(_columns(records), len(found)) for name, records in datasets.items()}

    specs = {one.name: {**one.spec, "datasets": places(one.spec["datasets"])} for one in every}
    return specs, [places(data) for data in others], [json.loads(text) for text in found]


def _columns(records: list[Row]) -> str:
    """Records as JSON that names the columns once."""
    columns = list(records[0]) if records else []
    return json.dumps({"columns": columns, "rows": [[row[column] for column in columns] for row in records]})


def coded(text: str) -> "Markup":
    """Text with the parts between backticks set as code; all of it is escaped."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def script_json(value: object) -> str:
    """JSON that is safe inside a script element: it cannot end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(name: str) -> str:
    return (resources.files("prunecast.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """The digest by which the page allows a script to run."""
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
