"""The file of a saved law: JSON that names its format and version, and fields that rebuild the values."""

import json
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.files import dumps, write_text

FORMAT, VERSION = "prunecast law", 2
HOW_TO_SAVE = "`prunecast fit TABLE -o law.json` writes one"


def write(path: Path, body: dict[str, Any]) -> None:
    """Write a law's fields as one JSON file."""
    write_text(path, dumps(headed(body)) + "\n")


def headed(body: dict[str, Any]) -> dict[str, Any]:
    """The fields with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, **body}


def read(path: Path) -> dict[str, Any]:
    """The fields of a saved law."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PrunecastError(f"{path} cannot be read: {error.strerror}; {HOW_TO_SAVE}") from error
    except ValueError as error:
        raise PrunecastError(f"{path} is not a saved law (it is not JSON); {HOW_TO_SAVE}") from error
    if not isinstance(body, dict):
        raise PrunecastError(f"{path} is not a saved law; {HOW_TO_SAVE}")
    return checked(body, str(path))


def checked(body: dict[str, Any], place: str) -> dict[str, Any]:
    """The fields, refused where they are not a law's or those of another version."""
    if body.get("format") != FORMAT:
        raise PrunecastError(f"{place} is not a saved law; {HOW_TO_SAVE}")
    if body.get("version") != VERSION:
        raise PrunecastError(
            f"{place} has format version {body.get('version')}, but this prunecast reads version {VERSION}; fit the "
            "table again"
        )
    return body
