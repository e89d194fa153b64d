"""Networks of the same shape, stacked along a new first axis and run at once by torch.func.vmap.

A matrix product becomes a batched product, attention sees more images, and everything else gains an axis. vmap never
mixes members, so the stack need not know their operations.
"""

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from prunecast import families
from prunecast.fleet.layout import Blocks, Unpackable, side_by_side
from prunecast.fleet.pack import Pack, PackLayout, all_tensors, empty_pack
from prunecast.fleet.stacked_layers import NOISE, NoisyLayer, replace_layers
from prunecast.fleet.trace import refuse_shared_parameters

NEAR = 1e-7
"""The largest difference in a trial in float64, relative to the largest value."""
TRIAL_IMAGES = 3
ROUNDING = 3.0
"""In a trial on the device, rounding errors in a stack may be this many times those of a network alone."""
TOLERATED = 0.05
"""A further allowance, as a share of the gradients' norm: matrix products of float32 may be rounded, too."""


class Stack(nn.Module):
    """Takes images (slots, batch, ...) and returns scores (batch, slots, classes).

    It has the submodules and tensors of a network, under the same names, with a first axis of slots. The network, its
    template, is called for the forward pass.
    """

    def __init__(self, network: nn.Module, slots: int) -> None:
        """Stack a network; its own tensors are replaced by those with the new axis."""
        super().__init__()
        for module in network.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is not None:
                    new = parameter.new_zeros((slots, *parameter.shape))
                    module._parameters[name] = nn.Parameter(new, requires_grad=parameter.requires_grad)
            for name, buffer in list(module._buffers.items()):
                if buffer is not None:
                    module._buffers[name] = buffer.new_zeros((slots, *buffer.shape))
        self._parameters.update(network._parameters)
        self._buffers.update(network._buffers)
        self._modules.update(network._modules)
        self._non_persistent_buffers_set |= network._non_persistent_buffers_set
        self.noise = dict[str, float]()
        """Names of noise buffers in the order of their use, and their shares of zeros."""
        self.__dict__["template"] = network

    def train(self, mode: bool = True) -> "Stack":
        """Set the mode of the template, too."""
        self.__dict__["template"].train(mode)
        return super().train(mode)

    def forward(self, images: Tensor) -> Tensor:
        """Run all members."""
        tensors = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        with contextlib.nullcontext() if self.training else no_fast_path(), known_attention(images.device):
            scores: Tensor = torch.func.vmap(self._member)(tensors, images)
        return scores.transpose(0, 1)

    def _member(self, tensors: dict[str, Tensor], images: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(self.__dict__["template"], tensors, (images,))
        return found


def known_attention(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Allow only attention kernels that are right under torch.func.vmap.

    Under vmap, `requires_grad` of a tensor is always false. cuDNN's and the memory-efficient kernels then do not save
    what their backward passes read, and gradients are wrong; flash attention always saves it. On a CPU, vmap would call
    the fused kernel member by member.
    """
    own = [SDPBackend.MATH] if device.type == "cpu" else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(own)


@contextlib.contextmanager
def no_fast_path() -> Iterator[None]:
    """Turn off the fused kernels of torch's encoder layers in evaluation; vmap would call them member by member."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The dropout noise of a stack; each member has its own generator."""

    draws: tuple[tuple[Tensor, float], ...]
    """(slots, ...): the mask that a layer multiplies by, in the order of the layers' calls, and its share of zeros."""
    generators: tuple[torch.Generator, ...]
    """One per slot."""

    def draw(self) -> None:
        """Draw the noise of one forward pass, for each member in the order in which a network alone draws it."""
        for slot, generator in enumerate(self.generators):
            for buffer, p in self.draws:
                buffer[slot].bernoulli_(1 - p, generator=generator)


def noise_of(pack: Pack) -> Noise | None:
    """The noise of a pack's module; None if it draws none."""
    if not isinstance(pack.module, Stack) or not pack.module.noise:
        return None
    buffers = dict(pack.module.named_buffers())
    draws = tuple((buffers[name], p) for name, p in pack.module.noise.items())
    device = draws[0][0].device
    return Noise(draws=draws, generators=tuple(torch.Generator(device) for _ in range(pack.slots)))


def stack(
    network: nn.Module,
    slots: int,
    *,
    image_shape: Sequence[int],
    batch: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    low: torch.dtype | None = None,
) -> Pack:
    """Build an empty pack with `slots` slots for networks of the same architecture as `network`.

    `batch` is the number of images per training step, and `low` the dtype of matrix products under mixed precision.
    Raises `Unpackable` if the network shares parameters or cannot be run on the meta device.
    """
    refuse_shared_parameters(network)
    template = copy.deepcopy(network).to(dtype)
    calls = _calls(network, (batch, *image_shape)) if replace_layers(template, low=low) else []
    own = all_tensors(template)
    layout = PackLayout(
        blocks={
            name: Blocks(shape=(slots, *tensor.shape), members=tuple((slot,) for slot in range(slots)))
            for name, tensor in own.items()
        },
        dtypes={name: tensor.dtype for name, tensor in own.items()},
        parameters=tuple(name for name, _ in template.named_parameters()),
        inputs=side_by_side([image_shape[0]] * slots),
        kind="stacked",
    )
    module = Stack(template, slots)
    for name, like, p in calls:
        size, strides = (slots, *like.shape), (like.numel(), *like.stride())
        _add_noise(module, name, torch.empty_strided(size, strides, dtype=low or dtype).zero_(), p)
    return empty_pack(module.to(device).train(), layout)


def _calls(network: nn.Module, images: Sequence[int]) -> list[tuple[str, Tensor, float]]:
    """The dropout calls of a training step, in order: the layer's name, a tensor like its noise, the share of zeros.

    Random numbers are drawn in memory order, so the memory format must be that of the plain loop.
    """
    on_meta = copy.deepcopy(network).to("meta").train()
    on_meta.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    names = {id(module): name for name, module in on_meta.named_modules()}
    calls: list[tuple[NoisyLayer, Tensor, float]] = []
    for module in replace_layers(on_meta, NoisyLayer):
        module.calls = calls
    inputs = torch.empty(tuple(images), dtype=next(on_meta.parameters()).dtype, device="meta")
    try:
        on_meta(inputs.to(memory_format=torch.channels_last))
    except Unpackable:
        raise
    except Exception as failure:
        raise Unpackable(
            f"{type(network).__name__} cannot be run on shapes alone to find the noise it draws: {failure}"
        ) from failure
    return [(names[id(module)], like, p) for module, like, p in calls]


def _add_noise(module: Stack, name: str, zeros: Tensor, p: float) -> None:
    layer = module.get_submodule(name)
    assert isinstance(layer, NoisyLayer), name
    buffer = f"{NOISE}{layer.uses}"
    layer.register_buffer(buffer, zeros, persistent=False)
    layer.uses += 1
    module.noise[f"{name}.{buffer}"] = p


def refuse_unstackable(
    network: nn.Module,
    *,
    image_shape: Sequence[int],
    low: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> None:
    """Raise `Unpackable` unless two networks compute the same in a stack as alone.

    First both run on the CPU in float64 with different weights, in training and in evaluation; scores, buffers and
    gradients are compared. Then they run on the device as they would train there, with matrix products in the dtype
    `low`; gradients may differ from those in float32 as much as rounding explains.
    """
    alone = [_without_dropout(_varied(network, seed)) for seed in range(2)]
    images = torch.randn(2, TRIAL_IMAGES, *image_shape, generator=torch.Generator().manual_seed(0))
    images = images.double()
    try:
        both = stack(network, 2, image_shape=image_shape, batch=TRIAL_IMAGES, dtype=torch.float64)
        for slot, own in enumerate(alone):
            both.load(slot, all_tensors(own))
        _drop_nothing(both)
        start = copy.deepcopy(alone)
        for training in (True, False):
            _compare(both, alone, images, training=training)
        _compare_gradients(both, alone, images)
        if low is not None or torch.device(device).type != "cpu":
            mixed = stack(network, 2, image_shape=image_shape, batch=TRIAL_IMAGES, device=device, low=low)
            for slot, own in enumerate(start):
                mixed.load(slot, all_tensors(own.float()))
            _drop_nothing(mixed)
            _compare_rounded(mixed, [own.to(device) for own in start], images.float().to(device), low)
    except Unpackable:
        raise
    except Exception as failure:
        raise Unpackable(
            f"{_place(network, failure)} cannot be run for several networks at once."
        ) from failure


def _drop_nothing(both: Pack) -> None:
    """Fill the noise so that nothing is dropped."""
    with torch.no_grad():
        for name, p in getattr(both.module, "noise", {}).items():
            both.module.get_buffer(name).fill_(1 - p)


def _compare_gradients(both: Pack, alone: Sequence[nn.Module], images: Tensor) -> None:
    for slot, (own, found) in enumerate(zip(alone, _stacked_gradients(both, images, None), strict=True)):
        wanted = _gradients(own, images[slot], None)
        if not float((found - wanted).abs().max()) <= NEAR * (1 + float(wanted.abs().max())):
            raise Unpackable(
                f"{type(own).__name__} has different gradients when it is stacked with other networks."
            )


def _compare_rounded(both: Pack, alone: Sequence[nn.Module], images: Tensor, low: torch.dtype | None) -> None:
    for slot, (own, found) in enumerate(zip(alone, _stacked_gradients(both, images, low), strict=True)):
        wanted = _gradients(own, images[slot], None)
        rounded = wanted if low is None else _gradients(own, images[slot], low)
        allowed = ROUNDING * (rounded - wanted).norm() + TOLERATED * wanted.norm()
        if not float((found - wanted).norm()) <= float(allowed):
            raise Unpackable(
                f"{type(own).__name__} has different gradients when it is stacked with other networks on "
                f"{images.device.type}."
            )


def _gradients(network: nn.Module, images: Tensor, low: torch.dtype | None) -> Tensor:
    """All gradients of a network in training, as one vector."""
    parameters = list(network.parameters())
    with torch.autocast(images.device.type, low, enabled=low is not None):
        scores = network.train()(images)
    total = scores.to(parameters[0].dtype).square().mean()
    found = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([own.flatten() for own in found])


def _stacked_gradients(both: Pack, images: Tensor, low: torch.dtype | None) -> Tensor:
    """The same for every slot, as (slots, values)."""
    parameters = list(both.module.parameters())
    with warnings.catch_warnings(), torch.autocast(images.device.type, low, enabled=low is not None):
        warnings.simplefilter("ignore")  # about operations that are done member by member
        scores = both.module.train()(images if low is None else images.to(low))
    total = scores.to(parameters[0].dtype).square().mean((0, 2)).sum()
    found = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return torch.cat([own.flatten(1) for own in found], dim=1)


def _varied(network: nn.Module, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    own = copy.deepcopy(network).to("cpu", torch.float64)
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return own


@torch.no_grad()
def _compare(both: Pack, alone: Sequence[nn.Module], images: Tensor, *, training: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about operations that are done member by member
        scores = both.module.train(training)(images)
    for slot, own in enumerate(alone):
        expected = own.train(training)(images[slot])
        if not isinstance(expected, Tensor) or expected.dim() != 2:
            raise Unpackable("The forward pass does not return one row of class scores per image.")
        pairs = [(scores[:, slot], expected)]
        pairs += [(both.tensors()[name][slot], buffer) for name, buffer in own.named_buffers()]
        for found, wanted in pairs:
            size = 1 + float(wanted.double().abs().max()) if wanted.numel() else 1.0
            if not torch.allclose(found.double(), wanted.double(), rtol=0, atol=NEAR * size):
                raise Unpackable(
                    f"{type(own).__name__} gives different results when it is stacked with other networks."
                )


def _without_dropout(network: nn.Module) -> nn.Module:
    """The network with all dropout rates set to zero."""
    for module in network.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return network


def _place(network: nn.Module, failure: Exception) -> str:
    return str(families.place_of(network, failure) or type(network).__name__)
