"""A fleet never reads uninitialised memory: not in packs, in stacks, or in networks alone."""

from contextlib import contextmanager

import pytest
from fleet_digits import chain, fleet, jobs_of
from test_fleet_equals_plain import assert_same_store
from torch.utils import deterministic

from prunecast.fleet import scheduler

FAMILIES = ("digits_cnn", "fleet_own:with_dropout", "fleet_own:choosy")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fleet_trains_the_same_where_new_memory_is_filled_with_nan(tmp_path, monkeypatch, family):
    usual = scheduler.settings

    def with_fill(wanted):
        @contextmanager
        def settings(*given, **named):
            with usual(*given, **named):
                before, deterministic.fill_uninitialized_memory = (
                    deterministic.fill_uninitialized_memory,
                    wanted,
                )
                try:
                    yield
                finally:
                    deterministic.fill_uninitialized_memory = before

        return settings

    recipe = {"epochs": 2, "rewind": 1.0}
    jobs = jobs_of([chain(family=family, recipe=recipe, replicate=k) for k in (0, 1)], cap=1)
    for wanted in (True, False):
        monkeypatch.setattr(scheduler, "settings", with_fill(wanted))
        assert len(list(fleet(jobs, tmp_path / str(wanted)))) == 4
    assert_same_store(jobs, tmp_path / "True", tmp_path / "False")
