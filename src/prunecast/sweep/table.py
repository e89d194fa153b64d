"""The table of a plan as plain rows and as CSV."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prunecast.pruning.files import write_whole
from prunecast.pruning.record import Record, within
from prunecast.pruning.store import chain_folder
from prunecast.spec import ChainSpec
from prunecast.sweep.plan import Plan

SPEC_COLUMNS = ("family", "dataset", "method", "recipe", "depth", "width", "num_examples", "replicate")
RECORD_COLUMNS = (
    *("level", "density", "error", "loss", "train_error", "validation_error", "parameters", "weights"),
    *("nonzero", "effective_density", "steps", "seconds", "status", "chance_error"),
)
COLUMNS = (*SPEC_COLUMNS, *RECORD_COLUMNS, "spec")


def row(spec: ChainSpec, record: Record) -> dict[str, Any]:
    """One row of the table; None where something is not known."""
    names = {"method": spec.method.name, "recipe": spec.recipe.name, "spec": spec.digest}
    values = {**{column: getattr(spec, column) for column in SPEC_COLUMNS}, **names}
    return {**values, **{column: getattr(record, column) for column in RECORD_COLUMNS}}


def rows(plan: Plan, store: Path) -> list[dict[str, Any]]:
    """The finished levels of a plan's chains, in the order of the plan."""
    return [
        row(chain.spec, record)
        for chain in plan.chains
        for record in within(chain_folder(store, chain.spec).records(), chain.rules)
    ]


def as_csv(table: Iterable[dict[str, Any]]) -> str:
    """The rows as CSV; numbers with all their digits, unknown ones empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def export(plan: Plan, store: Path, path: Path) -> int:
    """Write the table of a plan so far and return its number of rows."""
    table = rows(plan, store)
    write_whole(path.absolute(), as_csv(table).encode())
    return len(table)
