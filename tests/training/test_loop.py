import dataclasses
import platform
import resource

import numpy as np
import pytest
import torch
from torch import nn

from prunecast import data, families, spec
from prunecast.spec import rng, seed
from prunecast.training import (
    copy_state,
    draw_epoch,
    evaluate,
    load_epoch,
    prepare,
    set_state,
    settings,
    step,
    stepper,
    train,
)
from prunecast.training.loop import replaced_in_a_step

CPU = torch.device("cpu")
QUICK = spec.recipe("digits").changed({"epochs": 3, "rewind": 0.5, "augmentation": "flip-shift"})


@pytest.fixture(autouse=True)
def one_thread():
    with settings("fp32", CPU, 1):
        yield


def trainer_of(recipe=QUICK, replicate=0, num_examples=200, model=None):
    digits = data.load("digits")
    generator = torch.Generator().manual_seed(seed(replicate, "initialisation"))
    model = model or families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
    examples = data.subsample(len(digits.train), num_examples, rng(replicate, "subsample"))
    return prepare(model, families.prunable(model), recipe, replicate, digits.train, examples)


def trained(trainer, first=0, last=None):
    train(trainer, stepper(trainer), first, last or trainer.times.total)
    return copy_state(trainer)


def drawn(trainer, epoch):
    shape, replicate = trainer.source.image_shape, trainer.replicate
    return draw_epoch(trainer.recipe, trainer.times, replicate, trainer.subsample, shape, epoch)


def same(one, other):
    pairs = [(one.network, other.network), (one.optimizer_state, other.optimizer_state)]
    return all(a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in pairs)


def noisy(depth=3, width=1.0, num_classes=10):
    generator = torch.Generator().manual_seed(5)
    model = families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
    return nn.Sequential(model, nn.Dropout(0.3))


def test_one_seed_is_one_training_and_two_seeds_are_two():
    assert same(trained(trainer_of()), trained(trainer_of()))
    first, second = trainer_of(replicate=0), trainer_of(replicate=1)
    assert not any(
        torch.equal(a, b) for a, b in zip(first.parameters, second.parameters, strict=True) if a.dim() > 1
    )
    assert not np.array_equal(first.subsample, second.subsample)
    (order, draws), (other_order, other_draws) = (drawn(trainer, 0) for trainer in (first, second))
    assert not np.array_equal(order, other_order)
    assert not torch.equal(draws.shift, other_draws.shift)


def test_order_and_augmentation_change_from_epoch_to_epoch_and_cover_the_subsample():
    trainer = trainer_of(num_examples=192)
    epochs = [drawn(trainer, epoch) for epoch in range(3)]
    assert len({order.tobytes() for order, _ in epochs}) == 3
    assert len({draws.shift.numpy().tobytes() for _, draws in epochs}) == 3
    assert all(np.array_equal(np.sort(order), trainer.subsample) for order, _ in epochs)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("make", [lambda: None, noisy], ids=["plain", "with dropout"])
def test_training_taken_up_from_a_copied_state_is_the_unbroken_one(optimizer, make):
    recipe = QUICK.changed({"optimizer": optimizer})
    unbroken = trained(trainer_of(recipe, model=make()))
    for stop in (trainer_of(recipe).times.rewind, trainer_of(recipe).times.epoch):
        trainer = trainer_of(recipe, model=make())
        state = trained(trainer, 0, stop)
        fresh = trainer_of(recipe, replicate=0, model=make())
        masks = {name: torch.ones_like(p) for name, p in fresh.model.named_parameters()}
        set_state(fresh, state, masks)
        assert same(trained(fresh, stop), unbroken)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_masks_hold_after_every_step_of_a_real_training(precision, optimizer):
    trainer = trainer_of(
        QUICK.changed({"precision": precision, "optimizer": optimizer, "weight_decay": 1e-2})
    )
    generator = torch.Generator().manual_seed(0)
    masks = {
        name: torch.rand(p.shape, generator=generator) < 0.3 for name, p in trainer.model.named_parameters()
    }
    set_state(trainer, copy_state(trainer), masks)
    load_epoch(trainer, 0)
    for _ in range(trainer.times.epoch):
        step(trainer)
        for name in families.prunable(trainer.model):
            weight = trainer.model.get_parameter(name)
            assert torch.count_nonzero(weight[~masks[name]]) == 0
            assert torch.count_nonzero(weight[masks[name]]) == masks[name].sum()
    assert bool(trainer.loss.isfinite())


def test_fewer_examples_than_a_batch_are_one_batch():
    trainer = trainer_of(num_examples=20)
    assert (trainer.times.batch, trainer.times.epoch) == (20, 1)
    assert np.array_equal(np.sort(drawn(trainer, 0)[0]), trainer.subsample)


def test_mean_loss_falls_and_the_network_learns():
    trainer = trainer_of(QUICK.changed({"augmentation": "none", "epochs": 12}), num_examples=600)
    first = train(trainer, stepper(trainer), 0, trainer.times.epoch)
    last = train(trainer, stepper(trainer), trainer.times.epoch, trainer.times.total)
    digits = data.load("digits")
    score = evaluate(trainer.model, digits.test, torch.arange(len(digits.test)), "fp32")
    assert last < first
    assert score.error < 0.3
    assert trainer.model.training


class FromFiles:
    """The same examples, as if every batch were read from files."""

    streams = True

    def __init__(self, source):
        self.source, self.labels, self.image_shape = source, source.labels, source.image_shape

    def __len__(self):
        return len(self.source)

    def batch(self, indices, draws):
        return self.source.batch(indices, draws)


def test_batches_fetched_ahead_are_the_same_batches():
    trainer = trainer_of()
    ahead = dataclasses.replace(trainer_of(), source=FromFiles(trainer.source))
    assert same(trained(trainer), trained(ahead))


def test_evaluation_is_the_error_of_the_largest_logit():
    class Pixels(nn.Module):
        def forward(self, images):
            return images.flatten(1)[:, :10]

    digits = data.load("digits")
    chosen = torch.arange(0, len(digits.test), 3)
    logits = digits.test.batch(chosen, None).flatten(1)[:, :10]
    labels = digits.test.labels[chosen]
    score = evaluate(Pixels(), digits.test, chosen, "fp32")
    assert score.error == pytest.approx((logits.argmax(1) != labels).double().mean().item(), abs=1e-12)
    assert score.loss == pytest.approx(nn.functional.cross_entropy(logits, labels).item(), rel=1e-5)


def test_settings_are_given_back():
    def now():
        return (
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
            torch.backends.cudnn.benchmark,
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.random.get_rng_state().sum().item(),
        )

    torch.utils.deterministic.fill_uninitialized_memory = True
    before = now()
    with settings("fp32", CPU, 2):
        assert not torch.utils.deterministic.fill_uninitialized_memory
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cudnn.allow_tf32
        torch.rand(3)
    assert now() == before


def test_steps_and_evaluation_read_no_uninitialised_memory():
    ends = []
    for fill in (False, True):  # True writes NaN into every new tensor
        trainer = trainer_of(model=noisy())
        torch.utils.deterministic.fill_uninitialized_memory = fill
        end = trained(trainer)
        ends.append((end, evaluate(trainer.model, trainer.source, torch.arange(300), "fp32")))
    assert same(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_freed_memory_is_reused_without_new_pages():
    def page_faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(10_000_000)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    for _ in range(10):  # glibc finds an aligned place among the freed ones after a few calls
        page_faults()
    assert page_faults() < 1000  # 40 MB are ten thousand pages of 4 kB


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_step_does_what_the_step_does():
    device = torch.device("cuda")
    digits = data.load("digits", device=device)
    ends = []
    for graph in (False, True):
        generator = torch.Generator().manual_seed(0)
        model = families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
        examples = data.subsample(len(digits.train), 200, rng(0, "subsample"))
        trainer = prepare(model, families.prunable(model), QUICK, 0, digits.train, examples)
        with settings("fp32", device, 1):
            train(trainer, stepper(trainer, graph=graph), 0, trainer.times.total)
        ends.append(copy_state(trainer).network)
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-3, atol=1e-4)


class Centred(nn.Module):
    """Subtracts an average over its inputs so far, which it changes in place or replaces."""

    def __init__(self, in_place):
        super().__init__()
        self.in_place = in_place
        self.register_buffer("centre", torch.zeros(10))

    def forward(self, x):
        if self.in_place:
            self.centre.lerp_(x.detach().mean(0), 0.1)
        else:
            self.centre = self.centre.lerp(x.detach().mean(0), 0.1)
        return x - self.centre


@pytest.mark.parametrize(("in_place", "replaced"), [(True, None), (False, "1.centre")])
def test_tensors_that_a_step_replaces_are_found_without_a_trace(in_place, replaced):
    generator = torch.Generator().manual_seed(5)
    model = families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
    trainer = trainer_of(model=nn.Sequential(model, Centred(in_place), nn.Dropout(0.3)))
    before, numbers = copy_state(trainer), torch.get_rng_state()
    assert replaced_in_a_step(trainer) == replaced
    assert same(copy_state(trainer), before)
    assert torch.equal(torch.get_rng_state(), numbers)
