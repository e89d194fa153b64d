"""The page about extending shows the very files that tests run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "extend.md"
SHOWN = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", flags=re.DOTALL)
MOST_LINES = 60


def test_the_page_shows_the_files_that_tests_run():
    shown = dict(SHOWN.findall(PAGE.read_text(encoding="utf-8")))
    assert set(shown) == {
        "tests/examples/hill_law.py",
        "tests/catalog/stripes.py",
        "tests/examples/mlp_family.py",
        "tests/examples/magnitude_increase.py",
        "tests/examples/whole_rows.py",
        "tests/examples/own_recipe.py",
        "tests/examples/ssh_backend.py",
    }
    for name, text in shown.items():
        assert text == (ROOT / name).read_text(encoding="utf-8")
        assert text.count("\n") < MOST_LINES
