"""The exceptions that a user can see, and checks that raise them.

Each message says what is wrong, where, and how to fix it.
"""

import errno
import math
from collections.abc import Iterable, Mapping

from prunecast.text import did_you_mean, printable

STOPPED = 130
"""Exit status of a command that was stopped, as shells define it."""


class PrunecastError(Exception):
    """Something that a user can fix; the command line prints the message and exits with status 2."""

    def __init__(self, message: str) -> None:
        """Escape characters that terminals cannot show, such as parts of file names that are not UTF-8."""
        super().__init__(printable(message))


class TableError(PrunecastError):
    """A table is refused; the message names the file, the row and the column, and what to do."""

    def __init__(self, message: str) -> None:
        """Keep the message on one line, even if it shows cells with line breaks."""
        super().__init__(message.replace("\n", "\\n"))


class UnmetTargetError(PrunecastError):
    """No network meets the target; the command line exits with status 1, as `choose` does."""


class UnreadableError(PrunecastError):
    """A file cannot be read because of permissions or the disk; it may be intact."""


class DamagedError(PrunecastError):
    """The content of a file is not what was written."""


class StoreError(PrunecastError):
    """The store cannot be written (full disk, read-only folder), so no chain can continue."""


class BusyError(PrunecastError):
    """Another process is working on a chain, so this one must wait or do something else."""


_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
)
_FAILING = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE)


def refused_path(error: OSError) -> str:
    """A sentence about a path that may not be used; empty if the error is of another kind."""
    if error.errno in _FAILING and error.filename is not None:
        return f"{error.filename}: {error.strerror}; check the disk, and run the same command again."
    if error.errno not in _REFUSED or error.filename is None:
        return ""
    return f"{error.filename}: {error.strerror}; choose another path, or ask for permission to use it."


def sentence(problem: PrunecastError) -> str:
    """The message as a sentence, with a full stop at the end."""
    text = str(problem)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def first_line(failure: BaseException) -> str:
    """The first line of another library's exception, or its type if the message is empty."""
    return str(failure).strip().partition("\n")[0] or type(failure).__name__


def require(condition: bool, message: str) -> None:
    """Raise the message unless the condition is true."""
    if not condition:
        raise PrunecastError(message)


def require_one_of(place: str, value: object, valid: Iterable[str]) -> None:
    """Refuse a value that is not in the list; the message shows the list."""
    known = tuple(valid)
    require(
        value in known,
        f"{place} is {value!r}; choose one of {', '.join(known)}.{did_you_mean(str(value), known)}",
    )


def require_known_keys(place: str, given: object, valid: Iterable[str]) -> None:
    """Refuse what is not a table, and tables with unknown keys; the message lists the valid ones."""
    known = tuple(valid)
    if not isinstance(given, Mapping):
        raise PrunecastError(f"{place} is {given!r}; give a table, with keys of {', '.join(known)}.")
    unknown = [key for key in given if key not in known]
    if unknown:
        word = "key" if len(unknown) == 1 else "keys"
        raise PrunecastError(
            f"{place} has the unknown {word} {', '.join(map(repr, unknown))}; valid keys are {', '.join(known)}."
            f"{did_you_mean(unknown[0], known)}"
        )


def require_text(place: str, value: object) -> None:
    """Refuse what is not text."""
    require(isinstance(value, str), f"{place} is {value!r}; give text in quotes.")


def require_flag(place: str, value: object) -> None:
    """Refuse values other than true and false, such as the word "no", which would count as true."""
    require(isinstance(value, bool), f"{place} is {value!r}; give true or false.")


def require_number(place: str, value: object, *, whole: bool = False) -> None:
    """Refuse what is not a finite number, or not a whole one if `whole`."""
    kind = "a whole number" if whole else "a number"
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    require(good and _finite(value), f"{place} is {value!r}; give {kind}.")  # type: ignore[arg-type]


def _finite(value: float) -> bool:
    """Whether a number is finite as a float; whole numbers over 1e308 are not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
