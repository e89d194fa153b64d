"""From a family's name to an initialised module, for the built-in families and your own."""

import inspect
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from prunecast.catalog import FAMILIES, Shape, architecture
from prunecast.errors import PrunecastError
from prunecast.families.network import Network
from prunecast.families.trial import create_lazy_parameters, failure_words
from prunecast.plugins import load_attribute
from prunecast.spec import MODULE_CALLS, TORCH_GENERATOR

Constructor = Callable[..., nn.Module]
Weighted = (_ConvNd, nn.Linear)
"""The modules whose weight is prunable and initialised."""
INTO_ATTENTION = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""The projections of nn.MultiheadAttention besides its linear layer out_proj; a module has the first or the others."""
ARGUMENTS = ("depth", "width", "num_classes", "image_shape")
"""What a user's own function may take."""
MOST_PARAMETERS = 2**60
"""Tensors of more values have a size in bytes that torch cannot hold."""
Normalising = (_NormBase, nn.LayerNorm, nn.GroupNorm)


def build(
    family: str,
    *,
    depth: int,
    width: float,
    num_classes: int,
    generator: torch.Generator | None = None,
    image_shape: Shape | None = None,
    own_weights: bool = False,
) -> nn.Module:
    """Return a CPU float32 module, initialised from the generator alone; without one the weights are always the same.

    `family` is a built-in name or `package.module:function`. A function is called with those of depth, width,
    num_classes and image_shape that it takes. The module that it returns is initialised like the others, unless
    `own_weights` is set or the function has `own_init = True`.
    """
    generator = generator or torch.Generator().manual_seed(0)
    if ":" in family:
        given = {"depth": depth, "width": width, "num_classes": num_classes, "image_shape": image_shape}
        model = _users_own(family, given, generator, own_weights)
    else:
        member = architecture(
            family, depth=depth, width=width, num_classes=num_classes, image_shape=image_shape
        )
        # The default initialisation of torch's modules draws from the global generator.
        with TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
            model = Network(member)
        initialise(model, generator, FAMILIES[family].gain)
    if not prunable(model):
        raise PrunecastError(f"the model of family {family!r} has no convolution or linear weight to prune.")
    return model


def outline(
    family: str, *, depth: int, width: float, num_classes: int, image_shape: Shape | None = None
) -> nn.Module:
    """The module with the shapes of its tensors but, if the family is built in, no memory for their values."""
    if ":" in family:
        generator = torch.Generator().manual_seed(0)
        sizes = {"depth": depth, "width": width, "num_classes": num_classes}
        return build(family, **sizes, generator=generator, image_shape=image_shape)  # type: ignore[arg-type]
    member = architecture(family, depth=depth, width=width, num_classes=num_classes, image_shape=image_shape)
    if member.parameters > MOST_PARAMETERS:
        raise PrunecastError(
            f"the network has {member.parameters:,} parameters, more than torch can address; choose a smaller width."
        )
    with torch.device("meta"):
        return Network(member)


def prunable(model: nn.Module, *, earlier: bool = False) -> tuple[str, ...]:
    """Return the state-dict names of the prunable weights in module order.

    These are the model's own `prunable_weights`, or else every weight of a torch module that multiplies activations:
    convolutions, linear and bilinear layers, and all projections of nn.MultiheadAttention. `earlier` is the rule of
    older chains, which did not prune bilinear layers and the projections into attention.
    """
    parameters = dict(model.named_parameters())
    named: tuple[str, ...] | None = getattr(model, "prunable_weights", None)
    if named is not None:
        for name in named:
            if name not in parameters:
                raise PrunecastError(
                    f"prunable_weights names {name!r}, which is not a parameter of the model."
                )
        return tuple(named)
    names = (
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in _multiplying(module, earlier)
    )
    return tuple(name for name in names if name in parameters)


def _multiplying(module: nn.Module, earlier: bool) -> tuple[str, ...]:
    """The names of a module's tensors that multiply activations."""
    if isinstance(module, Weighted):
        return ("weight",)
    if earlier:
        return ()
    if isinstance(module, nn.MultiheadAttention):
        return INTO_ATTENTION
    return ("weight",) if isinstance(module, nn.Bilinear) else ()


@dataclass(frozen=True, kw_only=True)
class NotPrunable:
    """A tensor that is never pruned, such as an embedding or a class token."""

    name: str
    parameters: int


def not_prunable(model: nn.Module, names: Collection[str]) -> tuple[NotPrunable, ...]:
    """The tensors, other than biases and those of norms, that are not among the prunable ones, in module order."""
    return tuple(
        NotPrunable(name=name, parameters=tensor.numel())
        for name, tensor in model.named_parameters()
        if name not in names
        and (sum(size > 1 for size in tensor.shape) > 1 or not _of_bias_or_norm(model, name))
    )


def _of_bias_or_norm(model: nn.Module, name: str) -> bool:
    """Whether a vector is a bias, or belongs to a norm, which may be a module of the user's own."""
    path, _, own = name.rpartition(".")
    module = model.get_submodule(path)
    return "bias" in own or isinstance(module, Normalising) or "norm" in type(module).__name__.lower()


def find(family: str) -> Constructor:
    """Return the function that `package.module:function` names."""
    if family.startswith(":"):
        raise PrunecastError(
            f"unknown family {family!r}; the built-in families are {', '.join(FAMILIES)}, and your own is named "
            "package.module:function."
        )
    function = load_attribute(family, "family")
    if not callable(function):
        raise PrunecastError(f"family {family!r} is not a function of depth, width and num_classes.")
    return function


def arguments(family: str) -> tuple[str, ...]:
    """Those of depth, width, num_classes and image_shape that a user's own function takes."""
    function = find(family)
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ARGUMENTS
    named = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    for parameter in parameters:
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if needed and (parameter.name not in ARGUMENTS or parameter not in named):
            raise PrunecastError(
                f"family {family!r} needs the argument {parameter.name!r}, which prunecast does not know; give it a "
                f"default value. A family is called with those of {', '.join(ARGUMENTS)} that it takes."
            )
    return tuple(name for name in ARGUMENTS if name in {parameter.name for parameter in named})


def _users_own(
    family: str, given: Mapping[str, object], generator: torch.Generator, own_weights: bool
) -> nn.Module:
    function = find(family)
    taken = {name: given[name] for name in arguments(family)}
    seed = int(torch.randint(2**62, (), generator=generator))
    with MODULE_CALLS, TORCH_GENERATOR, _seeded(seed):
        try:
            model = function(**taken)
        except PrunecastError:
            raise
        except Exception as failure:
            size = " and ".join(f"{name} {given[name]:g}" for name in ("depth", "width") if name in taken)
            at = f" at {size}" if size else ""
            raise PrunecastError(
                f"family {family!r} cannot be built{at}: {failure_words(failure)}."
            ) from failure
        if not isinstance(model, nn.Module):
            raise PrunecastError(f"family {family!r} returned {type(model).__name__}, not a torch.nn.Module.")
        shape = given["image_shape"]
        if isinstance(shape, tuple):
            create_lazy_parameters(model, shape)
    model = model.to(device="cpu", dtype=torch.float32)
    if not (own_weights or getattr(function, "own_init", False)):
        initialise(model, generator)
    return model


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of torch, numpy and Python, and restore them afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def check_own_weights(family: str, *, depth: int, width: float, num_classes: int, image_shape: Shape) -> None:
    """Refuse a user's function whose weights differ although it gets the same random numbers."""
    one, again = (
        build(
            family,
            depth=depth,
            width=width,
            num_classes=num_classes,
            image_shape=image_shape,
            own_weights=True,
        ).state_dict()
        for _ in range(2)
    )
    for name in one | again:
        both = name in one and name in again
        if not both or not torch.equal(one[name].nan_to_num(), again[name].nan_to_num()):
            raise PrunecastError(
                f"initial_weights is own, but {family!r} makes another {name} every time, so its chains could not be "
                "repeated; draw it from the random numbers of torch, which prunecast seeds."
            )


def replaces_weights(family: str) -> bool:
    """Whether a recipe may replace the initial weights that a family's function makes."""
    return ":" in family and not getattr(find(family), "own_init", False)


def like_a_transformer(model: nn.Module) -> bool:
    """Whether a network has layer norms or attention, for which He uniform is too large."""
    return any(isinstance(module, nn.LayerNorm | nn.MultiheadAttention) for module in model.modules())


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator, gain: float = 1.0) -> None:
    """Draw convolution and linear weights from U(−b, b) in module order, with b = gain·√2·√(3 / fan-in): He uniform.

    Biases become 0; norms get weight 1 and bias 0.
    """
    for module in model.modules():
        if isinstance(module, Weighted):
            bound = gain * sqrt(6 / _fan_in(module))
            module.weight.uniform_(-bound, bound, generator=generator)
        if isinstance(module, Normalising) and getattr(module, "weight", None) is not None:
            nn.init.ones_(module.weight)
        if isinstance(module, Weighted + Normalising) and getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        if isinstance(module, _NormBase):
            module.reset_running_stats()


def _fan_in(module: nn.Module) -> int:
    """Return the number of inputs of one output: input channels of a group × kernel positions."""
    if isinstance(module, _ConvNd):
        if isinstance(module, _ConvTransposeNd):
            return module.in_channels // module.groups * prod(module.kernel_size)
        return int(module.weight[0].numel())
    assert isinstance(module, nn.Linear)
    return module.in_features
