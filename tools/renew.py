"""Everything in the repository that is computed from the shipped tables, made anew: `make renew`.

Run it after a table was added or has grown (`python tools/ship.py`), or after a text was changed on purpose:
the parts of docs/paper.md and docs/studies.md that scripts make, the outputs of the notebooks, the reference, the
texts in tests/*/golden and those that docs/law.md shows. The numbers that tests/golden holds stay as they are;
`PRUNECAST_RENEW_GOLDEN=numbers make renew`, after a table has grown, writes these too. Then read the diff. Prose around
the parts holds no number of a table that grows.
"""

import os
import subprocess
import sys
from pathlib import Path

import arithmetic  # noqa: F401  # before anything imports numpy
import notebook
import paper_page
import reference
import studies_page
from page_parts import renew

ROOT = Path(__file__).parents[1]
GOLDEN = (
    "tests/golden/test_golden.py",
    "tests/cli/test_cli_golden.py",
    "tests/choice/test_choice_cli.py",
    "tests/studies/test_studies_cli.py",
    "tests/studies/test_studies_next.py",
    "tests/laws/test_laws_docs.py",
)
"""The tests that hold texts; the last copies them into docs/law.md."""


def main() -> None:
    for script in (paper_page, studies_page):
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
