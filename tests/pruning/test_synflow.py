import pytest
import torch
from tiny import context
from torch import nn

from prunecast import families
from prunecast.pruning.connectivity import connectivity
from prunecast.pruning.criteria import synflow
from prunecast.pruning.masks import count_kept, count_total, full_masks
from prunecast.pruning.prune import kept_at, next_masks
from prunecast.spec import method

METHOD = method("synflow")


def test_score_of_a_weight_is_the_sum_of_products_along_its_paths():
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    first, second = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0]])
    with torch.no_grad():
        model[1].weight.copy_(first)
        model[3].weight.copy_(second)
    model = model.double()
    weights = dict(model.named_parameters())
    scores = synflow(context(METHOD, full_masks(weights), weights, model=model, image_shape=(1, 1, 2)))
    assert scores["1.weight"].tolist() == [[5, 10], [18, 24]]
    assert scores["3.weight"].tolist() == [[15, 42]]


@pytest.mark.parametrize("level", [1, 5, 12, 20])
def test_counts_are_exact_and_no_weight_is_dead(level):
    generator = torch.Generator().manual_seed(0)
    model = families.build("digits_cnn", depth=4, width=1.0, num_classes=10, generator=generator)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights = {name: model.get_parameter(name).detach() for name in families.prunable(model)}
    kept = kept_at(METHOD, count_total(full_masks(weights)), level)
    masks = next_masks(context(METHOD, full_masks(weights), weights, level=level, model=model))
    assert count_kept(masks) == kept
    found = connectivity(model, masks, (1, 8, 8))
    assert found.connected
    assert found.alive == kept
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
