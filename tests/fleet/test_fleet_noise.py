"""The random numbers of a network do not depend on the networks that train at the same time."""

import fleet_own
import pytest
import torch
from fleet_digits import ANY, CPU, chain, jobs_of
from torch import nn

from prunecast import data, families
from prunecast.fleet import fleet_events
from prunecast.fleet.chains import draws_noise
from prunecast.pruning import chain_trainer, open_chain, run_chain
from prunecast.training import train

BRIEF = {"epochs": 2, "rewind": 1.0}


@pytest.mark.parametrize("packed", [True, False])
def test_networks_with_dropout_end_as_in_the_plain_loop(tmp_path, packed):
    family = "fleet_own:with_dropout" if packed else "fleet_own:with_unnoticed_dropout"
    own = [chain(family=family, recipe=BRIEF, replicate=k) for k in range(2)]
    jobs = jobs_of([*own, chain(recipe=BRIEF)], cap=1, dataset=data.load("digits"))
    events = list(fleet_events(jobs, tmp_path / "fleet", device=CPU, options=ANY))
    if packed:
        assert sorted(event.number for event in events) == [0, 0, 1, 1, 2, 2]
    else:
        assert [event.number for event in events] == [2, 2, 0, 0, 1, 1]
    for number, job in enumerate(jobs[:2]):
        alone = run_chain(job.spec, tmp_path / "plain", job.dataset, rules=job.rules)
        ours = [event.record for event in events if event.number == number]
        near = 1e-4 if packed else 0.0
        assert [record.loss for record in ours] == pytest.approx([record.loss for record in alone], rel=near)


@pytest.mark.parametrize(
    ("model", "noisy"),
    [
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
        (nn.BatchNorm2d(1), False),
        (nn.Linear(7, 2), True),  # it cannot be run, so nobody knows
    ],
)
def test_networks_that_draw_noise(model, noisy):
    whole = nn.Sequential(nn.Conv2d(1, 1, 1), model)
    before = torch.get_rng_state()
    assert draws_noise(whole, (1, 4, 4)) == noisy
    assert torch.equal(before, torch.get_rng_state())


def test_first_weights_do_not_depend_on_trainings_that_begin_meanwhile(tmp_path, monkeypatch):
    opened = open_chain(chain(recipe=BRIEF), tmp_path, data.load("digits"))
    bench = chain_trainer(opened)
    wanted = {"depth": 1, "width": 1.0, "num_classes": 2}

    def built():
        made = families.build("fleet_own:disturbed", **wanted, generator=torch.Generator().manual_seed(0))
        return made.weight

    expected = built()
    monkeypatch.setattr(fleet_own, "OTHERS", [lambda: train(bench, lambda: None, 0, 1)])
    assert torch.equal(built(), expected)
