"""Damage and forge the files of saved laws at random, and see that every command answers with numbers or a sentence.

    python tools/fuzz_laws.py --cases 2000 --seed 0

Each case changes one file of a law and asks `predict` and `choose`; one of the laws is of a table with latencies. A
file whose checksum stayed must be refused, or give the answers of the file that was written. A file without one, as
somebody who edits it leaves it, may give others, but these must be numbers, and no case may end in another exception
than a PrunecastError, nor take long.
"""

import csv
import json
import random
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import research_tables
from click.testing import CliRunner
from fuzz_tables import written
from fuzzing import Case, Finding, altered, clear, damage, main, run_cases

from prunecast.cli import answer, cli, law  # noqa: F401 (else imported by the first cases, in their time)
from prunecast.laws import fit, saved
from prunecast.table import Table, read

TABLE = research_tables.path("cifar10-resnet20-24ep")
COSTS = "costs"
SELECTED = {
    "one size": {"num_examples": 50_000},
    "several sizes": {},
}
ASKED = {
    "one size": (["predict", "--density", "1,0.1", "--width", "0.3"], ["choose", "--target-error", "0.2"]),
    "several sizes": (
        ["predict", "--density", "0.1", "--width", "1/3", "--num-examples", "30000"],
        ["choose", "--target-error", "0.2", "--json"],
    ),
    COSTS: (
        ["choose", "--target-error", "0.2", "--minimise", "latency"],
        ["choose", "--max-latency", "1ms", "--depth", "20", "--width", "0.3"],
        ["choose", "--target-error", "0.25", "--minimise", "bytes", "--json"],
    ),
}
NO_NUMBER = re.compile(r"\b(nan|inf|NaN|Infinity)\b")


def answers(path: Path, name: str) -> tuple[str, ...]:
    """What the commands print about a law; a PrunecastError where they refuse it."""
    return tuple(
        CliRunner()
        .invoke(cli, [asked[0], str(path), *asked[1:]], catch_exceptions=False, standalone_mode=False)
        .output
        for asked in ASKED[name]
    )


def change(path: Path, chance: random.Random) -> tuple[str, bool]:
    """Change the file of a law; return how, and whether its checksum still has to notice."""
    if chance.random() < 0.3:
        return damage(path, chance), True
    body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    edited = chance.random() < 0.8
    if edited:
        del body[saved.CHECKSUM]
    what = altered(body, chance)
    path.write_text(json.dumps(body), encoding="utf-8")
    return what, not edited


def tables(folder: Path) -> dict[str, Table]:
    """The tables whose laws are changed, by the questions that are asked."""
    with (folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(written())
    shipped = {name: read(TABLE).select(**selected) for name, selected in SELECTED.items()}
    return {**shipped, COSTS: read(folder / "runs.csv")}


def fuzz(cases: int, seed: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Run so many cases; count how they end, and return those that ended as none may."""
    for name, table in tables(folder).items():
        fit(table, law="auto").save(folder / f"{name}.json")

    @cache
    def unchanged(name: str) -> tuple[str, ...]:
        return answers(folder / f"{name}.json", name)

    def run(case: Case) -> None:
        name, path = case.chance.choice(list(ASKED)), folder / "case" / "law.json"
        path.parent.mkdir(exist_ok=True)
        clear(path)
        path.write_bytes((folder / f"{name}.json").read_bytes())
        what, noticed = change(path, case.chance)
        case.change = f"{name}: {what}"
        found = answers(path, name)
        same = found == unchanged(name)
        case.outcome = "same answers" if same else "other answers"
        if noticed and not same:
            case.problem = "other answers without a word"
        elif found_none := NO_NUMBER.search("".join(found)):
            case.problem = f"the answer has {found_none[0]}:\n{''.join(found)}"

    return run_cases(run, cases, seed, folder)


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__ or ""))
