"""A fleet trains chains of whole channels and of N:M with masks, and leaves the store that the plain loop leaves."""

import pytest
from digits_chains import numbers
from fleet_digits import chain, fleet, jobs_of, plain
from test_fleet_equals_plain import MODERN, assert_same_store

from prunecast import data
from prunecast.pruning import open_chain, run_chain
from prunecast.spec import Method


@pytest.mark.parametrize("score", ["magnitude", "random"])
def test_channels(tmp_path, score):
    method = Method(name="own", structure="channels", score=score)
    jobs = jobs_of([chain(width=width, method=method, recipe=MODERN) for width in (1.0, 0.5)], cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_heads_and_hidden_units_of_an_own_transformer(tmp_path):
    sizes = [
        chain(family="own_networks:vit", depth=1, width=width, method="imp-channels") for width in (2, 1)
    ]
    jobs = jobs_of(sizes, cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_groups_of_weights(tmp_path):
    method = Method(name="own", structure="2:4")
    jobs = jobs_of([chain(width=width, method=method, recipe=MODERN) for width in (1.0, 0.5)], cap=9)
    plain(jobs, tmp_path / "plain")
    finished = list(fleet(jobs, tmp_path / "fleet"))
    assert [done.record.level for done in finished].count(2) == 2
    assert max(done.record.level for done in finished) == 2
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def run(job, store):
    return list(run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=True))


def test_criteria_that_look_at_images_are_left_to_the_plain_loop(tmp_path):
    own = chain(width=1.0, method=Method(name="own", structure="channels", score="taylor"))
    jobs = jobs_of([own], cap=2, dataset=data.load("digits"))
    finished = list(fleet(jobs, tmp_path / "fleet", opener=open_chain))
    assert numbers(done.record for done in finished) == numbers(run(jobs[0], tmp_path / "plain"))


def test_the_plain_loop_goes_on_with_a_chain_of_a_fleet(tmp_path):
    short, long = (
        jobs_of([chain(width=1.0, method="imp-channels")], cap=cap, dataset=data.load("digits"))
        for cap in (1, 2)
    )
    begun = [done.record for done in fleet(short, tmp_path, opener=open_chain)]
    assert run(long[0], tmp_path)[:2] == begun
