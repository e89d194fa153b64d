"""Texts held word for word in files.

After a change on purpose, or of a shipped table: `make renew` writes them anew, then read the diff.
"""

import os
from pathlib import Path


def golden(path: Path, text: str) -> str:
    """The text that a file holds; with PRUNECAST_RENEW_GOLDEN=1 the file is given this one first."""
    if os.environ.get("PRUNECAST_RENEW_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
