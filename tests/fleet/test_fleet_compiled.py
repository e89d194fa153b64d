"""A compiled pack computes what the plain loop computes; if compiling fails, training goes on without it."""

import dataclasses
from collections import Counter

import pytest
from compiled_programs import compiled
from fleet_digits import ANY, chain, doubled, fleet, jobs_of, open_double, plain
from test_fleet_equals_plain import MODERN, assert_same_store

from prunecast.fleet import runner_pool
from prunecast.fleet.members import kind_of
from prunecast.fleet.runner import MANY_SHAPES
from prunecast.fleet.step import EAGER, Programs

COMPILING = dataclasses.replace(ANY, compile=True)


@pytest.fixture
def jobs(tmp_path):
    own = jobs_of([chain(width=width) for width in (0.5, 0.25)], cap=3)
    plain(own, tmp_path / "plain")
    return own


@pytest.mark.parametrize("recipe", [{}, MODERN], ids=["sgd", "modern"])
def test_a_compiled_fleet_leaves_the_plain_store(recipe, tmp_path, monkeypatch, caplog):
    jobs = jobs_of([chain(width=width, recipe=recipe) for width in (0.5, 0.25)], cap=1)
    plain(jobs, tmp_path / "plain")
    counts = Counter()
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: compiled(counts))
    with caplog.at_level("INFO"):
        list(fleet(jobs, tmp_path / "fleet", options=COMPILING))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert min(counts[name] for name in ("gather", "forward", "update")) > 0
    (told,) = (text for text in caplog.messages if "is ready" in text)
    assert told.startswith("A pack of 2 networks, width 0.75,")
    assert told.endswith("(compiled).")


@pytest.mark.parametrize(
    ("good", "words"),
    [
        (0, "torch.compile failed, so the pack runs uncompiled: ValueError: the compiler was wrong"),
        (
            5,
            "A compiled pack failed, so its members train again uncompiled: ValueError('the compiler was wrong')",
        ),
    ],
    ids=["while it is built", "in the middle of a level"],
)
def test_a_compiled_step_that_fails(jobs, tmp_path, monkeypatch, caplog, good, words):
    left = [good]

    def failing(*given):
        left[0] -= 1
        if left[0] < 0:
            raise ValueError("the compiler was wrong")
        return EAGER.forward(*given)

    programs = Programs(gather=EAGER.gather, forward=failing, update=EAGER.update)
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: programs)
    list(fleet(jobs, tmp_path / "fleet", options=COMPILING))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert left == [-1]
    assert [text for text in caplog.messages if "failed" in text] == [words]


def test_a_pack_whose_kernels_fail_while_it_is_built_is_compiled_at_once(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("the kernel was wrong")

    monkeypatch.setattr(runner_pool, "FUSED_ON", ("cpu",))
    monkeypatch.setattr(runner_pool.RunnerPool, "_try_to_fuse", lambda *_: None)
    monkeypatch.setattr(runner_pool, "compiler", lambda device: None)
    monkeypatch.setattr(runner_pool, "fused_step", broken)
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: compiled(Counter()))
    one = open_double(chain(width=0.5), tmp_path, doubled())
    kind, pool = kind_of(one), runner_pool.RunnerPool([one.spec], COMPILING)
    pool.add(kind, one)
    assert pool.fuses(kind, (0.5,))
    assert pool.take(kind, (0.5,), one).mode == "compiled"
    assert pool.compiles(kind, (0.5,))
    assert not pool.fuses(kind, (0.5,))


def test_many_shapes_may_be_compiled(tmp_path, monkeypatch):
    import torch

    limits = []

    def noting(*given):
        limits.append(torch._dynamo.config.recompile_limit)
        return EAGER.forward(*given)

    programs = Programs(gather=EAGER.gather, forward=noting, update=EAGER.update)
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: programs)
    one = open_double(chain(width=0.5), tmp_path, doubled())
    pool = runner_pool.RunnerPool([one.spec], COMPILING)
    pool.add(kind_of(one), one)
    pool.build(kind_of(one), (0.5,), one)
    assert set(limits) == {MANY_SHAPES}
