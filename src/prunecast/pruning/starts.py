"""Weights to start from: a file of trained weights, kept in the store and loaded into a chain's network.

    starts/<digest>.safetensors    the tensors of a file, named by the digest of the file's bytes

The digest is part of a chain's spec. The copy makes a chain independent of the user's file, which may move, and gives
workers on other machines the same weights. Files are safetensors or what `torch.save(model.state_dict(), path)` wrote;
pickles are read with `weights_only=True`, which runs none of their code.
"""

import functools
import hashlib
import io
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from prunecast.errors import PrunecastError
from prunecast.files import is_there, read_file
from prunecast.pruning.files import (
    is_storable,
    make_folder,
    parse_tensors,
    read_tensors,
    write_tensors,
)
from prunecast.pruning.holder import FileVersion, file_version
from prunecast.spec import ChainSpec

DIGITS = 20
WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts save the state dict along with optimizer and epoch."""
PREFIXES = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before every name."""
BATCH_COUNT = "num_batches_tracked"


def start_digest(path: Path) -> str:
    """The digest of a file of weights: the start of the SHA-256 of its bytes."""
    return _digest_of_version(path, file_version(path))


@functools.lru_cache(maxsize=1024)
def _digest_of_version(path: Path, _: FileVersion) -> str:
    return _digest(_content(path))


def store_start(store: Path, path: Path, digest: str) -> None:
    """Copy a file of weights to the store; refuse it if it has changed since its digest was taken."""
    kept = start_file(store, digest)
    if is_there(kept):
        return
    data = _content(path)
    if _digest(data) != digest:
        raise PrunecastError(f"{path} was changed after the plan was read; run the same command again.")
    make_folder(kept.parent)
    write_tensors(kept, _tensors(path, data), {"start": digest, "file": path.name})


def read_start(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of weights."""
    return _tensors(path, _content(path))


def start_file(store: Path, digest: str) -> Path:
    """Where the store keeps the weights with this digest."""
    return store / "starts" / f"{digest}.safetensors"


@torch.no_grad()
def load_start(store: Path, spec: ChainSpec, model: nn.Module) -> None:
    """Load the weights that a chain starts from into its network."""
    assert spec.start is not None
    kept = start_file(store, spec.start)
    if not is_there(kept):
        raise PrunecastError(
            f"{kept} is missing. It holds the weights that the chain starts from; run its plan again on a machine "
            "that has the file of `start`."
        )
    tensors, notes = read_tensors(kept)
    for name, tensor in fitting(tensors, spec, model, str(notes.get("file", kept))).items():
        model.state_dict()[name].copy_(tensor)


def fitting(
    tensors: Mapping[str, Tensor], spec: ChainSpec, model: nn.Module, file: str
) -> Mapping[str, Tensor]:
    """Return the tensors if their names and shapes are those of the network; an error names the first that differs."""
    network = f"{spec.family} of depth {spec.depth} and width {spec.width:g}"
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in tensors and not name.endswith(BATCH_COUNT)]
    if missing:
        raise PrunecastError(
            f"{file} has no tensor {missing[0]!r}, which {network} has; save the state dict of a network that this "
            "family builds."
        )
    for name, tensor in tensors.items():
        if name not in wanted:
            raise PrunecastError(
                f"{file} has the tensor {name!r}, which {network} does not have; save the state dict of a network that "
                "this family builds."
            )
        if tensor.shape != wanted[name].shape:
            raise PrunecastError(
                f"{file}: the tensor {name!r} has shape {tuple(tensor.shape)}, but in {network} it has "
                f"{tuple(wanted[name].shape)}; plan the depth and width of the saved network, or give each network its "
                'own file, as in start = "weights-{depth}-{width}.pt".'
            )
        if not bool(torch.isfinite(tensor).all()):
            raise PrunecastError(
                f"{file}: the tensor {name!r} has values that are not finite; train it again."
            )
    return tensors


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except FileNotFoundError as failure:
        raise PrunecastError(
            f"start: there is no file {path}; give the path of a file of weights."
        ) from failure
    except ValueError as failure:
        raise PrunecastError(
            f"start: {path} cannot be read ({failure}); give a file of weights."
        ) from failure


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _tensors(path: Path, data: bytes) -> dict[str, Tensor]:
    """The tensors of a file in either format."""
    is_torch = zipfile.is_zipfile(io.BytesIO(data)) or data[:1] == pickle.PROTO
    try:
        found = _unpickled(data) if is_torch else parse_tensors(data)
    except Exception as failure:  # torch raises nearly anything for a file that is none of its own
        raise PrunecastError(
            f"{path} holds no weights that can be read; save them with "
            "torch.save(model.state_dict(), path) or safetensors.torch.save_file."
        ) from failure
    if not found:
        raise PrunecastError(f"{path} holds no tensors; save the state dict of a network.")
    for name, tensor in found.items():
        if not is_storable(tensor.dtype):
            raise PrunecastError(f"{path}: the tensor {name!r} is {tensor.dtype}; save it as float32.")
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): tensor for name, tensor in found.items()}
    return found


def _unpickled(data: bytes) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that are refused afterwards
        body = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    for key in WRAPPERS:
        if isinstance(body, Mapping) and isinstance(body.get(key), Mapping):
            body = body[key]
    if not isinstance(body, Mapping) or not all(isinstance(tensor, Tensor) for tensor in body.values()):
        raise ValueError("not a state dict")
    return {str(name): tensor.detach() for name, tensor in body.items()}
