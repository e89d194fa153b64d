"""The table of a plan as plain rows and as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.pruning import Record, write_whole
from prunecast.spec import ChainSpec
from prunecast.sweep.plan import Plan
from prunecast.sweep.status import ChainStatus, chain_statuses

SPEC_COLUMNS = ("family", "dataset", "method", "recipe", "depth", "width", "num_examples", "replicate")
RECORD_COLUMNS = (
    *("level", "density", "error", "loss", "train_error", "validation_error", "parameters", "weights"),
    *(
        "nonzero",
        "effective_density",
        "remaining_parameters",
        "bytes",
        "multiply_adds",
        "steps",
        "seconds",
        "status",
        "chance_error",
    ),
)
COLUMNS = (*SPEC_COLUMNS, *RECORD_COLUMNS, "spec")


def row(spec: ChainSpec, record: Record) -> dict[str, Any]:
    """One row of the table; None for values that are not known."""
    names = {"method": spec.method.name, "recipe": spec.recipe.name, "spec": spec.digest}
    values = {**{column: getattr(spec, column) for column in SPEC_COLUMNS}, **names}
    return {**values, **{column: getattr(record, column) for column in RECORD_COLUMNS}}


def rows(plan: Plan, store: Path) -> list[dict[str, Any]]:
    """The finished levels of a plan's chains, in the order of the plan; a damaged record is an error."""
    statuses = chain_statuses(plan, store)
    for damaged in (own for own in statuses if own.problem):
        raise PrunecastError(damaged.problem)
    return rows_of(statuses)


def rows_of(statuses: Sequence[ChainStatus]) -> list[dict[str, Any]]:
    """The rows of chains that can be read and that the selection rule keeps."""
    return [row(own.chain.spec, record) for own in statuses if not own.left_out for record in own.records]


def as_csv(table: Iterable[dict[str, Any]]) -> str:
    """The rows as CSV, numbers with all digits and unknown values empty; columns of their own come last."""
    text, listed = io.StringIO(), list(table)
    columns = dict.fromkeys((*COLUMNS, *(name for row in listed for name in row)))
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()


def write_table(table: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as CSV, atomically."""
    write_whole(path.absolute(), as_csv(table).encode(), wait=True)


def export(plan: Plan, store: Path, path: Path) -> int:
    """Write the table of a plan so far and return its number of rows."""
    table = rows(plan, store)
    write_table(table, path)
    return len(table)
