"""Try a network before it trains: count its multiply-adds, and say what to change if it does not run.

Multiply-adds are counted by running the network, so those of attention count however it is computed.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from prunecast.catalog import Shape
from prunecast.errors import PrunecastError
from prunecast.spec import MODULE_CALLS, TORCH_GENERATOR
from prunecast.text import plural

IMAGES = 2
"""Images of a trial; batch norm needs two."""
SUM_TOLERANCE = 1e-4
"""Rows that are positive and sum to one within this are probabilities."""
TORCH = Path(torch.__file__).parent
ATTENTION_ON_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""torch knows no count of its products."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The module that raised an error, and the line of the user's own code."""

    name: str
    """In the model; empty for the model itself."""
    module: nn.Module
    frame: FrameType
    line: str
    """File and line, empty if it is torch's."""

    def __str__(self) -> str:
        what = f"module {self.name!r}" if self.name else "the model"
        return f"{what} ({type(self.module).__name__}{f', {self.line}' if self.line else ''})"


def place_of(model: nn.Module, error: BaseException) -> Place | None:
    """The innermost module of the model whose code raised an error."""
    names = {id(module): name for name, module in model.named_modules()}
    found: Place | None = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        code = frame.f_code
        module = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None  # mostly self
        file = Path(code.co_filename)
        if id(module) in names and isinstance(module, nn.Module):
            line = "" if TORCH in file.parents else f"{file.name}, line {step.tb_lineno}"
            found = Place(name=names[id(module)], module=module, frame=frame, line=line)
        step = step.tb_next
    return found


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of this thread alone; torch's FlopCounterMode puts hooks on the modules of all threads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.operations += int(count(*args, **(kwargs or {}), out_val=out))
        elif func._overloadpacket is ATTENTION_ON_CPU:
            self.operations += int(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))  # type: ignore[no-untyped-call]
        return out


def multiply_adds(model: nn.Module, image_shape: Shape) -> int:
    """Multiply-adds per image, of convolutions, matrix products and attention; norms and sums do not count.

    They are counted on a copy, because the network may be in use. The copy has no values, unless the network needs
    them, for example because it branches on them.
    """
    try:
        return _counted(model, image_shape, "meta")
    except Exception:  # torch and a user's own code raise anything
        return _counted(model, image_shape, "cpu")


def _counted(model: nn.Module, image_shape: Shape, device: str) -> int:
    twin = copy.deepcopy(model).to(device, torch.float32).eval()
    # Without gradients torch runs an encoder layer as one operation, which has no count.
    with MODULE_CALLS, torch.enable_grad(), _Products() as products:
        twin(torch.zeros(IMAGES, *image_shape, device=device))
    return int(products.operations) // 2 // IMAGES


def try_network(model: nn.Module, image_shape: Shape, num_classes: int) -> int:
    """Run a copy of a network in training and in evaluation; return its multiply-adds per image.

    Raises a PrunecastError that names the module and what to change.
    """
    twin = copy.deepcopy(model)
    with MODULE_CALLS, TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        try:
            with torch.no_grad():
                _check_logits(twin.train()(torch.zeros(IMAGES, *image_shape)), num_classes, "in training")
                _check_logits(twin.eval()(torch.zeros(IMAGES, *image_shape)), num_classes, "in evaluation")
            return multiply_adds(twin, image_shape)
        except PrunecastError:
            raise
        except Exception as failure:
            raise PrunecastError(_explained(twin, image_shape, failure)) from failure


@torch.no_grad()
def create_lazy_parameters(model: nn.Module, image_shape: Shape) -> None:
    """Run a network with lazy layers once, so that they get their sizes; others are left alone.

    Draws from torch's global generator; the caller holds MODULE_CALLS and TORCH_GENERATOR.
    """
    if not any(is_lazy(own) for own in (*model.parameters(), *model.buffers())):
        return
    was_training = model.training
    try:
        model.eval()(torch.zeros(IMAGES, *image_shape))
    except Exception as failure:
        raise PrunecastError(_explained(model, image_shape, failure)) from failure
    model.train(was_training)


def _check_logits(logits: object, num_classes: int, when: str) -> None:
    if not isinstance(logits, Tensor):
        raise PrunecastError(
            f"{when} the model returns {type(logits).__name__}; it must return the logits alone, one row of "
            f"{num_classes:,} scores per image."
        )
    if logits.shape != (IMAGES, num_classes) or not logits.is_floating_point():
        kind = "" if logits.is_floating_point() else f" of {str(logits.dtype).removeprefix('torch.')}"
        raise PrunecastError(
            f"{when} the model returns a tensor of shape {tuple(logits.shape)}{kind} for {IMAGES} images of "
            f"{num_classes:,} classes; give its last layer num_classes outputs, and return them as floats."
        )
    if bool((logits >= 0).all()) and bool((logits.sum(1) - 1).abs().max() < SUM_TOLERANCE):
        raise PrunecastError(
            f"{when} the model returns probabilities: each row sums to 1. Return the logits, without the softmax at "
            "the end, because the loss applies it."
        )


def _explained(model: nn.Module, image_shape: Shape, failure: Exception) -> str:
    """A message: what is wrong, in which module, and what to change."""
    images = f"images of {'x'.join(map(str, image_shape))}"
    place = place_of(model, failure)
    if place is None:
        return f"the model cannot be run on {images} ({_first_line(failure)})."
    given = place.frame.f_locals.get("input")
    shape = tuple(given.shape) if isinstance(given, Tensor) else ()
    module: Any = place.module
    if isinstance(module, nn.Linear) and shape and shape[-1] != module.in_features:
        return (
            f"{place} takes {module.in_features:,} features, but gets {shape[-1]:,} from {images}; pool to a fixed "
            "size before it (nn.AdaptiveAvgPool2d), or set image_size to the size that the network is designed for."
        )
    channels = getattr(module, "in_channels", None)
    if isinstance(channels, int) and len(shape) > 1 and shape[1] != channels:
        return (
            f"{place} takes {plural(channels, 'channel')}, but gets {shape[1]} from {images}; give the function an "
            "argument image_shape (channels, height, width), and build the layer for its channels."
        )
    return (
        f"{place} fails on {images} ({_first_line(failure)}); let the network accept images of this size, or set "
        "image_size to the size that it is designed for."
    )


def _first_line(failure: Exception) -> str:
    text = str(failure).strip().partition("\n")[0].rstrip(".")
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def own_line(failure: BaseException) -> str:
    """The last line of the user's own code that an error came through, as `file.py, line 12`; empty if unknown."""
    ours, found = Path(__file__).parents[1], ""
    step = failure.__traceback__
    while step is not None:
        file = Path(step.tb_frame.f_code.co_filename)
        if TORCH not in file.parents and ours not in file.parents:
            found = f"{file.name}, line {step.tb_lineno}"
        step = step.tb_next
    return found


def failure_words(failure: Exception) -> str:
    """An error of the user's own code: its kind, its first line, and where it was raised."""
    line = own_line(failure)
    return f"{_first_line(failure)}{f' ({line})' if line else ''}"
