"""The network as an ONNX file, where the extra `onnx` is installed."""

import importlib.util
import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunecast.data import Preprocessing
from prunecast.errors import first_line
from prunecast.export.files import ONNX
from prunecast.export.program import BATCH, example, quiet, unfused_attention
from prunecast.files import is_there, read_file
from prunecast.pruning import write_whole
from prunecast.spec import MODULE_CALLS

NEEDED = ("onnx", "onnxscript", "onnxruntime")
INPUT, OUTPUT = "images", "logits"
CLOSE = 1e-3
"""How much ONNX Runtime's logits may differ from torch's, relative to the largest."""


def write_onnx(
    folder: Path,
    model: nn.Module,
    image_shape: tuple[int, ...],
    preprocessing: Preprocessing | None,
    class_names: tuple[str, ...],
    digest: str,
) -> tuple[str, str]:
    """Write model.onnx and check it with ONNX Runtime; if that fails, remove the file of another network.

    Returns the module that is not installed, and why torch could not write the file; both are empty if there is a file.
    """
    path = folder / ONNX
    missing, problem = missing_module(), ""
    for images in () if missing else (BATCH, 1):
        try:
            data = _exported(model.eval(), image_shape, images, _notes(preprocessing, class_names, digest))
            _compare(data, model, image_shape, images)
        except Exception as failure:  # torch.onnx raises anything
            problem = first_line(failure)
            continue
        write_whole(path, data)
        return "", ""
    if is_there(path) and digest.encode() in read_file(path):
        return "", ""
    path.unlink(missing_ok=True)
    return missing, problem


def missing_module() -> str:
    """The first module of the extra `onnx` that is not installed; empty if all are."""
    return next((name for name in NEEDED if importlib.util.find_spec(name) is None), "")


def _notes(preprocessing: Preprocessing | None, class_names: tuple[str, ...], digest: str) -> dict[str, str]:
    """What a user of the file needs to know, as JSON."""
    notes: dict[str, Any] = {"spec": digest, "class_names": class_names}
    if preprocessing is not None:
        notes |= {name: getattr(preprocessing, name) for name in ("mean", "std", "value_range")}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in notes.items()}


def exported(model: nn.Module, image_shape: tuple[int, ...]) -> bytes:
    """A network as the bytes of an ONNX file, for batches of any size."""
    return _exported(model.eval(), image_shape, BATCH, {})


def _exported(model: nn.Module, image_shape: tuple[int, ...], images: int, notes: dict[str, str]) -> bytes:
    """The file's bytes, for batches of any size, or for one image; paths of this machine are left out."""
    shapes = ({0: torch.export.Dim("batch")},) if images > 1 else None
    with torch.no_grad(), unfused_attention(), quiet(), MODULE_CALLS:
        made = torch.onnx.export(
            model,
            (example(image_shape, images),),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=[INPUT],
            output_names=[OUTPUT],
            verbose=False,
        )
    assert made is not None
    proto: Any = made.model_proto
    graph = proto.graph
    described = (graph.node, graph.input, graph.output, graph.value_info, graph.initializer)
    for part in (proto, graph, *chain.from_iterable(described)):
        del part.metadata_props[:]
        part.doc_string = ""
    for name, value in notes.items():
        proto.metadata_props.add(key=name, value=value)
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def _compare(data: bytes, model: nn.Module, image_shape: tuple[int, ...], images: int) -> None:
    import onnxruntime

    with quiet():
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        batch = example(image_shape, images if images == 1 else images + 2)
        (found,) = session.run(None, {INPUT: batch.numpy()})
    with torch.no_grad():
        own: Tensor = model(batch)
    if not np.allclose(found, own.numpy(), rtol=0, atol=CLOSE * max(1.0, float(own.abs().max()))):
        raise ValueError("ONNX Runtime computes different logits than torch")
