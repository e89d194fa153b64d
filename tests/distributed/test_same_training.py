import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from members import in_a_group, trained

from prunecast.errors import PrunecastError
from prunecast.training import ProcessGroup
from prunecast.training.norms import synchronise_norms

MODERN = {
    "optimizer": "adamw",
    "weight_decay_on": "weights",
    "gradient_clip": 0.5,
    "label_smoothing": 0.1,
    "schedule": "one-cycle",
    "batch_size": 32,
}
CASES = {
    "two even parts": (2, {"kind": "resnet", "changes": {"batch_size": 32}}),
    "two uneven parts": (2, {"kind": "resnet"}),
    "three parts and adamw": (3, {"kind": "resnet", "changes": MODERN}),
    "images from files": (2, {"kind": "small", "streams": True}),
    "unused parameters": (2, {"kind": "spare"}),
    "batch norm of vectors": (2, {"kind": "vectors"}),
}


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max((one[name].double() - other[name].double()).abs().max().item() for name in one)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ten_steps_of_a_group_are_ten_steps_of_one_process(case):
    size, options = CASES[case]
    alone, loss, scores = trained(**options)
    members = in_a_group(size, run, options)
    for state, group_loss, group_scores in members:
        assert largest_difference(state.network, alone.network) < 1e-9
        assert largest_difference(state.optimizer_state, alone.optimizer_state) < 1e-9
        assert group_loss == pytest.approx(loss, abs=1e-9)
        for (error, mean), (group_error, group_mean) in zip(scores, group_scores, strict=True):
            assert group_error == error
            assert group_mean == pytest.approx(mean, rel=1e-6)
    first = members[0][0]
    for state, _, _ in members[1:]:
        assert all(torch.equal(state.network[name], first.network[name]) for name in first.network)
    moved = trained(**options, steps=1)[0]
    assert largest_difference(moved.network, alone.network) > 1e-3


def run(group, options):
    return trained(group, **options)


@pytest.mark.parametrize(("count", "size"), [(32, 2), (33, 2), (7, 3), (2, 3), (0, 2), (5, 1)])
def test_parts_are_all_rows_once_and_nearly_equal(count, size):
    groups = [ProcessGroup(rank=rank, size=size) for rank in range(size)]
    parts = [list(range(count))[group.part(count)] for group in groups]
    assert [row for part in parts for row in part] == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if count:
        assert sum(group.share(count) for group in groups) == pytest.approx(1)


class OwnNorm(nn.BatchNorm2d):
    pass


@pytest.mark.parametrize(
    ("norm", "what"),
    [
        (nn.BatchNorm2d(3, track_running_stats=False), "batch norm without running statistics"),
        (OwnNorm(3), "OwnNorm"),
    ],
)
def test_a_norm_that_cannot_be_synchronised_is_named(norm, what):
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Sequential(norm))
    group = ProcessGroup(rank=0, size=2)
    with pytest.raises(PrunecastError, match=rf"The layer 1\.0 is a {what}, which cannot be synchronised"):
        synchronise_norms(model, group, torch.device("cpu"))


def test_synchronised_norms_keep_names_tensors_and_sharing():
    norm = nn.BatchNorm2d(3)
    model = nn.ModuleDict({"first": norm, "again": norm, "conv": nn.Conv2d(1, 3, 3)}).eval()
    before = model.state_dict()
    synchronise_norms(model, ProcessGroup(rank=0, size=2), torch.device("cpu"))
    assert model["first"] is model["again"] is not norm
    assert list(model.state_dict()) == list(before)
    assert all(model.state_dict()[name].data_ptr() == before[name].data_ptr() for name in before)
    assert not model["first"].training
