import pytest
import torch
from torch import nn

from prunecast import families
from prunecast.pruning.connectivity import connectivity
from prunecast.pruning.masks import count_kept, count_total, full_masks, kept_at
from prunecast.pruning.synflow import synaptic_flow, synflow_masks


def test_score_of_a_weight_is_the_sum_of_products_along_its_paths():
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    first, second = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0]])
    with torch.no_grad():
        model[1].weight.copy_(first)
        model[3].weight.copy_(second)
    model = model.double()
    weights = dict(model.named_parameters())
    scores = synaptic_flow(model, weights, full_masks(weights), (1, 1, 2))
    assert scores["1.weight"].tolist() == [[5, 10], [18, 24]]
    assert scores["3.weight"].tolist() == [[15, 42]]


@pytest.mark.parametrize("level", [1, 5, 12, 20])
def test_counts_are_exact_and_no_weight_is_dead(level):
    generator = torch.Generator().manual_seed(0)
    model = families.build("digits_cnn", depth=4, width=1.0, num_classes=10, generator=generator)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    names = families.prunable(model)
    total = count_total(full_masks({name: model.get_parameter(name) for name in names}))
    kept = kept_at(total, 0.2, level)
    masks = synflow_masks(model, names, (1, 8, 8), kept, 100)
    assert count_kept(masks) == kept
    found = connectivity(model, masks, (1, 8, 8))
    assert found.connected
    assert found.alive == kept
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
