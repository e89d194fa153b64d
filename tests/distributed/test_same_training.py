import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from members import in_a_team, trained

CASES = {
    "two even parts": (2, {"kind": "resnet", "changes": {"batch_size": 32}}),
    "two uneven parts": (2, {"kind": "resnet"}),
    "three parts and adam": (3, {"kind": "resnet", "changes": {"optimizer": "adam", "batch_size": 32}}),
    "unused parameters": (2, {"kind": "spare"}),
    "batch norm of vectors": (2, {"kind": "vectors"}),
}


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max((one[name].double() - other[name].double()).abs().max().item() for name in one)


@pytest.mark.parametrize("case", CASES)
def test_ten_steps_of_a_team_are_ten_steps_of_one_process(case):
    size, options = CASES[case]
    alone, loss, scores = trained(**options)
    members = in_a_team(size, run, options)
    for state, team_loss, team_scores in members:
        assert largest_difference(state.network, alone.network) < 1e-9
        assert largest_difference(state.slots, alone.slots) < 1e-9
        assert team_loss == pytest.approx(loss, abs=1e-9)
        for (error, mean), (team_error, team_mean) in zip(scores, team_scores, strict=True):
            assert team_error == error
            assert team_mean == pytest.approx(mean, rel=1e-6)
    first = members[0][0]
    for state, _, _ in members[1:]:
        assert all(torch.equal(state.network[name], first.network[name]) for name in first.network)
    moved = trained(**options, steps=1)[0]
    assert largest_difference(moved.network, alone.network) > 1e-3


def run(team, options):
    return trained(team, **options)
