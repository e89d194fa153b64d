"""A user's criterion prunes the same in a fleet as in the plain loop."""

from pathlib import Path

import pytest
from fleet_digits import chain, fleet, jobs_of, plain
from test_fleet_equals_plain import assert_same_store

from prunecast.pruning import chain_folder
from prunecast.spec import Method

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("retraining", ["weight-rewinding", "fine-tuning"])
def test_the_documented_criterion(tmp_path, monkeypatch, retraining):
    monkeypatch.syspath_prepend(EXAMPLES)
    own = Method(name="own", score="magnitude_increase:score", retraining=retraining)
    specs = [
        chain(width=width, replicate=replicate, method=own) for width in (0.5, 0.25) for replicate in (0, 1)
    ]
    jobs = jobs_of(specs, cap=2)
    plain(jobs, tmp_path / "plain")
    finished = list(fleet(jobs, tmp_path / "fleet"))
    assert len(finished) == 3 * len(jobs)
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    imp = jobs_of([chain(width=0.5)], cap=2)
    plain(imp, tmp_path / "plain")
    magnitude, grown = (folder_masks(many[0], tmp_path / "plain") for many in (imp, jobs))
    assert any(bool((magnitude[name] != grown[name]).any()) for name in grown)


def folder_masks(job, store):
    return chain_folder(store, job.spec).masks(1)
