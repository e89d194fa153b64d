"""Every convolution of a fused pass, run kernel by kernel on the CPU, is compared with float64."""

import pytest
import torch
from cuda_on_cpu import HAS_COMPILER
from fused_packs import MIXED, NARROW, ROUNDING, fused, ready, relative
from torch import Tensor
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight

from prunecast.fleet.kernels import FusedStep
from prunecast.fleet.kernels.passes import LayerBuffers

pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="g++, which compiles the kernels, is missing"),
    pytest.mark.slow,
]
SUMMED = 1e-5
"""How far sums in float32 may be off, over their norm."""


class Layers:
    """What every layer of a pass should have made of what the layers before it really made, in float64."""

    def __init__(self, own: FusedStep) -> None:
        self.passes, self.program, self.masks = own.passes, own.program, own.trainer.pack.masks

    def norm(self, layer: LayerBuffers) -> tuple[Tensor, Tensor, Tensor]:
        """The convolution's result, normed; and mean and scale of the norm, for every channel."""
        count = self.passes.batch * layer.convolution.out_size**2
        first, second = layer.sums.double()[:2] / count
        scale = torch.rsqrt(second - first**2 + layer.convolution.eps)
        mean, scale = first[:, None, None], scale[:, None, None]
        return (unfolded(layer.y) - mean) * scale, mean, scale

    def affine(self, layer: LayerBuffers) -> Tensor:
        return self.norm(layer)[0] * layer.gamma[:, None, None] + layer.beta[:, None, None]

    def value(self, number: int) -> Tensor:
        made_by = self.program.values[number].convolution
        if made_by is None:
            return unfolded(self.passes.images)
        if number in self.passes.joined:
            return unfolded(self.passes.joined[number])
        return low(self.affine(self.passes.layers[made_by]).relu())

    def joined(self, number: int) -> Tensor:
        value = self.program.values[number]
        other = (
            self.value(value.other)
            if value.other is not None
            else self.affine(self.passes.layers[value.shortcut])
        )
        return (self.affine(self.passes.layers[value.convolution]) + other).relu()

    def convolved(self, layer: LayerBuffers) -> Tensor:
        own = layer.convolution
        return functional.conv2d(
            self.value(own.source), weight(layer), None, own.stride, own.kernel // 2, 1, own.groups
        )

    def slope(self, number: int, layer: LayerBuffers) -> Tensor:
        """The gradient of what a convolution gave, from that behind its norm."""
        dz, (normed, _, scale) = unfolded(self.passes.slopes[number]), self.norm(layer)
        centred = dz - dz.mean((0, 2, 3), keepdim=True) - normed * (dz * normed).mean((0, 2, 3), keepdim=True)
        return low(centred * scale * layer.gamma.double()[:, None, None])

    def handed_back(self, layer: LayerBuffers, slope: Tensor) -> Tensor:
        """The gradient of the value that a convolution reads, with what others hand to it, before its rectifier."""
        own = layer.convolution
        read = self.value(own.source)
        sizes = (own.stride, own.kernel // 2, 1, own.groups)
        back = conv2d_input(read.shape, weight(layer), slope, *sizes)
        for number, value in enumerate(self.program.values):
            if value.other == own.source:
                back += unfolded(self.passes.slopes[number])
        for number, coarse in self.passes.coarse.items():
            if (beside := self.program.convolutions[number]).source == own.source:
                back[:, :, :: beside.stride, :: beside.stride] += unfolded(coarse)
        return back * (read > 0)


def unfolded(tensor: Tensor) -> Tensor:
    """An activation (N, tiles, height, width, 16) as (N, channels, height, width)."""
    return tensor.permute(0, 1, 4, 2, 3).flatten(1, 2).double()


def low(tensor: Tensor) -> Tensor:
    """Rounded as what the matrix units multiply."""
    return tensor.bfloat16().double()


def weight(layer: LayerBuffers) -> Tensor:
    return layer.weight.permute(0, 3, 1, 2).double()


@pytest.mark.parametrize(
    ("widths", "batch", "packs"),
    [(MIXED, 3, 6), (NARROW, 9, 6), (NARROW, 5, 1)],
    ids=["mixed", "two blocks of images", "two small blocks of a pack that is alone"],
)
def test_every_layer_makes_of_its_input_what_float64_makes_of_it(widths, batch, packs):
    one = fused(ready(widths, batch=batch), packs=packs)
    one._images(one.source, one.trainer.order, (None, None))
    one.passes.forward()
    layers = Layers(one)
    for layer in one.passes.layers:
        name, own = layer.convolution.name, unfolded(layer.y)
        assert relative(own, layers.convolved(layer)) < ROUNDING, name
        assert relative(layer.sums[0], own.sum((0, 2, 3))) < SUMMED, name
        assert relative(layer.sums[1], (own**2).sum((0, 2, 3))) < SUMMED, name
    for number, made in one.passes.joined.items():
        assert relative(unfolded(made), layers.joined(number)) < ROUNDING, number
    torch.manual_seed(0)
    one.passes.backward(torch.randn_like(one.slope))
    for number, value in enumerate(one.program.values):
        for made_by in (value.shortcut, value.convolution):
            if made_by is not None:
                check_slopes(layers, number, made_by)


def check_slopes(layers: Layers, number: int, made_by: int) -> None:
    passes, layer = layers.passes, layers.passes.layers[made_by]
    own, name = layer.convolution, layer.convolution.name
    dz, y = unfolded(passes.slopes[number]), unfolded(layer.y)
    assert relative(layer.sums[2], dz.sum((0, 2, 3))) < SUMMED, name
    assert relative(layer.sums[3], (dz * y).sum((0, 2, 3))) < SUMMED, name
    slope, mask = layers.slope(number, layer), layers.masks[f"{name}.weight"]
    sizes = (own.stride, own.kernel // 2, 1, own.groups)
    wanted = conv2d_weight(layers.value(own.source), mask.shape, slope, *sizes)
    assert relative(layer.gradient.permute(0, 3, 1, 2) * mask, wanted * mask) < ROUNDING / 3, name
    if made_by in passes.coarse:
        back = conv2d_input(layers.value(own.source).shape, weight(layer), slope, *sizes)
        own_pixels = back[:, :, :: own.stride, :: own.stride]
        assert relative(unfolded(passes.coarse[made_by]), own_pixels) < ROUNDING, name
    elif own.source:
        back = layers.handed_back(layer, slope)
        assert relative(unfolded(passes.slopes[own.source]), back) < ROUNDING, name
