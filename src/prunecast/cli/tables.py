"""The command that shows the measured tables that ship."""

import textwrap

import click


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def tables(name: str | None, as_json: bool) -> None:
    """List the measured tables that ship, or say where the one called NAME comes from."""
    import json

    from prunecast import tables as shipped

    if name is None:
        pages = {one: shipped.provenance(one) for one in shipped.names()}
        click.echo(json.dumps(pages, ensure_ascii=False) if as_json else _listed(shipped.pairs(), pages))
        return
    page = {"name": shipped.resolve(name), **shipped.provenance(name)}
    click.echo(json.dumps(page, ensure_ascii=False) if as_json else _told(page))


def _listed(pairs: dict[str, tuple[str, ...]], pages: dict[str, dict[str, object]]) -> str:
    """A line a table, and what a pair's name stands for."""
    widest = max(map(len, pages))
    lines = [f"{name:<{widest}}  {page['rows']:>6,} rows  {page['title']}" for name, page in pages.items()]
    stand = [f"{pair} stands for {own[0]}." for pair, own in pairs.items()]
    remedy = (
        "prunecast tables NAME says where one comes from; fit, report and the others take the same names."
    )
    return "\n".join([*lines, "", *stand, remedy])


def _told(page: dict[str, object]) -> str:
    """The provenance, a paragraph for each of its parts."""
    return "\n".join(
        textwrap.fill(
            str(value), 110, initial_indent=f"{key:<15}", subsequent_indent=" " * 15, break_on_hyphens=False
        )
        for key, value in page.items()
    )
