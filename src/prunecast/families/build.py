"""From a family's name to an initialised module: the built-in families and a user's own."""

import inspect
from collections.abc import Callable

import torch
from torch import nn

from prunecast.catalog import FAMILIES, Shape, architecture
from prunecast.errors import PrunecastError
from prunecast.families.initialise import Weighted, initialise
from prunecast.families.network import Network
from prunecast.plugins import load_attribute
from prunecast.spec import MODULE_CALLS, TORCH_GENERATOR

Constructor = Callable[..., nn.Module]


def build(
    family: str,
    *,
    depth: int,
    width: float,
    num_classes: int,
    generator: torch.Generator,
    image_shape: Shape | None = None,
) -> nn.Module:
    """Return a CPU float32 module, initialised from the generator alone.

    family is a built-in name or `package.module:function`; such a function is called with depth, width and
    num_classes, and its module initialised like the others unless the function has `own_init = True`.
    image_shape adapts a built-in family to other images and is not passed to a user's function.
    """
    if ":" in family:
        model = _users_own(family, depth, width, num_classes, generator)
    else:
        member = architecture(
            family, depth=depth, width=width, num_classes=num_classes, image_shape=image_shape
        )
        with TORCH_GENERATOR, torch.random.fork_rng(devices=[]):  # torch's own first draws would move it
            model = Network(member)
        initialise(model, generator)
    if not prunable(model):
        raise PrunecastError(f"the model of family {family!r} has no convolution or linear weight to prune.")
    return model


def prunable(model: nn.Module) -> tuple[str, ...]:
    """Return the state-dict names of the prunable weights in module order.

    They are every convolution and linear weight, each tensor once, or the model's own `prunable_weights`.
    """
    parameters = dict(model.named_parameters())
    own: tuple[str, ...] | None = getattr(model, "prunable_weights", None)
    if own is not None:
        for name in own:
            if name not in parameters:
                raise PrunecastError(f"prunable_weights names {name!r}, which is no parameter of the model.")
        return tuple(own)
    weighted = (path for path, module in model.named_modules() if isinstance(module, Weighted))
    names = (f"{path}.weight" if path else "weight" for path in weighted)
    return tuple(name for name in names if name in parameters)


def find(family: str) -> Constructor:
    """Return the function that `package.module:function` names."""
    if family.startswith(":"):
        raise PrunecastError(_unknown(family))
    function = load_attribute(family, "family")
    if not callable(function):
        raise PrunecastError(f"family {family!r} is no function of depth, width and num_classes.")
    return function


def _users_own(
    family: str, depth: int, width: float, num_classes: int, generator: torch.Generator
) -> nn.Module:
    function = find(family)
    arguments = {"depth": depth, "width": width, "num_classes": num_classes}
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as mismatch:
        wanted = "it must accept depth, width and num_classes"
        raise PrunecastError(f"family {family!r} cannot be called: {mismatch}; {wanted}.") from mismatch
    seed = int(torch.randint(2**62, (), generator=generator))
    with MODULE_CALLS, TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = function(**arguments)
    if not isinstance(model, nn.Module):
        raise PrunecastError(f"family {family!r} returned {type(model).__name__}, not a torch.nn.Module.")
    model = model.to(device="cpu", dtype=torch.float32)
    if not getattr(function, "own_init", False):
        initialise(model, generator)
    return model


def _unknown(family: str) -> str:
    own = "your own is named package.module:function"
    return f"unknown family {family!r}; the built-in families are {', '.join(FAMILIES)}, and {own}."
