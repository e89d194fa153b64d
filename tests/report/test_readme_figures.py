"""What the README shows of the shipped tables is what they give."""

from pathlib import Path

import readme_page
from page_parts import renewed

README = Path(__file__).parents[2] / "README.md"
MOST_WORDS = 900


def test_the_readme_states_what_the_tables_give():
    page = README.read_text(encoding="utf-8")
    assert renewed(page, readme_page.SCRIPT, readme_page.sections()) == page, "run `make renew`"


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").split()) < MOST_WORDS
