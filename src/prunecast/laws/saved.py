"""The file of a saved law: JSON that names its format and version, and fields that rebuild the values.

A checksum over all other fields notices a file that was altered. One that is altered on purpose has its checksum
removed; its fields are then checked as those of files from before there were checksums.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.files import dumps, read_input, write_text

FORMAT, VERSION = "prunecast law", 2
CHECKSUM = "checksum"
HOW_TO_SAVE = "`prunecast fit TABLE -o law.json` writes one"


def write(path: Path, body: dict[str, Any]) -> None:
    """Write a law's fields as one JSON file, with their checksum."""
    text = dumps(headed(body))
    write_text(path, f'{text.removesuffix("}")}, "{CHECKSUM}": "{checksum(json.loads(text))}"}}\n')


def headed(body: dict[str, Any]) -> dict[str, Any]:
    """The fields with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, **body}


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """Fields as they are after they were written and read."""
    read_back: dict[str, Any] = json.loads(dumps(body))
    return read_back


def checksum(body: dict[str, Any]) -> str:
    """The checksum of a file's fields; spaces and line breaks between them do not change it."""
    others = {name: value for name, value in body.items() if name != CHECKSUM}
    return f"sha256:{hashlib.sha256(json.dumps(others).encode()).hexdigest()}"


def read(path: Path) -> dict[str, Any]:
    """The fields of a saved law."""
    try:
        body = json.loads(read_input(path))
    except OSError as error:
        raise PrunecastError(f"{path} cannot be read: {error.strerror}; {HOW_TO_SAVE}") from error
    except (ValueError, RecursionError) as error:
        raise PrunecastError(f"{path} is not a saved law (it is not JSON); {HOW_TO_SAVE}") from error
    if not isinstance(body, dict):
        raise PrunecastError(f"{path} is not a saved law; {HOW_TO_SAVE}")
    return checked(body, str(path))


def checked(body: dict[str, Any], place: str) -> dict[str, Any]:
    """The fields, refused where they are not a law's, those of another version, or altered."""
    if body.get("format") != FORMAT:
        raise PrunecastError(f"{place} is not a saved law; {HOW_TO_SAVE}")
    if body.get("version") != VERSION:
        raise PrunecastError(
            f"{place} has format version {body.get('version')}, but this prunecast reads version {VERSION}; fit the "
            "table again"
        )
    if CHECKSUM in body and body[CHECKSUM] != checksum(body):
        raise PrunecastError(
            f"{place} was changed after prunecast wrote it: its checksum does not match; fit the table again, or "
            f'delete the key "{CHECKSUM}" if the change is yours'
        )
    return body
