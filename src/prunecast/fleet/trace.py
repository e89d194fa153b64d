"""A member network read as a graph of operations with the shape of every intermediate value."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from prunecast.fleet.layout import Unpackable

DROPOUTS = frozenset({torch.dropout, nn.functional.dropout, nn.functional.dropout2d})
FLATTENING = frozenset(
    {torch.flatten, torch.reshape, torch.squeeze, "flatten", "reshape", "squeeze", "view"},
)
SIZES = frozenset({"size", getattr})


@dataclass(frozen=True, kw_only=True)
class Traced:
    """One network's operations, its modules by name, and the shape of each tensor by node name."""

    graph: fx.Graph
    modules: dict[str, nn.Module]
    shapes: dict[str, tuple[int, ...]]


def trace(model: nn.Module, image_shape: Sequence[int]) -> Traced:
    """Read the graph of a network without touching it: the run is on a copy that has shapes but no values."""
    ghost = copy.deepcopy(model).to("meta", torch.float32)
    _refuse_shared_parameters(model)
    try:
        graphs = [fx.symbolic_trace(ghost.train(mode)) for mode in (True, False)]
        shapes = _Shapes(graphs[1])
        shapes.run(torch.empty(2, *image_shape, device="meta"))
    except Exception as error:
        name, reason = type(model).__name__, str(error).partition("\n")[0]
        raise Unpackable(f"{name} has no fixed graph of operations to pack by: {reason}") from error
    if signature(graphs[0].graph) != signature(graphs[1].graph):
        raise Unpackable(f"{type(model).__name__} computes something else in training than in evaluation.")
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
    """What must agree between the graphs of a family: operations, wiring and literal arguments.

    Literals of a flattening may hold a channel count, and those of a dropout say whether it trains; the
    packer checks both where it meets them.
    """
    return [(node.op, str(node.target), *_arguments(node)) for node in graph.nodes]


def _arguments(node: fx.Node) -> tuple[str, ...]:
    if node.op == "placeholder":
        return ()
    if node.target in FLATTENING or node.target in DROPOUTS:
        return tuple(str(source) for source in node.all_input_nodes)
    return (str(node.args), str(node.kwargs))


def _refuse_shared_parameters(model: nn.Module) -> None:
    """Two names for one parameter would become two parameters in a pack."""
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(parameter), name)
        if first != name:
            raise Unpackable(
                f"Parameters {first!r} and {name!r} are one tensor, so the family cannot be packed."
            )
