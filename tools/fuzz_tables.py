"""Damage tables at random, and see that every command answers with numbers or a sentence.

    python tools/fuzz_tables.py --cases 2000 --seed 0

Each case changes the header, the cells, the rows or the bytes of a small table, and asks `fit` or `choose`, or
composes a figure of the paper. Answers and figures must hold numbers, and no case may end in another exception than a
PrunecastError, nor take long. Where `choose` answers from a table, the law that `fit -o` saves of it must answer alike.
"""

import csv
import gzip
import io
import itertools
import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner
from fuzzing import Case, Finding, clear, damage, main, run_cases

from prunecast.cli import answer, cli, law  # noqa: F401 (else imported by the first cases, in their time)
from prunecast.errors import PrunecastError
from prunecast.laws import DEFAULT_LAW, fit
from prunecast.report.paper_figures import composed, paper_figures
from prunecast.report.paper_source import Paper
from prunecast.table import read

Rows = list[list[str]]
CELLS = (
    *("", " ", "nan", "NaN", "inf", "-inf", "None", "null", "0", "-0", "-1", "1", "1.5", "100"),
    *("50%", "1e-300", "1e300", "1e999", "9223372036854775808", "1/4", "1/0", "0/0", "1,5"),
    *("1 000", "0x10", "1_000", "true", "x", "x" * 10_000, "\x1b[31m", "\x00", "\udcff", "ε", '"'),
    *("'", "=1+1", "2026-01-01", "٣", "１", "1e-12", "1e15", "torch-1-1", "onnx-64-2"),
    *("two\nlines", "torch-0-1", "torch-99999999999-9", "torch-" + "9" * 5000 + "-1"),
    *("9" * 400, "0.5\u200b"),
)
NAMES = (
    *("density", "sparsity", "error", "accuracy", "loss", "depth", "width", "num_examples"),
    *("replicate", "level", "weights", "parameters", "nonzero", "unpruned_error"),
    *("validation_error", "family", "dataset", "method", "recipe", "", " ", "Density", "density "),
    *("bytes", "multiply_adds", "latency_ms", "timed_with", "latency_low_ms", "Bytes"),
    *("x", "\x1b[31m", "index", "Unnamed: 0", "remaining", "top1", "flops", "seed", "den\u200bsity"),
)
OPTIONS = (
    *(["--metric", "loss"], ["--metric", "accuracy"], ["--metric", "f1"], ["--metric", "\x1b"]),
    *(["--chance", "0.9"], ["--chance", "nan"], ["--where", "width=1"], ["--where", "x=1"]),
    *(["--column", "density=1-density"], ["--column", "density=1/0"]),
    *(["--column", "weights=weights*1e300"], ["--column", "x=y"], ["--depth-from", "family"]),
    *(["--without-too-large"], ["--law", "dip"], ["--law", "auto"], ["--num-examples", "1e-12"]),
    *(["--width", "1e-12"], ["--depth", "1e15"], ["--density", "1e-12"], ["--confidence", "1e-300"]),
    *(["--density", "1e999999999%"], ["--num-examples", "1e-999999999%"]),
)
QUESTIONS = (
    *(["fit"], ["fit", "--json"], ["choose", "--target-error", "0.2"]),
    *(["choose", "--target-error", "0.3", "--json"],),
    *(["choose", "--target-error", "0.2", "--minimise", "latency"],),
    *(["choose", "--target-error", "0.25", "--minimise", "bytes"], ["choose", "--max-latency", "2ms"]),
    *(["choose", "--target-error", "0.25", "--minimise", "multiply-adds", "--json"],),
    *(["choose", "--max-latency", "1ms", "--depth", "20", "--width", "0.3", "--json"],),
)
NO_NUMBER = re.compile(r"(?<![\w.])(nan|inf|NaN|Infinity)(?![\w.])")
OTHER_NAMES = ("runs.tsv", "runs.csv.gz", "runs.parquet", "r\x1b[31m.csv", "runs")
ANSWER = ("depth", "width", "num_examples", "density", "error")
SAME_ANSWER = 0.01
"""Relative; a saved law has fewer digits."""
DELIMITERS = (",", ",", ",", ";", "\t", " ", "|")


def written() -> Rows:
    """A table of six networks at two sizes of data, six levels each, with every column that has a meaning.

    Costs fall as the density does, as where channels are pruned.
    """
    header = ["family", "dataset", "method", "recipe", "depth", "width", "num_examples", "replicate", "level"]
    counted = ["weights", "parameters", "nonzero", "bytes", "multiply_adds", "latency_ms", "timed_with"]
    rows = [[*header, "density", "error", *counted]]
    noise = random.Random(0)
    for depth, width, examples in itertools.product((14, 20), (0.25, 0.5, 1.0), (10_000, 50_000)):
        unpruned = 0.05 + 20 / examples**0.6 + 0.02 / width + 0.1 / depth
        weights = round(13_500 * depth * width**2)
        for level in range(6):
            density = 0.4**level
            size, scale, slope, top = width**1.2 * density, 0.02, 0.6, 0.9
            risen = (size**2 + scale**2 * (top / unpruned) ** (2 / slope)) / (size**2 + scale**2)
            error = unpruned * risen ** (slope / 2) * (1 + noise.gauss(0, 0.02))
            numbers = [depth, width, examples, 1, level, density, error]
            counts = [weights, weights + 900, round(weights * density)]
            left = round(weights * density) + 900
            costs = [4 * left, 150 * left, 0.1 + depth / 100 + 4e-6 * left, "torch-1-1"]
            rows.append(["cifar_resnet", "cifar10", "imp", "24ep", *map(str, [*numbers, *counts, *costs])])
    return rows


def parsed(cell: str) -> float | str:
    """The number in a cell, or the cell."""
    try:
        return float(cell)
    except ValueError:
        return cell


def other_cell(rows: Rows, chance: random.Random) -> str:
    """Another value in one cell, or in a whole column."""
    column, cell = chance.randrange(len(rows[0])), chance.choice(CELLS)
    chosen = rows[1:] if chance.random() < 0.3 else chance.sample(rows[1:], min(1, len(rows) - 1))
    if rows[0][column] in ("family", "dataset", "method", "recipe", "timed_with") and NO_NUMBER.search(
        f"{parsed(cell)}"
    ):
        cell = "x"  # a name that looks like one is no wrong answer
    for row in chosen:
        if column < len(row):
            row[column] = cell
    return f"{rows[0][column]!r} = {cell[:20]!r} in {len(chosen)} rows"


def scaled_column(rows: Rows, chance: random.Random) -> str:
    """A column in another unit."""
    factor = chance.choice((100, 1e-6, 1e6, -1, 0, 1e-13, 1e16, 1e-300, 1e300))
    column = chance.randrange(min(4, len(rows[0]) - 1), len(rows[0]))
    for row in rows[1:]:
        if column < len(row):
            try:
                row[column] = str(float(row[column]) * factor)
            except ValueError:
                continue
    return f"{rows[0][column]!r} times {factor}"


def other_name(rows: Rows, chance: random.Random) -> str:
    """A column by another name, which another may have."""
    column, name = chance.randrange(len(rows[0])), chance.choice(NAMES)
    before, rows[0][column] = rows[0][column], name
    return f"{before!r} called {name!r}"


def dropped_column(rows: Rows, chance: random.Random) -> str:
    """A column less."""
    column = chance.randrange(len(rows[0]))
    name = rows[0][column]
    for row in rows:
        del row[column : column + 1]
    return f"without {name!r}"


def other_rows(rows: Rows, chance: random.Random) -> str:
    """Rows that are missing, twice there, out of order, or of another length."""
    kinds = ("fewer", "one", "none", "twice", "shuffled", "short", "long", "empty")
    kind, body = chance.choice(kinds), rows[1:] or [rows[0]]
    at = chance.randrange(1, len(body) + 1)
    changed = {
        "fewer": chance.sample(body, chance.randrange(1, len(body) + 1)),
        "one": body[:1],
        "none": [],
        "twice": [*body, *body[:at]],
        "shuffled": chance.sample(body, len(body)),
        "short": [*body[:at], body[at - 1][: chance.randrange(len(rows[0]) + 1)], *body[at:]],
        "long": [*body[:at], [*body[at - 1], "1"], *body[at:]],
        "empty": [*body[:at], [], *body[at:]],
    }
    rows[1:] = [list(row) for row in changed[kind]]
    return f"rows {kind}"


CHANGES: tuple[Callable[[Rows, random.Random], str], ...] = (
    *(other_cell, other_cell, scaled_column, other_name, dropped_column, other_rows),
)


def encoded(rows: Rows, chance: random.Random) -> tuple[bytes, str]:
    """The rows as CSV, sometimes in an unusual form."""
    unusual = chance.random() < 0.25
    delimiter = chance.choice(DELIMITERS) if unusual else ","
    ending = chance.choice(("\n", "\r\n", "\r")) if unusual else "\n"
    coding = chance.choice(("utf-8", "utf-8-sig", "utf-16", "latin-1")) if unusual else "utf-8"
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=ending).writerows(rows)
    data = text.getvalue().encode(coding, "replace" if coding == "latin-1" else "surrogatepass")
    return gzip.compress(data) if unusual and chance.random() < 0.3 else data, f"{delimiter!r} {coding}"


def change(path: Path, chance: random.Random) -> str:
    """Write the table with up to three changes, perhaps compressed or with damaged bytes; return what was changed."""
    rows = written()
    what = [chance.choice(CHANGES)(rows, chance) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
    data, form = encoded(rows, chance)
    path.write_bytes(data)
    if chance.random() < 0.1:
        what.append(damage(path, chance))
    return "; ".join([*what, form])


def figures(path: Path, chance: random.Random) -> str:
    """Two of the paper's figures of a table, as JSON; what they leave out are sentences."""
    table = read(path)
    paper = Paper(table=table, fit=fit(table, law=DEFAULT_LAW))
    chosen = chance.sample(sorted(paper_figures(table).items()), 2)
    return "\n".join(json.dumps(composed(own, paper)) for _, own in chosen)


def difference(path: Path, saved: Path, question: list[str]) -> str:
    """What is wrong with the answer of a table's saved law, which must be that of the table; empty if nothing is."""

    def output(*command: str) -> str:
        return CliRunner().invoke(cli, command, catch_exceptions=False, standalone_mode=False).output

    options = [own for own in question[1:] if own != "--json"]
    try:
        output("fit", str(path), "-o", str(saved))
        of_table, of_law = (
            json.loads(output("choose", str(own), *options, "--json")) for own in (path, saved)
        )
    except PrunecastError as refusal:
        return f"the saved law is refused: {refusal}"
    same = all(math.isclose(of_table[name], of_law[name], rel_tol=SAME_ANSWER) for name in ANSWER)
    return "" if same else f"the saved law has another answer:\n{of_law}\n{of_table}"


def fuzz(cases: int, seed: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Run so many cases; count how they end, and return those that ended as none may."""

    def run(case: Case) -> None:
        path = folder / case.chance.choice(
            ("runs.csv", "runs.csv", "runs.tsv", "runs.csv.gz", "runs.parquet")
        )
        clear(path)
        case.change = change(path, case.chance)
        if case.chance.random() < 0.1:
            case.change += "; figures"
            drawn = figures(path, case.chance)
            case.outcome = "answered"
            if missing := NO_NUMBER.search(drawn):
                case.problem = f"a figure has {missing[0]}: {drawn}"
            return
        question = case.chance.choice(QUESTIONS)
        options = case.chance.choice(OPTIONS) if case.chance.random() < 0.3 else []
        case.change += f"; {' '.join([*question, *options])}"
        command = [question[0], str(path), *question[1:], *options]
        done = CliRunner().invoke(cli, command, catch_exceptions=False, standalone_mode=False)
        case.outcome = "answered"
        if found := NO_NUMBER.search(done.output):
            case.problem = f"the answer has {found[0]}:\n{done.output}"
        elif question[0] == "choose" and not options and case.chance.random() < 0.3:
            case.problem = difference(path, folder / "law.json", question)

    return run_cases(run, cases, seed, folder)


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__ or ""))
