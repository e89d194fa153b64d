"""Where the data lies: in the folder that `--data` or PRUNECAST_DATA names, unless a plan says it itself."""

import os
from pathlib import Path

from prunecast.catalog import DatasetFacts, find_dataset

VARIABLE = "PRUNECAST_DATA"


def data_folder(given: Path | None) -> Path | None:
    """The folder of datasets: the one given, else the environment's, else none; absolute, for workers elsewhere."""
    named = given or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else None


def located(dataset: str, folder: Path | None) -> Path | None:
    """Where a dataset lies in a folder of datasets; None where it is not, or needs no place.

    A folder of the dataset's name comes first; then the official files beside those of other datasets.
    """
    facts = None if ":" in dataset else find_dataset(dataset)
    if folder is None or facts is None or not facts.download:
        return None
    own = folder / dataset
    if own.is_dir():
        return own
    found = next((folder / name for name in facts.files if (folder / name).exists()), None)
    return folder if found is not None and found.suffix == ".mat" else found


def moved(root: Path, beside: Path, folder: Path | None) -> Path:
    """A plan's own root: beside the plan if it is there, else in the folder of datasets if it is there."""
    if folder is None or root.exists() or not root.is_relative_to(beside):
        return root
    other = folder / root.relative_to(beside)
    return other if other.exists() else root


def missing(plan: str, facts: DatasetFacts, folder: Path | None) -> str:
    """What to do about data that is not there, in a sentence."""
    where = f"there is none in {folder}" if folder else "nothing says where it lies"
    remedy = f"put {facts.download} into {folder or 'a folder'}"
    named = f" or name another folder with --data or {VARIABLE}" if folder else ""
    ask = named or f" and name that folder with --data or {VARIABLE}"
    return f"The plan {plan} needs {facts.title or facts.name}, and {where}; {remedy}{ask}."
