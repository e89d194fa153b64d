"""A store written by the first version of the format; every later version has to read it."""

from pathlib import Path

import torch

from prunecast.pruning import StopRules, chain_folders, why_ended, within
from prunecast.pruning.masks import count_kept, full_masks
from prunecast.pruning.prune import kept_at
from prunecast.pruning.store import read_packed

STORE = Path(__file__).parent / "store-format-1"


def test_a_store_of_format_1_stays_readable():
    (folder,) = chain_folders(STORE)
    spec, about = folder.spec()
    assert folder.path.name == spec.digest
    assert (spec.family, spec.depth, spec.num_examples, about["format"]) == ("digits_cnn", 3, 200, 1)
    records = folder.records()
    assert [record.level for record in records] == [0, 1, 2, 3, 4]
    assert [record.nonzero for record in records] == [
        kept_at(spec.method, records[0].weights, k) for k in range(5)
    ]
    assert {record.dead_layers for record in records} == {None}
    assert why_ended(records, StopRules(level_cap=4)) == "level cap"
    assert len(within(records, StopRules(level_cap=2))) == 3
    for level in range(1, 6):
        assert count_kept(folder.masks(level)) == kept_at(spec.method, records[0].weights, level)


def test_its_rewound_network_stays_readable():
    (folder,) = chain_folders(STORE)
    masks = folder.masks(1)
    network = read_packed(folder.rewind, folder, full_masks(masks))
    kept = folder.masks(folder.tensors(folder.rewind)[1])
    for name, mask in kept.items():
        assert network[name].shape == mask.shape
        assert torch.equal(network[name] != 0, mask)
