"""The measured tables in `benchmarks/tables`: research pages, benchmarks and tests use them; the package lacks them.

They were measured on a JPEG copy of CIFAR-10, or answer a question of research alone. Each has a JSON file of
provenance beside it, as a shipped table has; tables without one are written by the benchmark that their page names.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks" / "tables"


def names() -> tuple[str, ...]:
    """Names of the tables that have a provenance, in alphabetical order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.json")))


def path(name: str) -> Path:
    """The file of a table."""
    return FOLDER / f"{name}.csv"


def provenance(name: str) -> dict[str, object]:
    """Where a table comes from, as `prunecast.tables.provenance` says of a shipped one."""
    page: dict[str, object] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return page
