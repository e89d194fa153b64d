"""The network as Python code that needs torch alone, written from its traced graph.

Three ways are tried, and the first whose code computes what the network computes is taken:

layers      torch.fx traces the network and keeps the layers of torch.nn, so that the code reads as a person would write
            it and can be trained further. All built-in families are written like this.
operators   torch.export writes down the operators of evaluation mode. It follows nearly everything that does not branch
            on the values of an image.
source      the code calls the family's own function, of which a copy is written beside it.
"""

import ast
import builtins
import contextlib
import inspect
import io
import logging
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn

from prunecast import families
from prunecast.errors import first_line
from prunecast.spec import MODULE_CALLS

Kind = Literal["layers", "operators", "source"]
SOURCE = "family_source"
"""The module with a copy of the family's own source."""
MOST_LITERAL = 64
"""Numbers of a constant tensor that are written into the code; larger ones go to a file."""
BATCH = 3
"""Images in a batch that a network is traced with and compared on."""
CLOSE = 1e-4
"""How far logits may differ, relative to the largest."""
INDENT = "        "
IMPORTS = """from math import inf, nan  # noqa: F401

import torch
from torch import device, nn  # noqa: F401
"""
PUT = '''
def put(module, name, value, persistent=True):
    """Add a layer, parameter or buffer to a module under a dotted name."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if isinstance(value, nn.Module):
        module.add_module(last, value)
    elif isinstance(value, nn.Parameter):
        module.register_parameter(last, value)
    else:
        module.register_buffer(last, value, persistent=persistent)
'''


@dataclass(frozen=True, kw_only=True)
class Program:
    """Code that defines Network, a module (or function) whose state dict has the names of the network's own."""

    kind: Kind
    imports: str
    code: str
    constants: dict[str, Tensor] = field(default_factory=dict)
    """Tensors that the code reads and the state dict lacks, other than small ones."""
    image_by_image: bool = False
    """Whether the batch had to be fixed to one image."""
    problem: str = ""
    """Why the network could not be written as a graph."""
    source: str = ""
    """The file with the family's own function; empty where it is part of a package, or not needed."""


class _CannotWriteError(Exception):
    """A graph that cannot be written as code, or whose code computes something else."""


def program(
    model: nn.Module, image_shape: tuple[int, ...], family: str, given: Mapping[str, object]
) -> Program:
    """Write a network in evaluation mode as code; `given` are what a family's own function may ask for."""
    model = model.eval()
    problem = ""
    ways: tuple[Callable[[], Program], ...] = (
        lambda: _layers(model),
        *(partial(_operators, model, image_shape, trace=trace) for trace in Trace),
    )
    for way in ways:
        try:
            with torch.no_grad(), unfused_attention(), quiet():
                written = way()
                _compare(written, model, image_shape)
            return written
        except Exception as failure:  # torch.fx and torch.export raise anything
            problem = first_line(failure)
    return _source(family, given, problem)


def network_of(written: Program) -> nn.Module:
    """The module that code of layers or operators defines, without its weights."""
    module = types.ModuleType("model")
    exec(compile(f"{written.imports}\n{written.code}", "model.py", "exec"), module.__dict__)
    network: nn.Module = module.__dict__["Network"]()
    for name, tensor in written.constants.items():
        network.get_buffer(name).copy_(tensor)
    return network.eval()


@contextlib.contextmanager
def unfused_attention() -> Iterator[None]:
    """Turn off torch's fused encoder layer, which no trace can look into."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch says about its traces off the screen; what matters is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def example(image_shape: tuple[int, ...], images: int) -> Tensor:
    """Random images, the same at every call."""
    return torch.randn(images, *image_shape, generator=torch.Generator().manual_seed(0))


def _compare(written: Program, model: nn.Module, image_shape: tuple[int, ...]) -> None:
    """Refuse code that computes different logits than the network."""
    network = network_of(written)
    network.load_state_dict(model.state_dict())
    for images in (BATCH, 1, BATCH + 2):
        batch = example(image_shape, images)
        own, other = model(batch), network(batch)
        if own.shape != other.shape or not torch.allclose(
            own, other, rtol=0, atol=CLOSE * max(1.0, float(own.abs().max())), equal_nan=True
        ):
            raise _CannotWriteError("the code computes different logits")


def _layers(model: nn.Module) -> Program:
    """Trace with torch.fx, which keeps layers of torch.nn."""
    with MODULE_CALLS:
        graph = fx.Tracer().trace(model)
    used = {str(node.target) for node in graph.nodes if node.op == "call_module"}
    layers = {
        name: _constructor(model.get_submodule(name)) for name, _ in model.named_modules() if name in used
    }
    return _written("layers", graph, model, layers)


class Trace(StrEnum):
    """Ways to trace a network with torch.export, the one to prefer first."""

    CALLS = "calls"
    """runs the network, for batches of any size"""
    CODE = "code"
    """reads its Python code, which also allows len(images); it is slower and refuses more networks"""
    ONE_IMAGE = "one image"
    """runs the network on one image"""


def trace_network(
    model: nn.Module, image_shape: tuple[int, ...], trace: Trace
) -> torch.export.ExportedProgram:
    """The network's operators."""
    one = trace is Trace.ONE_IMAGE
    with MODULE_CALLS:
        return torch.export.export(
            model,
            (example(image_shape, 1 if one else BATCH),),
            dynamic_shapes=None if one else ({0: torch.export.Dim("batch")},),
            strict=trace is Trace.CODE,
        )


def _operators(model: nn.Module, image_shape: tuple[int, ...], *, trace: Trace) -> Program:
    """Trace with torch.export, for batches of any size or for one image at a time."""
    traced = trace_network(model, image_shape, trace).module()
    graph = traced.graph
    for node in list(graph.nodes):
        if node.op == "call_module":  # checks of the input's shape
            graph.erase_node(node)
        elif node.op == "output":
            node.args = (node.args[0][0],)
    graph.set_codegen(fx.graph.CodeGen())
    return _written("operators", graph, traced, {}, model=model, image_by_image=trace is Trace.ONE_IMAGE)


def _written(
    kind: Kind,
    graph: fx.Graph,
    traced: nn.Module,
    layers: dict[str, str],
    *,
    model: nn.Module | None = None,
    image_by_image: bool = False,
) -> Program:
    """A graph as a class: its layers, the tensors beside them, and the forward pass."""
    state = (model or traced).state_dict()
    parameters = dict((model or traced).named_parameters(remove_duplicate=False))
    lines = [_assignment(name, constructor) for name, constructor in layers.items()]
    for name, tensor in state.items():
        if not any(name.startswith(f"{layer}.") for layer in layers):
            empty = f"torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype})"
            lines.append(
                _assignment(name, f"nn.Parameter({empty})" if name in parameters else empty, tensor=True)
            )
    constants: dict[str, Tensor] = {}
    for node in graph.nodes:
        name = str(node.target)
        if node.op == "get_attr" and name not in state and name not in constants:
            value = _attribute(traced, name)
            constants[name] = value
            lines.append(f'put(self, "{name}", {_literal(value)}, persistent=False)')
    body = _forward(graph)
    if image_by_image:
        body = [
            "    def forward(self, images):",
            f"{INDENT}return torch.cat([self.classify_one(image) for image in images.split(1)])",
            "",
            *(line.replace("def forward(", "def classify_one(", 1) for line in body),
        ]
    code = "\n".join(
        [
            *([PUT, ""] if any(line.startswith("put(") for line in lines) else [""]),
            "class Network(nn.Module):",
            "    def __init__(self):",
            f"{INDENT}super().__init__()",
            *(f"{INDENT}{line}" for line in lines),
            "",
            *body,
            "",
        ]
    )
    large = {name: value for name, value in constants.items() if value.numel() > MOST_LITERAL}
    return Program(kind=kind, imports=IMPORTS, code=code, constants=large, image_by_image=image_by_image)


def _assignment(name: str, value: str, *, tensor: bool = False) -> str:
    if name.isidentifier() and not (tensor and "Parameter" not in value):
        return f"self.{name} = {value}"
    return f'put(self, "{name}", {value})'


def _constructor(layer: nn.Module) -> str:
    """The code that builds a layer of torch.nn: its repr or, for attention, its settings, if that builds an equal."""
    kind = type(layer)
    if getattr(nn, kind.__name__, None) is not kind or layer._forward_hooks or layer._forward_pre_hooks:
        raise _CannotWriteError(f"{kind.__name__} is not a layer of torch.nn")
    written = _calls[kind](layer) if kind in _calls else repr(layer)
    code = _without_defaults(f"nn.{written}", kind)
    other = eval(code, {"nn": nn})
    parts = zip(layer.modules(), other.modules(), strict=True)
    same = all(type(own) is type(new) and _settings(own) == _settings(new) for own, new in parts)
    if not (same and _shapes(other) == _shapes(layer)):
        raise _CannotWriteError(f"{kind.__name__} has settings that its repr does not show")
    return code


def _attention(layer: nn.MultiheadAttention) -> str:
    bias = layer.in_proj_bias is not None
    other = f"kdim={layer.kdim}, vdim={layer.vdim}, " if layer.in_proj_weight is None else ""
    return (
        f"MultiheadAttention({layer.embed_dim}, {layer.num_heads}, dropout={layer.dropout}, bias={bias}, "
        f"{other}batch_first={layer.batch_first})"
    )


def _encoder_layer(layer: nn.TransformerEncoderLayer) -> str:
    attention = layer.self_attn
    activation = "activation='gelu', " if layer.activation is nn.functional.gelu else ""
    return (
        f"TransformerEncoderLayer({attention.embed_dim}, {attention.num_heads}, "
        f"dim_feedforward={layer.linear1.out_features}, dropout={layer.dropout.p}, {activation}"
        f"layer_norm_eps={layer.norm1.eps}, batch_first={attention.batch_first}, norm_first={layer.norm_first}, "
        f"bias={layer.linear1.bias is not None})"
    )


def _encoder(layer: nn.TransformerEncoder) -> str:
    block, *_ = layer.layers
    norm = "" if layer.norm is None else f"norm={_constructor(layer.norm)}, "
    nested = f"enable_nested_tensor={layer.enable_nested_tensor}, mask_check={layer.mask_check}"
    return f"TransformerEncoder({_constructor(block)}, {layer.num_layers}, {norm}{nested})"


_calls: dict[type[nn.Module], Callable[[Any], str]] = {
    nn.MultiheadAttention: _attention,
    nn.TransformerEncoder: _encoder,
    nn.TransformerEncoderLayer: _encoder_layer,
}
"""Layers whose repr does not show how they are built."""


def _without_defaults(code: str, kind: type[nn.Module]) -> str:
    """A call without the arguments that have their default values, some of which an earlier torch does not know."""
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    known = inspect.signature(kind).parameters
    call.keywords = [
        given
        for given in call.keywords
        if given.arg is None
        or isinstance(given.value, ast.Call)
        or known[given.arg].default != ast.literal_eval(given.value)
    ]
    return ast.unparse(call)


def _settings(layer: nn.Module) -> dict[str, object]:
    return {
        name: value for name, value in vars(layer).items() if not name.startswith("_") and name != "training"
    }


def _shapes(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()}


def _attribute(module: nn.Module, name: str) -> Tensor:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, Tensor):
        raise _CannotWriteError(f"{name} is not a tensor")
    return value.detach()


def _literal(value: Tensor) -> str:
    if value.numel() > MOST_LITERAL:
        return f"torch.zeros({tuple(value.shape)}, dtype={value.dtype})"
    return f"torch.tensor({value.tolist()}, dtype={value.dtype})"


def _forward(graph: fx.Graph) -> list[str]:
    """The forward pass as torch.fx writes it; functions that are neither torch's nor built in cannot be written."""
    written = graph.python_code("self")
    known = {"torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree"}
    if unknown := set(written.globals) - known - set(vars(builtins)):
        raise _CannotWriteError(f"it calls {', '.join(sorted(unknown))}")
    return [f"    {line}" if line else line for line in written.src.strip().splitlines()]


def _source(family: str, given: Mapping[str, object], problem: str) -> Program:
    """Call the family's own function, from a copy of its file unless it is part of a package."""
    place, _, function = family.partition(":")
    call = ", ".join(f"{name}={given[name]!r}" for name in families.arguments(family))
    path = inspect.getsourcefile(inspect.unwrap(families.find(family)))
    single = path is not None and "." not in place and Path(path).name == f"{place}.py"
    imports = "\n".join(
        [
            "import sys",
            "",
            "import torch",
            "",
            "sys.path.insert(0, str(Path(__file__).parent))",
            f"from {SOURCE if single else place} import {function}  # noqa: E402",
            "",
        ]
    )
    code = f"\ndef Network():  # noqa: N802\n    return {function}({call})\n"
    return Program(
        kind="source", imports=imports, code=code, problem=problem, source=str(path) if single else ""
    )
