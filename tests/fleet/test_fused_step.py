"""A fused step, run kernel by kernel on the CPU, trains and evaluates a pack as the written step does."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cuda_on_cpu import HAS_COMPILER
from fused_nets import own
from fused_packs import RECIPE, bench, compile_for_cpu, noise, packed, relative, resnets, uneven
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight

from prunecast.fleet import pack
from prunecast.fleet.bench import EAGER, PackBench, copy_bench, step
from prunecast.fleet.evaluate import evaluate_pack
from prunecast.fleet.fused import FusedStep, Unfused, examination, fused_step
from prunecast.fleet.fused.passes import Layer
from prunecast.fleet.runner import Runner, make_fused_runner, reset

pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="g++, which compiles the kernels, is missing"),
    pytest.mark.slow,
]
MIXED, NARROW = (1.0, 0.5, 0.25), (0.25,) * 8
ROUNDING = 0.003
"""Of a tensor in bfloat16, over its norm: a rounding makes 0.0017."""
SUMMED = 1e-5
"""The same for sums in float32."""


def ready(widths: Sequence[float] = MIXED, *, batch: int = 3, **changes: Any) -> PackBench:
    recipe = replace(RECIPE, batch_size=batch, **changes)
    return bench(packed(uneven(resnets(widths)), size=32), noise(20, size=32), recipe=recipe)


def fused(own: PackBench) -> FusedStep:
    return fused_step(own, compile_for_cpu)


def written(own: PackBench) -> None:
    step(own, own.pack.module, EAGER)


class Layers:
    """What every layer of a pass should have made of what the layers before it really made, in float64."""

    def __init__(self, own: FusedStep) -> None:
        self.passes, self.program, self.masks = own.passes, own.program, own.bench.pack.masks

    def norm(self, layer: Layer) -> tuple[Tensor, Tensor, Tensor]:
        """The convolution's result, normed; and mean and scale of the norm, for every channel."""
        count = self.passes.batch * layer.convolution.out_size**2
        first, second = layer.sums.double()[:2] / count
        scale = torch.rsqrt(second - first**2 + layer.convolution.eps)
        mean, scale = first[:, None, None], scale[:, None, None]
        return (unfolded(layer.y) - mean) * scale, mean, scale

    def affine(self, layer: Layer) -> Tensor:
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

    def convolved(self, layer: Layer) -> Tensor:
        own = layer.convolution
        return functional.conv2d(
            self.value(own.source), weight(layer), None, own.stride, own.kernel // 2, 1, own.groups
        )

    def slope(self, number: int, layer: Layer) -> Tensor:
        """The gradient of what a convolution gave, from that behind its norm."""
        dz, (normed, _, scale) = unfolded(self.passes.slopes[number]), self.norm(layer)
        centred = dz - dz.mean((0, 2, 3), keepdim=True) - normed * (dz * normed).mean((0, 2, 3), keepdim=True)
        return low(centred * scale * layer.gamma.double()[:, None, None])

    def handed_back(self, layer: Layer, slope: Tensor) -> Tensor:
        """The gradient of the value that a convolution reads, with what others hand back to it, before its rectifier."""
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


def weight(layer: Layer) -> Tensor:
    return layer.weight.permute(0, 3, 1, 2).double()


@pytest.mark.parametrize(("widths", "batch"), [(MIXED, 3), (NARROW, 5)])
def test_every_layer_makes_of_its_input_what_float64_makes_of_it(widths, batch):
    one = fused(ready(widths, batch=batch))
    one._images(one.source, one.bench.order, (None, None))
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


def moved(own: PackBench) -> dict[str, Tensor]:
    """Momenta by the names of their parameters: after one step the gradients, with decay."""
    return dict(zip(own.pack.masks, own.slots["momentum"], strict=True))


@pytest.mark.parametrize("widths", [MIXED, NARROW])
def test_a_step_is_as_near_to_float32_as_the_written_one(widths):
    ours, theirs, exact = ready(widths), ready(widths), ready(widths, precision="fp32")
    one = fused(ours)
    for own in (one, lambda: written(theirs), lambda: written(exact)):
        own()
    torch.testing.assert_close(ours.losses, theirs.losses, rtol=0.01, atol=0)
    torch.testing.assert_close(ours.losses, exact.losses, rtol=0.01, atol=0)
    tensors = [own.pack.tensors() | moved_names(own) for own in (ours, theirs, exact)]
    for name, wanted in tensors[2].items():
        if "running" in name:
            assert relative(tensors[0][name], wanted) < ROUNDING, name
        else:
            assert relative(tensors[0][name], wanted) < 1.5 * relative(tensors[1][name], wanted), name


def moved_names(own: PackBench) -> dict[str, Tensor]:
    return {f"{name} moved": tensor for name, tensor in moved(own).items()}


@pytest.mark.parametrize("widths", [MIXED, NARROW])
def test_steps_count_and_keep_what_is_pruned_or_nobodys_at_zero(widths):
    ours, theirs = ready(widths), ready(widths)
    one = fused(ours)
    for _ in range(3):
        one()
        written(theirs)
    torch.testing.assert_close(ours.losses, theirs.losses, rtol=0.01, atol=0)
    assert (ours.cursor.tolist(), ours.healthy.tolist()) == ([3], [3] * len(widths))
    for (name, mask), parameter, copy in zip(
        ours.pack.masks.items(), ours.parameters, ours.trained, strict=True
    ):
        assert parameter[mask == 0].count_nonzero() == 0, name
        assert moved(ours)[name][mask == 0].count_nonzero() == 0, name
        assert torch.equal(copy, parameter.to(copy.dtype)), name
    assert one.sums.count_nonzero() == 0
    assert all(gradient.count_nonzero() == 0 for gradient in one.gradients.values())


def test_a_later_step_reads_its_own_images_and_rate():
    ours, theirs = ready(MIXED), ready(MIXED)
    for own in (ours, theirs):
        own.cursor.fill_(2)
        own.rates.copy_(torch.tensor([9.0, 9.0, 0.0]))
    start = [own.detach().clone() for own in ours.parameters]
    fused(ours)()
    written(theirs)
    torch.testing.assert_close(ours.losses, theirs.losses, rtol=0.01, atol=0)
    assert all(torch.equal(own, before) for own, before in zip(ours.parameters, start, strict=True))


def examined(own: PackBench) -> Runner:
    return Runner(bench=own, step=lambda: None, way="written", stream=None, graphs={}, captured_on=None)


@pytest.mark.parametrize("widths", [MIXED, NARROW])
@pytest.mark.parametrize("shared", [True, False])
def test_evaluation_is_that_of_the_written_way_and_leaves_no_trace(widths, shared):
    ours, other = ready(widths), ready(widths)
    one, undisturbed = fused(ours), fused(other)
    source = noise(19, size=32, seed=5) if shared else one.source
    look = examination(one, source, shared=shared)
    for count in (17, 7):  # neither is a multiple of the batch, and fewer than the last time
        shape = (count,) if shared else (len(widths), count)
        chosen = np.random.default_rng(count).integers(0, len(source), shape)
        wanted = evaluate_pack(examined(ours), source, chosen)
        for got, known in zip(look.scores(torch.from_numpy(chosen)), wanted, strict=True):
            assert got.loss == pytest.approx(known.loss, rel=0.01)
            assert abs(got.error - known.error) < 1.5 / count  # at most one example is a matter of rounding
        one()
        undisturbed()
    assert one.sums.count_nonzero() == 0
    for mine, undisturbed_ones in zip(
        ours.pack.tensors().values(), other.pack.tensors().values(), strict=True
    ):
        assert torch.equal(mine, undisturbed_ones)


def test_a_fused_runner_starts_clean_and_finds_its_examinations():
    ours, other = ready(MIXED), ready(MIXED)
    test = noise(7, size=32, seed=5)
    runner = make_fused_runner(fused(ours), test)
    assert (runner.way, set(runner.examinations)) == ("fused", {id(test), id(ours.source)})
    assert not any(own.count_nonzero() for own in (ours.cursor, ours.losses, ours.healthy))
    both = make_fused_runner(fused(other), other.source)
    every = torch.arange(20)
    scores = both.examinations[id(other.source)].scores(every.expand(3, -1))
    assert scores == both.examinations[id(other.source)].scores(every)


@pytest.mark.parametrize("spoilt", [0, 2])
def test_a_member_that_diverges_is_seen_by_its_losses(spoilt):
    ours = ready(MIXED)
    one = fused(ours)
    one()
    with torch.no_grad():
        head = dict(zip(ours.pack.masks, ours.trained, strict=True))[f"{one.program.head}.bias"]
        head[10 * spoilt : 10 * spoilt + 10] = torch.inf
    one()
    one()
    assert not ours.losses[spoilt].isfinite()
    assert ours.healthy[spoilt] == 1
    assert ours.cursor.tolist() == [3]


def test_weights_that_are_not_finite_leave_nothing_behind_in_an_emptied_pack():
    ours, fresh = ready(MIXED), ready(MIXED)
    one = fused(ours)
    with torch.no_grad():
        for own in ours.trained:
            own.fill_(torch.inf)
    one()
    assert ours.healthy.tolist() == [0, 0, 0]
    ours.pack.wipe()
    refill(ours, fresh)
    one()
    fused(fresh)()
    assert torch.equal(ours.losses, fresh.losses)
    for mine, theirs in zip(ours.pack.tensors().values(), fresh.pack.tensors().values(), strict=True):
        assert torch.equal(mine, theirs)


def refill(emptied: PackBench, full: PackBench) -> None:
    copy_bench(full, emptied)
    reset(emptied)


def with_pooling() -> PackBench:
    def end(self: nn.Module, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(functional.max_pool2d(x, 2)), 1))

    return bench(packed([own(methods={"end": end})], size=16), noise(9, size=16))


def double() -> PackBench:
    one = bench(packed(resnets([0.25]), size=32), noise(9, size=32))
    return replace(one, losses=one.losses.double())


def not_channels_last() -> PackBench:
    whole = pack(resnets([0.25]), image_shape=(3, 32, 32), smallest_group=16)
    return bench(whole, noise(9, size=32))


REFUSED = {
    "adam": (lambda: ready([0.25], optimizer="adam"), "not of adam in bf16"),
    "fp32": (lambda: ready([0.25], precision="fp32"), "not of sgd in fp32"),
    "pooling": (with_pooling, "max_pool2d"),
    "crop": (lambda: ready([0.25], augmentation="resized-crop"), "cropped and scaled"),
    "size": (
        lambda: bench(packed(resnets([0.25], size=24), size=24), noise(9, size=24)),
        "'stem' has images of 24x24",
    ),
    "wide": (lambda: bench(packed(resnets([8.0]), size=32), noise(9, size=32)), "is too wide for the memory"),
    "double": (double, "not in torch.float64"),
    "layout": (not_channels_last, "'stem.weight' does not lie with its channels last"),
}


@pytest.mark.parametrize("thing", REFUSED)
def test_refusals_name_the_thing(thing):
    made, words = REFUSED[thing]
    with pytest.raises(Unfused, match=re.escape(words)):
        fused(made())


def test_bytes_in_another_order_are_refused():
    source = noise(9, size=32)
    source.images = source.images.permute(0, 2, 1, 3)
    with pytest.raises(Unfused, match="not bytes on the device"):
        fused(bench(packed(resnets([0.25]), size=32), source))
