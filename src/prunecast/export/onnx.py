"""The network as an ONNX file, where the extra `onnx` is installed."""

import importlib.util
import json
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from prunecast.data import Preprocessing
from prunecast.errors import first_line
from prunecast.export.files import ONNX
from prunecast.export.program import BATCH, Trace, example, quiet, trace_network, unfused_attention
from prunecast.files import is_there, read_file
from prunecast.pruning import write_whole
from prunecast.spec import MODULE_CALLS

NEEDED = ("onnx", "onnxscript", "onnxruntime")
INPUT, OUTPUT = "images", "logits"
CLOSE = 1e-3
"""How much ONNX Runtime's logits may differ from torch's, relative to the largest."""


class OnnxFile(NamedTuple):
    """What the ONNX file can do, or why there is none."""

    image_by_image: bool = False
    """whether it takes one image at a time"""
    missing: str = ""
    """the module that is not installed"""
    problem: str = ""
    """why torch could not write the file"""


def write_onnx(
    folder: Path,
    model: nn.Module,
    image_shape: tuple[int, ...],
    preprocessing: Preprocessing | None,
    class_names: tuple[str, ...],
    digest: str,
) -> OnnxFile:
    """Write model.onnx and check it with ONNX Runtime; if that fails, remove the file of another network."""
    path = folder / ONNX
    missing, problem = missing_module(), ""
    for trace in () if missing else Trace:
        try:
            data = _exported(model.eval(), image_shape, trace, _notes(preprocessing, class_names, digest))
            _compare(data, model, image_shape, 1 if trace is Trace.ONE_IMAGE else BATCH)
        except Exception as failure:  # torch.onnx raises anything
            problem = first_line(failure)
            continue
        write_whole(path, data)
        return OnnxFile(image_by_image=trace is Trace.ONE_IMAGE)
    if is_there(path) and digest.encode() in read_file(path):
        return OnnxFile()
    path.unlink(missing_ok=True)
    return OnnxFile(missing=missing, problem=problem)


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
    return _exported(model.eval(), image_shape, Trace.CALLS, {})


def _exported(model: nn.Module, image_shape: tuple[int, ...], trace: Trace, notes: dict[str, str]) -> bytes:
    """The file's bytes, for batches of any size, or for one image; paths of this machine are left out."""
    with torch.no_grad(), unfused_attention(), quiet(), MODULE_CALLS:
        made = torch.onnx.export(
            trace_network(model, image_shape, trace),
            dynamo=True,
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
