"""The page for users states the counts that the architectures have."""

import re
from pathlib import Path

from prunecast.catalog import FAMILIES, architecture

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "families.md"


def table():
    """Read the rows of the table of families; an empty cell repeats the one above."""
    above = [""] * 7
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 7 and re.fullmatch(r"[\d,]+", cells[4]):
            above = [cell or old for cell, old in zip(cells, above, strict=True)]
            yield above


def test_the_table_of_families_is_true():
    rows = list(table())
    assert {row[0] for row in rows} == set(FAMILIES)
    for family, depth, image, classes, weights, parameters, adds in rows:
        made = architecture(family, depth=int(depth), width=1, num_classes=int(classes.replace(",", "")))
        assert "x".join(map(str, made.image_shape)) == image
        assert (f"{made.weights:,}", f"{made.parameters:,}") == (weights, parameters)
        assert f"{made.multiply_adds / 1e6:,.1f} M" == adds


def test_the_python_of_the_page_counts_what_its_comment_says():
    (body,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(body, names)
    expression, _, comment = next(line for line in body.splitlines() if "multiply_adds" in line).partition(
        "  # "
    )
    assert str(eval(expression, names)) == f"({comment})"
