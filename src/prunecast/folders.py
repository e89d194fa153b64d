"""Where results are to be written, looked at before the work."""

from pathlib import Path

from prunecast.errors import PrunecastError


def check_folder(path: Path | None) -> None:
    """Refuse a path whose folder is missing before the work that it is for, not after it."""
    if path is not None and not path.absolute().parent.is_dir():
        raise PrunecastError(
            f"{path} cannot be written: there is no folder {path.absolute().parent}; make it first."
        )
