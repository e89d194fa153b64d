"""A pack starts uncompiled and goes on compiled, from exactly where it stands."""

import dataclasses
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from compiled_programs import compiled
from fleet_digits import ANY, chain, doubled, fleet, jobs_of, open_double, plain
from test_fleet_equals_plain import assert_same_store

from prunecast import data
from prunecast.fleet import build
from prunecast.fleet.bench import EAGER, Programs, copy_bench
from prunecast.fleet.members import kind_of
from prunecast.fleet.open_close import open_member
from prunecast.fleet.runner import MANY_SHAPES, Runner, reset
from prunecast.fleet.train import train_level
from prunecast.pruning import open_chain, open_level

COMPILING = dataclasses.replace(ANY, compile=True)


def test_a_fleet_that_goes_on_compiled_leaves_the_plain_store(tmp_path, monkeypatch, caplog):
    counts = Counter()
    monkeypatch.setattr(build, "compiled_programs", lambda: compiled(counts))
    jobs = jobs_of([chain(width=width) for width in (0.5, 0.25)], cap=6)
    plain(jobs, tmp_path / "plain")
    with caplog.at_level("INFO"):
        list(fleet(jobs, tmp_path / "fleet", options=COMPILING))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert min(counts[name] for name in ("gather", "forward", "update")) > 0
    told = [text for text in caplog.messages if "goes on compiled" in text]
    assert len(told) == 1
    assert "width 0.75" in told[0]


def test_a_fleet_whose_compiled_steps_fail_goes_on_uncompiled(tmp_path, monkeypatch, caplog):
    failed = []

    def failing(*given):
        if threading.current_thread().name.startswith("stream"):
            failed.append(given)
            raise ValueError("the compiler was wrong")
        return EAGER.forward(*given)

    programs = Programs(gather=EAGER.gather, forward=failing, update=EAGER.update)
    monkeypatch.setattr(build, "compiled_programs", lambda: programs)
    jobs = jobs_of([chain(width=width) for width in (0.5, 0.25)], cap=6)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet", options=COMPILING))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert len(failed) == 1
    told = [text for text in caplog.messages if "failed" in text]
    assert told == [
        "A compiled pack failed, so the fleet goes on uncompiled: ValueError('the compiler was wrong')"
    ]


def test_a_runner_goes_on_in_the_middle_of_an_epoch(tmp_path):
    builder, one = build.Builder([chain()], ANY), open_double(chain(width=0.5), tmp_path, doubled())
    kind, level = kind_of(one), open_level(one, [])
    prototype = builder.prototype(kind, (0.5, 0.5), torch.float64)
    runner, other, whole = (builder.runner(kind, (0.5, 0.5), prototype, compiled=False) for _ in range(3))
    for own in (runner, whole):
        own.bench.pack.load(1, level.network, level.masks)
        reset(own.bench)
        own.bench.order.copy_(torch.arange(own.bench.order.numel()).view(own.bench.order.shape) % 100)
        own.bench.rates.fill_(0.1)
    whole.advance(3)
    runner.advance(1)
    slow, runner.faster = runner.bench, other
    runner.upgrade()
    runner.advance(2)
    assert runner.bench is other.bench
    assert runner.faster is None
    assert (int(slow.cursor), int(runner.bench.cursor)) == (1, 3)
    ours, expected = runner.bench.pack, whole.bench.pack
    for name, tensor in expected.module.state_dict().items():
        torch.testing.assert_close(ours.module.state_dict()[name], tensor, rtol=0, atol=0)
    for mine, theirs in zip(
        runner.bench.optimizer_state["momentum"], whole.bench.optimizer_state["momentum"], strict=True
    ):
        assert torch.equal(mine, theirs)
        assert bool(theirs.any())
    assert ours.guests[1] is not None
    runner.upgrade()
    assert int(runner.bench.cursor) == 3


def test_what_was_handed_over_is_let_go_at_once_and_not_when_the_level_ends(tmp_path):
    (job,) = jobs_of([chain(width=0.5)])
    one = open_double(job.spec, tmp_path, job.dataset())
    member, builder = open_member(0, job, one, []), build.Builder([job.spec], ANY)
    prototype = builder.prototype(kind_of(one), (0.5,), torch.float64)
    runner, faster = (builder.runner(kind_of(one), (0.5,), prototype, compiled=False) for _ in range(2))
    steps_when_gone = []
    weakref.finalize(runner.bench, lambda: steps_when_gone.append(int(runner.bench.healthy)))
    runner.faster, new = faster, faster.bench
    del faster
    with ThreadPoolExecutor(1) as ahead:
        train_level(runner, [member], [0], ahead, threading.Event())
    assert runner.bench is new
    assert int(new.healthy) == member.level.last
    assert steps_when_gone == [0]


def tensors_in(value):
    """Every tensor that an object holds, but those of the data."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from value.state_dict().values()
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name not in ("source", "blocks")]
        yield from tensors_in([getattr(value, name) for name in names])
    elif isinstance(value, dict | list | tuple):
        for own in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(own)


@pytest.mark.parametrize("augmentation", ["none", "flip-shift", "resized-crop"])
@pytest.mark.parametrize(("optimizer", "precision"), [("sgd", "fp32"), ("adam", "bf16")])
def test_everything_that_a_bench_holds_is_handed_over(tmp_path, augmentation, optimizer, precision):
    recipe = {"augmentation": augmentation, "optimizer": optimizer, "precision": precision}
    one = open_chain(chain(width=0.5, recipe=recipe), tmp_path, data.load("digits"))
    builder = build.Builder([one.spec], ANY)
    kind, shape = kind_of(one), (0.5, 0.5)
    prototype = builder.prototype(kind, shape, torch.float32)
    old, new = (builder.runner(kind, shape, prototype, compiled=False).bench for _ in range(2))
    with torch.no_grad():
        for number, tensor in enumerate(tensors_in(old), 2):
            tensor.fill_(number % 100)
    copy_bench(old, new)
    pairs = list(zip(tensors_in(old), tensors_in(new), strict=True))
    assert len(pairs) > 10
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    assert not any(mine.data_ptr() == theirs.data_ptr() for mine, theirs in pairs)


class Watched(Runner):
    """A runner for which faster steps come right after it has looked for them."""

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name == "faster" and value is None:
            self.faster = super().__getattribute__("coming")
        return value


def test_faster_steps_that_come_while_a_runner_looks_for_them_are_not_lost(tmp_path):
    builder, one = build.Builder([chain()], ANY), open_double(chain(width=0.5), tmp_path, doubled())
    prototype = builder.prototype(kind_of(one), (0.5,), torch.float64)
    slow, fast = (builder.runner(kind_of(one), (0.5,), prototype, compiled=False) for _ in range(2))
    runner = Watched(**{name: value for name, value in vars(slow).items() if name != "faster"})
    runner.coming = fast
    runner.upgrade()
    assert runner.bench is slow.bench
    runner.upgrade()
    assert runner.bench is fast.bench


def test_every_thread_may_compile_many_shapes(tmp_path, monkeypatch):
    limits = []

    def noting(*given):
        limits.append(torch._dynamo.config.recompile_limit)
        return EAGER.forward(*given)

    programs = Programs(gather=EAGER.gather, forward=noting, update=EAGER.update)
    monkeypatch.setattr(build, "compiled_programs", lambda: programs)
    builder, one = build.Builder([chain()], ANY), open_double(chain(width=0.5), tmp_path, doubled())
    prototype = builder.prototype(kind_of(one), (0.5,), torch.float64)
    for _ in range(2):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(builder.runner, kind_of(one), (0.5,), prototype, compiled=True).result()
    assert set(limits) == {MANY_SHAPES}
