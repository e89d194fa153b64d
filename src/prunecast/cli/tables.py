"""The command that shows the measured tables that ship."""

import json
import textwrap

import click

from prunecast import tables as shipped
from prunecast.cli.parameters import JSON
from prunecast.report import terminal


@click.command()
@click.argument("name", metavar="[TABLE]", required=False)
@JSON
def tables(name: str | None, as_json: bool) -> None:
    """List the measured tables that ship, or show where TABLE comes from."""
    if name is None:
        pages = {one: shipped.provenance(one) for one in shipped.names()}
        click.echo(json.dumps(pages, ensure_ascii=False) if as_json else _listed(shipped.pairs(), pages))
        return
    page = {"name": shipped.resolve(name), **shipped.provenance(name)}
    click.echo(json.dumps(page, ensure_ascii=False) if as_json else _provenance(page))


def _listed(pairs: dict[str, tuple[str, ...]], pages: dict[str, dict[str, object]]) -> str:
    """One line per table, and the table that each pair names."""
    widest = max(map(len, pages))
    lines = [f"{name:<{widest}}  {page['rows']:>6,} rows  {page['title']}" for name, page in pages.items()]
    named = [f"{pair} is short for {own[0]}." for pair, own in pairs.items()]
    hint = "prunecast tables TABLE shows where a table comes from; fit, report and other commands take the same names."
    return "\n".join([*lines, "", *named, hint])


def _provenance(page: dict[str, object]) -> str:
    """The provenance, one paragraph for each of its parts; settings for programs are in the JSON alone."""
    return "\n".join(
        textwrap.fill(
            str(value),
            terminal.WIDTH,
            initial_indent=f"{key:<15}",
            subsequent_indent=" " * 15,
            break_on_hyphens=False,
        )
        for key, value in page.items()
        if not isinstance(value, dict)
    )
