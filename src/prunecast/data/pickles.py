"""An unpickler that admits numpy arrays and plain containers, and nothing that could run code."""

import pickle
from pathlib import Path
from typing import IO, Any

import numpy as np

from prunecast.errors import PrunecastError

CORES = ("numpy.core.multiarray", "numpy._core.multiarray")


def _latin_bytes(text: str, encoding: str) -> bytes:
    """Stand in for `_codecs.encode`, by which Python 3 writes bytes in old pickles; latin1 is all it uses."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not admitted")
    return text.encode("latin1")


ADMITTED = {
    **{(core, "_reconstruct"): np.empty(0).__reduce__()[0] for core in CORES},
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin_bytes,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name} is not admitted")
        return ADMITTED[module, name]


def unpickle(file: IO[bytes], place: Path) -> Any:
    """Return what a pickle of arrays and plain containers holds; old byte strings stay bytes."""
    try:
        return _PlainUnpickler(file, encoding="bytes").load()
    except Exception as broken:  # a damaged pickle can raise nearly anything
        raise PrunecastError(
            f"{place} is not a readable dataset pickle ({broken}); fetch it again."
        ) from broken
