"""A network as a graph of operations with the shape of every tensor, and the operations that keep channels apart."""

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast.errors import PrunecastError
from prunecast.families.trial import place_of
from prunecast.spec import MODULE_CALLS

T = TypeVar("T")
Target = Callable[..., Any] | str
DROPOUTS: frozenset[Target] = frozenset({torch.dropout, F.dropout, F.dropout2d})
FLATTENING: frozenset[Target] = frozenset(
    {torch.flatten, torch.reshape, torch.squeeze, "flatten", "reshape", "squeeze", "view"},
)
POINTWISE: frozenset[Target] = frozenset(
    {
        *(torch.relu, torch.relu_, torch.sigmoid, torch.tanh, torch.abs, torch.neg, operator.neg),
        *(F.relu, F.relu6, F.leaky_relu, F.elu, F.gelu, F.silu, F.hardswish, F.hardtanh),
        *(F.sigmoid, F.tanh, F.softplus),
        *("relu", "relu_", "sigmoid", "tanh", "abs", "neg", "contiguous", "clone"),
        *(operator.add, operator.iadd, operator.sub, operator.mul, operator.imul, operator.truediv),
        *(torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum),
        *("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_"),
    }
)
"""Operations on every element by itself, or on the same element of several activations."""
POOLING: frozenset[Target] = frozenset(
    {F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.adaptive_max_pool2d, torch.max_pool2d}
)
OVER_SPACE: frozenset[Target] = frozenset(
    {torch.mean, torch.sum, torch.amax, torch.squeeze, "mean", "sum", "amax", "squeeze"}
)
"""Operations that keep channels apart unless they reduce the channels' axis."""
CONCATENATIONS: frozenset[Target] = frozenset({torch.cat, torch.concat, torch.concatenate})

ACTIVATIONS: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish),
    *(nn.Hardsigmoid, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh),
    *(nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d),
)
SPATIAL: tuple[type[nn.Module], ...] = (
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AdaptiveMaxPool2d),
    *(nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d),
    *(nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d),
)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
ENCODERS = (nn.TransformerEncoderLayer, nn.TransformerEncoder)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
SPATIAL_FUNCTIONS: frozenset[Target] = POOLING | {F.interpolate, F.max_pool1d, F.avg_pool1d}
RESHAPING: frozenset[Target] = frozenset({torch.reshape, "reshape", "view"})
SWAPPING: frozenset[Target] = frozenset({torch.transpose, "transpose", torch.swapaxes})
OTHER_POINTWISE: frozenset[Target] = frozenset(
    {
        *(F.mish, F.hardsigmoid, F.selu, F.celu, torch.clamp, torch.sqrt, torch.square, torch.exp, torch.pow),
        *("clamp", "clamp_", "pow", "sqrt", "square", "exp", "float", "detach"),
    }
)


UNFOLLOWED = "cannot be followed operation by operation (avoid conditions, loops and len() on tensors and their shapes)"


class UntraceableError(PrunecastError):
    """A network that cannot be read as a graph; `place` says where."""


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One network's operations, its modules by name, and the shape of each tensor by node name."""

    graph: fx.Graph
    modules: dict[str, nn.Module]
    shapes: dict[str, tuple[int, ...]]


def found_once(
    found: "WeakKeyDictionary[nn.Module, T | str]",
    model: nn.Module,
    find: Callable[[], T],
    refusal: type[Exception],
) -> T:
    """Call `find` once per network, in one thread, and return its result from then on.

    An exception of the type `refusal` is kept as text, because its traceback would keep the model alive.
    """
    if model not in found:
        with MODULE_CALLS:
            if model not in found:  # another thread may have found it meanwhile
                try:
                    found[model] = find()
                except refusal as problem:
                    found[model] = str(problem)
    kept = found[model]
    if isinstance(kept, str):
        raise refusal(kept)
    return kept


class _Tracer(fx.Tracer):
    def __init__(self, leaves: tuple[type[nn.Module], ...]) -> None:
        super().__init__()
        self._leaves = leaves

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self._leaves) or super().is_leaf_module(m, module_qualified_name)


def trace(model: nn.Module, image_shape: Sequence[int], leaves: tuple[type[nn.Module], ...] = ()) -> Traced:
    """Read the graph of a network without touching it: the run is on a copy that has shapes but no values.

    Modules of torch and of the types `leaves` are single operations. Hold MODULE_CALLS meanwhile.
    """
    on_meta = copy.deepcopy(model).to("meta", torch.float32)
    try:
        graphs = [
            fx.GraphModule(on_meta, _Tracer(leaves).trace(on_meta.train(mode))) for mode in (True, False)
        ]
        shapes = _Shapes(graphs[1])
        shapes.run(torch.empty(2, *image_shape, device="meta"))
    except Exception as error:
        place = place_of(on_meta, error) or type(model).__name__
        raise UntraceableError(f"{place} {UNFOLLOWED}") from error
    if signature(graphs[0].graph) != signature(graphs[1].graph):
        raise UntraceableError(
            f"{type(model).__name__} computes something different in training than in evaluation"
        )
    return Traced(graph=graphs[0].graph, modules=dict(model.named_modules()), shapes=shapes.found)


class _Shapes(fx.Interpreter):
    """Runs a graph and notes the shape of every tensor it makes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.found[n.name] = tuple(result.shape)
        return result


def signature(graph: fx.Graph) -> list[tuple[str, ...]]:
    """What must be the same in all graphs of a family: operations, connections and literal arguments.

    The literals of flattenings and dropouts are left out: they may hold a channel count, or the mode of training. The
    code that follows the graph checks both.
    """
    return [(node.op, str(node.target), *_arguments(node)) for node in graph.nodes]


def _arguments(node: fx.Node) -> tuple[str, ...]:
    if node.op == "placeholder":
        return ()
    if node.target in FLATTENING or node.target in DROPOUTS:
        return tuple(str(source) for source in node.all_input_nodes)
    return (str(node.args), str(node.kwargs))


def named_axis(node: fx.Node, default: Any) -> Any:
    """The axis argument of a concatenation or reduction, passed by position or by name."""
    named = node.kwargs.get("dim", node.kwargs.get("axis", default))
    return node.args[1] if len(node.args) > 1 else named


def operation_name(node: fx.Node) -> str:
    """An operation in words."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return f"{name!r} (node {node.name})"
