"""Depthwise convolutions of a pack stay depthwise, and their compiled form computes the same."""

import pytest
import torch
from fleet_nets import Grouped
from torch import nn

from prunecast.fleet import pack
from prunecast.fleet.layers import DepthwiseConvolution


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [
        *((3, 1, 1, 1), (3, 2, 1, 1), (5, 2, 2, 1)),
        *((3, 1, 2, 2), ((1, 3), 1, (0, 1), 1), (2, 2, 0, 1)),
    ],
)
def test_shifted_images_are_the_convolution(kernel, stride, padding, dilation, bias, monkeypatch):
    own = DepthwiseConvolution(6, 6, kernel, stride, padding, dilation, groups=6, bias=bias).double()
    images = torch.randn(2, 6, 9, 8, dtype=torch.float64, requires_grad=True)
    inputs = [images, *own.parameters()]
    written = own(images)
    wanted = torch.autograd.grad(written.square().sum(), inputs)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    shifted = own(images)
    found = torch.autograd.grad(shifted.square().sum(), inputs)
    torch.testing.assert_close(shifted, written, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_half_precision_is_as_good_as_the_library(monkeypatch):
    own = DepthwiseConvolution(6, 6, 3, padding=1, groups=6)
    images = torch.randn(2, 6, 8, 8)
    exact = own(images)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.autocast("cpu", torch.bfloat16):
        shifted = own(images)
    assert shifted.dtype == torch.bfloat16
    torch.testing.assert_close(shifted.float(), exact, rtol=0.03, atol=0.03)


def test_a_pack_has_a_group_for_every_channel():
    packed = pack([Grouped(1.0), Grouped(0.5)], image_shape=(3, 8, 8), smallest_group=4)
    own = packed.module.get_submodule("depthwise")
    assert isinstance(own, DepthwiseConvolution)
    assert own.weight.shape == (32, 1, 3, 3)
    assert isinstance(packed.module.get_submodule("halves"), nn.Conv2d)
