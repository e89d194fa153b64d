"""Which surviving weights lie on a path of surviving weights from input to output.

A network of zeros and ones runs in place of the real one: convolutions and linear layers carry their masks,
batch norms and activations pass everything through, poolings are means, and results are cut back to zero and
one. An output is then one exactly where a path reaches it from the image, and a gradient is one exactly where
a path leads on to a logit; a weight with both, at any position of the image, is alive. Padding carries
nothing. A bias, also that of a batch norm, makes a dead channel constant, and a constant is not a path.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from prunecast.pruning.paths import Paths, UnknownOperationError
from prunecast.spec import MODULE_CALLS


@dataclass(frozen=True, kw_only=True)
class Connectivity:
    """What became of the paths through a pruned network."""

    connected: bool | None
    """Whether any path is left; None where the network is not understood."""
    alive: int | None
    """Surviving weights with a path through them."""
    note: str = ""
    """Why the network is not understood, in a sentence."""


def connectivity(model: nn.Module, masks: Mapping[str, Tensor], image_shape: tuple[int, ...]) -> Connectivity:
    """Count the living weights of a pruned network; `note` names an operation that is not understood."""
    numbers = {name: mask.double().requires_grad_() for name, mask in masks.items()}
    parameters = dict(model.named_parameters())
    try:
        paths = Paths(traced(model), {id(parameters[name]): number for name, number in numbers.items()})
        logits = paths.run(torch.ones(1, *image_shape, dtype=torch.float64))
    except UnknownOperationError as unknown:
        return Connectivity(connected=None, alive=None, note=str(unknown).partition("\n")[0])
    flows = torch.autograd.grad(logits.sum(), list(numbers.values()), allow_unused=True)
    alive = sum(
        int(((flow > 0) & (mask.detach() > 0)).sum())
        for flow, mask in zip(flows, numbers.values(), strict=True)
        if flow is not None
    )
    return Connectivity(connected=bool((logits > 0).any()), alive=alive)


_GRAPHS: WeakKeyDictionary[nn.Module, fx.GraphModule | str] = WeakKeyDictionary()
"""The graph, or why there is none in words: an exception would keep the model alive by its traceback."""


def traced(model: nn.Module) -> fx.GraphModule:
    """The model as a graph of torch's own modules and functions; it is traced once, when first asked for."""
    if model not in _GRAPHS:
        with MODULE_CALLS:
            if model not in _GRAPHS:  # another thread may have traced it meanwhile
                try:
                    _GRAPHS[model] = fx.symbolic_trace(model)
                except Exception as failure:
                    _GRAPHS[model] = str(failure).partition("\n")[0]
    found = _GRAPHS[model]
    if isinstance(found, str):
        raise UnknownOperationError(f"torch.fx cannot trace the model ({found})")
    return found


def understand(model: nn.Module) -> None:
    """Trace a model ahead of time: while torch.fx traces, no other thread may call a module."""
    with contextlib.suppress(UnknownOperationError):
        traced(model)
