"""`python tools/ship.py NAME PLAN...`: write a store's finished levels as a table with its provenance.

Both files go where the shipped tables are, so that adding a table to the package is this one command. With
`--into benchmarks/tables` they go where research, benchmarks and tests read them by path, and do not ship.
"""

import argparse
import csv
import dataclasses
import datetime
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plan_words import data_words, method_words, recipe_words, sizes_words

from prunecast import tables
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, write_whole
from prunecast.spec import ChainSpec, Recipe
from prunecast.sweep.plan import Plan, read_plan, shipped_plans
from prunecast.sweep.status import ChainStatus, chain_statuses
from prunecast.sweep.table import COLUMNS, row

DIGITS = {
    **dict.fromkeys(("density", "effective_density"), 8),
    **dict.fromkeys(("error", "train_error", "validation_error", "chance_error"), 6),
    **{"loss": 5, "seconds": 2},
}
"""Decimals that are worth keeping."""
USUAL = {"status": "ok"}
"""Columns that are left out where they say the same everywhere."""


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """What only a person can say of a table."""

    title: str = ""
    dataset: str = ""
    caution: str = ""
    preferred: bool = False
    """whether the pair's name stands for this table"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write NAME.csv and NAME.json from the finished levels of one or several plans."""
    parser = argparse.ArgumentParser(prog="python tools/ship.py", description=main.__doc__)
    parser.add_argument("name", help="name of the table")
    parser.add_argument("plan", nargs="+", help="TOML files, or names of plans that ship")
    parser.add_argument("--store", type=Path, default=Path("prunecast-store"), help="folder of the results")
    parser.add_argument("--scale", default="full", help="the scale at which the plans were run")
    parser.add_argument("--method", help="only this method, if the plans have several")
    parser.add_argument("--recipe", help="only this recipe, if the plans have several")
    parser.add_argument("--title", default="", help="the table in a sentence")
    parser.add_argument("--dataset", default="", help="what is special about the images")
    parser.add_argument("--caution", default="", help="what users should be careful about")
    parser.add_argument("--preferred", action="store_true", help="let the pair's name mean this table")
    parser.add_argument(
        "--into",
        type=Path,
        default=tables.FOLDER,
        help="folder for the two files (default: the shipped)",
    )
    given = parser.parse_args(arguments)
    remarks = Remarks(
        title=given.title, dataset=given.dataset, caution=given.caution, preferred=given.preferred
    )
    try:
        plans = [read_plan(plan, scale=given.scale) for plan in given.plan]
        found = finished(plans, given.store, given.method, given.recipe)
        page = provenance(found, plans, given.store, remarks)
        write_whole(given.into.absolute() / f"{given.name}.csv", compact_csv(found).encode())
        text = json.dumps(page, indent=2, ensure_ascii=False) + "\n"
        write_whole(given.into.absolute() / f"{given.name}.json", text.encode())
    except PrunecastError as mistake:
        print(f"Error: {mistake}", file=sys.stderr)
        return 2
    print(f"{page['rows']} rows of {page['chains']} chains in {given.into / given.name}.csv")
    return 0


def finished(
    plans: Iterable[Plan], store: Path, method: str | None = None, recipe: str | None = None
) -> list[ChainStatus]:
    """Every chain of the plans that has finished levels, once; of one kind only."""
    by_digest: dict[str, ChainStatus] = {}
    for own in (own for plan in plans for own in chain_statuses(plan, store)):
        spec = own.chain.spec
        if own.left_out or method not in (None, spec.method.name) or recipe not in (None, spec.recipe.name):
            continue
        known = by_digest.get(spec.digest)
        if own.records and (known is None or len(known.records) < len(own.records)):
            by_digest[spec.digest] = own
    found = sorted(by_digest.values(), key=lambda own: _order(own.chain.spec))
    if not found:
        raise PrunecastError(f"{store} has no finished levels of these plans; name another --store.")
    for what, option in (("family", ""), ("dataset", ""), ("method", "--method"), ("recipe", "--recipe")):
        several = sorted({_name(getattr(own.chain.spec, what)) for own in found})
        if len(several) > 1:
            remedy = f"choose one with {option}" if option else "ship a table for each"
            raise PrunecastError(f"The plans have several {what} values, {', '.join(several)}; {remedy}.")
    return found


def _order(spec: ChainSpec) -> tuple[float, ...]:
    return (spec.depth, -spec.num_examples, -spec.width, spec.replicate)


def _name(value: object) -> str:
    return str(getattr(value, "name", value))


def compact_csv(found: Sequence[ChainStatus]) -> str:
    """The rows as CSV, rounded to what is worth keeping, with the columns that all rows have and that say something.

    Levels of an older version of the code may lack what newer ones record.
    """
    rows = [_rounded(row(own.chain.spec, record)) for own in found for record in own.records]
    values = {column: {one[column] for one in rows} for column in COLUMNS}
    said = [
        column for column in COLUMNS if None not in values[column] and values[column] != {USUAL.get(column)}
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, said, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, DIGITS[name]) if name in DIGITS and value is not None else value
        for name, value in values.items()
    }


def provenance(
    found: Sequence[ChainStatus], plans: Sequence[Plan], store: Path, remarks: Remarks
) -> dict[str, object]:
    """Where the table comes from, as the store knows it, and what a person adds."""
    spec = found[0].chain.spec
    records = [record for own in found for record in own.records]
    seconds = sum(record.seconds for record in records)
    dates = sorted({_date(store, own.chain.spec) for own in found})
    devices = sorted({record.device for record in records})
    codes = sorted({record.code for record in records})
    pair = _pair(spec)
    digests = {own.chain.spec.digest for own in found}
    used = [plan.name for plan in plans if any(chain.spec.digest in digests for chain in plan.chains)]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    measured = f"{len(records):,} training runs on {' and '.join(devices)}, {when}; their times add up to"
    page: dict[str, object] = {
        "pair": pair if spec.method.name == "imp" else "",
        "preferred": remarks.preferred or "",
        "title": remarks.title or f"{spec.dataset}, {spec.family}, {spec.recipe.name}",
        "measured": f"{measured} {seconds:,.0f} s.",
        "plan": ", ".join(used),
        "code": ", ".join(codes),
        "device": ", ".join(devices),
        "date": when,
        "seconds": round(seconds, 1),
        "rows": len(records),
        "chains": len(found),
        "configurations": len({_order(own.chain.spec)[:3] for own in found}),
        "replicates": len({own.chain.spec.replicate for own in found}),
        "family": f"{spec.family}: {sizes_words([own.chain.spec for own in found])}",
        "dataset": f"{spec.dataset}: {remarks.dataset or data_words(spec)}",
        "method": f"{spec.method.name}: {method_words(spec)}",
        "recipe": f"{spec.recipe.name}: {recipe_words(spec.recipe)}",
        "recipe_settings": recipe_settings(spec.recipe),
        "caution": remarks.caution,
    }
    return {key: value for key, value in page.items() if value != ""}


def recipe_settings(recipe: Recipe) -> dict[str, object]:
    """The settings of a recipe as a plan would give them, those with their default value left out."""
    usual = {field.name: field.default for field in dataclasses.fields(Recipe)}
    given = dataclasses.asdict(recipe)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value != usual[name]
    }


def _pair(spec: ChainSpec) -> str:
    """The shipped plan on the same dataset and family, the largest where there are several."""
    plans = [read_plan(name) for name in shipped_plans()]
    own = [plan for plan in plans if _kind(plan.chains[0].spec) == _kind(spec)]
    return max(own, key=lambda plan: len(plan.chains)).name if own else ""


def _kind(spec: ChainSpec) -> tuple[str, str]:
    return spec.family, spec.dataset


def _date(store: Path, spec: ChainSpec) -> str:
    changed = (chain_folder(store, spec).path / "records.json").stat().st_mtime
    return datetime.datetime.fromtimestamp(changed, datetime.UTC).date().isoformat()


if __name__ == "__main__":
    sys.exit(main())
