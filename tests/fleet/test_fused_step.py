"""A fused step, run kernel by kernel on the CPU, trains and evaluates a pack like the eager step."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from cuda_on_cpu import HAS_COMPILER
from fused_nets import own as changed
from fused_packs import MIXED, NARROW, ROUNDING, fused, noise, packed, ready, relative, resnets, trainer_of
from torch import Tensor, nn
from torch.nn import functional

from prunecast.fleet import pack
from prunecast.fleet.device import run_to_the_end
from prunecast.fleet.kernels import Unfused, fused_evaluation
from prunecast.fleet.level import evaluate_pack
from prunecast.fleet.runner import Runner, make_fused_runner
from prunecast.fleet.step import EAGER, PackTrainer, reset, step

pytestmark = [
    pytest.mark.skipif(not HAS_COMPILER, reason="g++, which compiles the kernels, is missing"),
    pytest.mark.slow,
]


def written(own: PackTrainer) -> None:
    step(own, own.pack.module, EAGER)


def moved(own: PackTrainer) -> dict[str, Tensor]:
    """Momenta by the names of their parameters: after one step the gradients, with decay."""
    return dict(zip(own.pack.masks, own.optimizer_state["momentum"], strict=True))


@pytest.mark.parametrize("widths", [MIXED, NARROW])
def test_a_step_is_as_near_to_float32_as_the_eager_one(widths):
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


def moved_names(own: PackTrainer) -> dict[str, Tensor]:
    return {f"{name} moved": tensor for name, tensor in moved(own).items()}


@pytest.mark.parametrize("widths", [MIXED, NARROW])
def test_steps_count_and_keep_pruned_and_unowned_weights_at_zero(widths):
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


def evaluated(own: PackTrainer) -> Runner:
    return Runner(trainer=own, step=lambda: None, mode="eager")


@pytest.mark.parametrize("widths", [MIXED, NARROW])
@pytest.mark.parametrize("shared", [True, False])
def test_evaluation_equals_the_eager_one_and_changes_nothing(widths, shared):
    ours, other = ready(widths), ready(widths)
    one, undisturbed = fused(ours), fused(other)
    source = noise(19, size=32, seed=5) if shared else one.source
    look = fused_evaluation(one, source, shared=shared)
    for count in (17, 7):  # neither is a multiple of the batch, and fewer than the last time
        shape = (count,) if shared else (len(widths), count)
        chosen = np.random.default_rng(count).integers(0, len(source), shape)
        wanted = run_to_the_end(evaluate_pack(evaluated(ours), source, chosen))
        wrong, losses = look.counts(torch.from_numpy(chosen))
        for bad, loss, known in zip(wrong.tolist(), losses.tolist(), wanted, strict=True):
            assert loss / count == pytest.approx(known.loss, rel=0.01)
            assert abs(bad / count - known.error) < 1.5 / count  # one example at most is a matter of rounding
        one()
        undisturbed()
    assert one.sums.count_nonzero() == 0
    for mine, undisturbed_ones in zip(
        ours.pack.tensors().values(), other.pack.tensors().values(), strict=True
    ):
        assert torch.equal(mine, undisturbed_ones)


def test_a_fused_runner_starts_clean_and_finds_its_evaluations():
    ours, other = ready(MIXED), ready(MIXED)
    test = noise(7, size=32, seed=5)
    runner = make_fused_runner(fused(ours), test)
    assert (runner.mode, set(runner.evaluations)) == ("fused", {id(test), id(ours.source)})
    assert not any(own.count_nonzero() for own in (ours.cursor, ours.losses, ours.healthy))
    both = make_fused_runner(fused(other), other.source)
    every = torch.arange(20)
    counts = both.evaluations[id(other.source)].counts(every.expand(3, -1))
    assert all(map(torch.equal, counts, both.evaluations[id(other.source)].counts(every)))


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


def refill(emptied: PackTrainer, full: PackTrainer) -> None:
    with torch.no_grad():
        tensors = zip(emptied.pack.tensors().values(), full.pack.tensors().values(), strict=True)
        masks = zip(emptied.pack.masks.values(), full.pack.masks.values(), strict=True)
        for mine, theirs in (*tensors, *masks, (emptied.order, full.order), (emptied.rates, full.rates)):
            mine.copy_(theirs)
    reset(emptied)


def with_pooling() -> PackTrainer:
    def end(self: nn.Module, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(functional.max_pool2d(x, 2)), 1))

    return trainer_of(packed([changed(methods={"end": end})], size=16), noise(9, size=16))


def double() -> PackTrainer:
    one = trainer_of(packed(resnets([0.25]), size=32), noise(9, size=32))
    return replace(one, losses=one.losses.double())


def not_channels_last() -> PackTrainer:
    whole = pack(resnets([0.25]), image_shape=(3, 32, 32), smallest_group=16)
    return trainer_of(whole, noise(9, size=32))


REFUSED = {
    "adam": (lambda: ready([0.25], optimizer="adam"), "need optimizer sgd, not adam"),
    "fp32": (lambda: ready([0.25], precision="fp32"), "need precision bf16, not fp32"),
    "clipping": (lambda: ready([0.25], gradient_clip=1.0), "need gradient_clip None, not 1.0"),
    "pooling": (with_pooling, "max_pool2d"),
    "crop": (lambda: ready([0.25], augmentation="resized-crop"), "crop and scale"),
    "size": (
        lambda: trainer_of(packed(resnets([0.25], size=24), size=24), noise(9, size=24)),
        "Images of 24x24 are not fused",
    ),
    "wide": (
        lambda: trainer_of(packed(resnets([8.0]), size=32), noise(9, size=32)),
        "is too wide for the memory",
    ),
    "double": (double, "need parameters in float32, not torch.float64"),
    "layout": (not_channels_last, "'stem.weight' is not stored channels last"),
}


@pytest.mark.parametrize("thing", REFUSED)
def test_refusals_name_the_thing(thing):
    made, words = REFUSED[thing]
    with pytest.raises(Unfused, match=re.escape(words)):
        fused(made())


def test_bytes_in_another_order_are_refused():
    source = noise(9, size=32)
    source.images = source.images.permute(0, 2, 1, 3)
    with pytest.raises(Unfused, match="need images that are bytes on the device"):
        fused(trainer_of(packed(resnets([0.25]), size=32), source))
