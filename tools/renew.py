"""Everything in the repository that is computed from the shipped tables, made anew: `make renew`.

Run it after a table was added or has grown (`python tools/ship.py`), or after a text was changed on purpose. It renews
the parts of the docs that scripts make (README.md, docs/paper.md, docs/research/paper.md and studies.md,
docs/explanation/law.md and intervals.md), the outputs of the notebooks, the reference, and the texts in tests/*/golden.
The numbers that tests/golden holds stay as they are; `PRUNECAST_RENEW_GOLDEN=numbers make renew`, after a table has
grown, writes these too. Then read the diff. `python tools/pictures.py` draws the pictures anew.
"""

import os
import subprocess
import sys
from pathlib import Path

import arithmetic  # noqa: F401  # before anything imports numpy
import intervals_page
import law_page
import notebook
import paper_page
import paper_research
import readme_page
import reference
import studies_page
from page_parts import renew

ROOT = Path(__file__).parents[1]
GOLDEN = (
    "tests/golden/test_golden.py",
    "tests/cli/test_cli_golden.py",
    "tests/choice/test_choice_cli.py",
    "tests/studies/test_studies_cli.py",
)
"""The tests that hold texts."""


def main() -> None:
    for script in (paper_page, paper_research, studies_page, law_page, intervals_page, readme_page):
        renew(script.PAGE, script.SCRIPT, script.sections())
        print(f"{script.PAGE.relative_to(ROOT)} is renewed.", flush=True)
    notebook.main()
    reference.main()
    env = {"PRUNECAST_RENEW_GOLDEN": "1"} | os.environ
    line = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "golden", *GOLDEN]
    done = subprocess.run(line, cwd=ROOT, env=env, check=False)
    subprocess.run(["git", "diff", "--stat", "--", "docs", "tests"], cwd=ROOT, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
