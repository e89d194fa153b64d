import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from prunecast import data, families, spec
from prunecast.spec import rng, seed
from prunecast.training import copy_state, evaluate, prepare, set_state, stepper, train
from prunecast.training.loop import epoch_draws, load_epoch, step
from prunecast.training.precision import settings

CPU = torch.device("cpu")
QUICK = spec.recipe("digits").changed({"epochs": 3, "rewind": 0.5, "augmentation": "flip-shift"})


@pytest.fixture(autouse=True)
def one_thread():
    with settings("fp32", CPU, 1):
        yield


def bench_of(recipe=QUICK, replicate=0, num_examples=200, model=None):
    digits = data.load("digits")
    generator = torch.Generator().manual_seed(seed(replicate, "initialisation"))
    model = model or families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
    examples = data.subsample(len(digits.train), num_examples, rng(replicate, "subsample"))
    return prepare(model, families.prunable(model), recipe, replicate, digits.train, examples)


def trained(bench, first=0, last=None):
    train(bench, stepper(bench), first, last or bench.times.total)
    return copy_state(bench)


def same(one, other):
    pairs = [(one.network, other.network), (one.optimizer_state, other.optimizer_state)]
    return all(a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in pairs)


def noisy(depth=3, width=1.0, num_classes=10):
    generator = torch.Generator().manual_seed(5)
    model = families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
    return nn.Sequential(model, nn.Dropout(0.3))


def test_one_seed_is_one_training_and_two_seeds_are_two():
    assert same(trained(bench_of()), trained(bench_of()))
    first, second = bench_of(replicate=0), bench_of(replicate=1)
    assert not any(
        torch.equal(a, b) for a, b in zip(first.parameters, second.parameters, strict=True) if a.dim() > 1
    )
    assert not np.array_equal(first.subsample, second.subsample)
    (order, draws), (other_order, other_draws) = (epoch_draws(bench, 0) for bench in (first, second))
    assert not np.array_equal(order, other_order)
    assert not torch.equal(draws.shift, other_draws.shift)


def test_order_and_augmentation_change_from_epoch_to_epoch_and_cover_the_subsample():
    bench = bench_of(num_examples=192)
    epochs = [epoch_draws(bench, epoch) for epoch in range(3)]
    assert len({order.tobytes() for order, _ in epochs}) == 3
    assert len({draws.shift.numpy().tobytes() for _, draws in epochs}) == 3
    assert all(np.array_equal(np.sort(order), bench.subsample) for order, _ in epochs)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("make", [lambda: None, noisy], ids=["plain", "with dropout"])
def test_training_taken_up_from_a_copied_state_is_the_unbroken_one(optimizer, make):
    recipe = QUICK.changed({"optimizer": optimizer})
    unbroken = trained(bench_of(recipe, model=make()))
    for stop in (bench_of(recipe).times.rewind, bench_of(recipe).times.epoch):
        bench = bench_of(recipe, model=make())
        state = trained(bench, 0, stop)
        fresh = bench_of(recipe, replicate=0, model=make())
        masks = {name: torch.ones_like(p) for name, p in fresh.model.named_parameters()}
        set_state(fresh, state, masks)
        assert same(trained(fresh, stop), unbroken)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_masks_hold_after_every_step_of_a_real_training(precision, optimizer):
    bench = bench_of(QUICK.changed({"precision": precision, "optimizer": optimizer, "weight_decay": 1e-2}))
    generator = torch.Generator().manual_seed(0)
    masks = {
        name: torch.rand(p.shape, generator=generator) < 0.3 for name, p in bench.model.named_parameters()
    }
    set_state(bench, copy_state(bench), masks)
    load_epoch(bench, 0)
    for _ in range(bench.times.epoch):
        step(bench)
        for name in families.prunable(bench.model):
            weight = bench.model.get_parameter(name)
            assert torch.count_nonzero(weight[~masks[name]]) == 0
            assert torch.count_nonzero(weight[masks[name]]) == masks[name].sum()
    assert bool(bench.loss.isfinite())


def test_fewer_examples_than_a_batch_are_one_batch():
    bench = bench_of(num_examples=20)
    assert (bench.times.batch, bench.times.epoch) == (20, 1)
    assert np.array_equal(np.sort(epoch_draws(bench, 0)[0]), bench.subsample)


def test_mean_loss_falls_and_the_network_learns():
    bench = bench_of(QUICK.changed({"augmentation": "none", "epochs": 12}), num_examples=600)
    first = train(bench, stepper(bench), 0, bench.times.epoch)
    last = train(bench, stepper(bench), bench.times.epoch, bench.times.total)
    digits = data.load("digits")
    score = evaluate(bench.model, digits.test, torch.arange(len(digits.test)), "fp32")
    assert last < first
    assert score.error < 0.3
    assert bench.model.training


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
    bench = bench_of()
    ahead = dataclasses.replace(bench_of(), source=FromFiles(bench.source))
    assert same(trained(bench), trained(ahead))


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
            torch.backends.cudnn.benchmark,
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.random.get_rng_state().sum().item(),
        )

    before = now()
    with settings("fp32", CPU, 2):
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cudnn.allow_tf32
        torch.rand(3)
    assert now() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_step_does_what_the_step_does():
    device = torch.device("cuda")
    digits = data.load("digits", device=device)
    ends = []
    for graph in (False, True):
        generator = torch.Generator().manual_seed(0)
        model = families.build("digits_cnn", depth=3, width=0.5, num_classes=10, generator=generator)
        examples = data.subsample(len(digits.train), 200, rng(0, "subsample"))
        bench = prepare(model, families.prunable(model), QUICK, 0, digits.train, examples)
        with settings("fp32", device, 1):
            train(bench, stepper(bench, graph=graph), 0, bench.times.total)
        ends.append(copy_state(bench).network)
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-3, atol=1e-4)
