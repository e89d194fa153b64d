import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import context

from prunecast import families, spec
from prunecast.pruning.masks import count_kept, count_total, full_masks, lowest
from prunecast.pruning.prune import count_pruned, kept_at, next_masks
from prunecast.pruning.structure import SingleWeights

# family, depth, width, levels to walk
FAMILIES = [
    ("digits_cnn", 4, 1.0, 40),
    ("cifar_resnet", 8, 1.0, 40),
    ("cifar_resnet", 14, 0.5, 40),
    ("cifar_resnet", 20, 1.0, 40),
    ("cifar_resnet", 26, 0.25, 40),
    ("cifar_resnet", 50, 0.25, 40),
    ("cifar_resnet", 98, 0.0625, 40),
    ("vgg", 16, 0.125, 37),
    ("densenet", 121, 0.25, 50),
    ("tinyimagenet_resnet", 18, 0.0625, 50),
    ("imagenet_resnet", 50, 0.0625, 30),
]


def network(family, depth, width):
    generator = torch.Generator().manual_seed(0)
    model = families.build(family, depth=depth, width=width, num_classes=10, generator=generator)
    return model, {name: model.get_parameter(name).detach() for name in families.prunable(model)}


@pytest.mark.parametrize(("family", "depth", "width", "levels"), FAMILIES)
@pytest.mark.parametrize("method", ["imp", "random"])
def test_counts_are_exact_at_every_level_of_every_family(family, depth, width, levels, method):
    _, weights = network(family, depth, width)
    masks = full_masks(weights)
    total = expected = count_total(masks)
    for level in range(1, levels + 1):
        before = masks
        masks = next_masks(context(spec.method(method), masks, weights, level=level))
        expected -= -(-expected // 5)
        assert count_kept(masks) == expected == kept_at(spec.method(method), total, level)
        assert all(not bool((masks[name] & ~before[name]).any()) for name in masks)
    assert expected / total == pytest.approx(0.8**levels, rel=0.2, abs=5 / total)


@pytest.mark.parametrize(("family", "depth", "width", "levels"), FAMILIES[:4])
def test_magnitude_keeps_the_largest(family, depth, width, levels):
    _, weights = network(family, depth, width)
    masks = full_masks(weights)
    for level in range(1, 6):
        masks = next_masks(context(spec.method("imp"), masks, weights, level=level))
        kept = torch.cat([weights[name][mask].abs() for name, mask in masks.items()])
        gone = torch.cat([weights[name][~mask].abs() for name, mask in masks.items()])
        assert gone.max() <= kept.min()


def test_layerwise_takes_its_share_of_every_layer():
    _, weights = network("cifar_resnet", 8, 1.0)
    masks = full_masks(weights)
    for level in range(1, 11):
        before = {name: int(mask.sum()) for name, mask in masks.items()}
        masks = next_masks(context(spec.method("imp-layerwise"), masks, weights, level=level))
        for name, mask in masks.items():
            assert int(mask.sum()) == before[name] - count_pruned(before[name], 0.2)


def test_none_prunes_nothing():
    _, weights = network("digits_cnn", 3, 1.0)
    masks = full_masks(weights)
    assert count_kept(next_masks(context(spec.method("none"), masks, weights))) == count_total(masks)


def test_random_differs_by_replicate_and_level_and_repeats():
    _, weights = network("digits_cnn", 3, 1.0)
    masks = full_masks(weights)

    def drawn(replicate, level):
        found = next_masks(context(spec.method("random"), masks, weights, replicate=replicate, level=level))
        return torch.cat([mask.flatten() for mask in found.values()])

    assert torch.equal(drawn(0, 1), drawn(0, 1))
    assert not torch.equal(drawn(0, 1), drawn(1, 1))
    assert not torch.equal(drawn(0, 1), drawn(0, 2))


@pytest.mark.parametrize(
    ("surviving", "fraction", "pruned"),
    [
        (100, 0.2, 20),
        (101, 0.2, 21),
        (5, 0.2, 1),
        (4, 0.2, 1),
        (1, 0.2, 1),
        (0, 0.2, 0),
        (35, 0.2, 7),
        (30, 0.1, 3),
    ],
)
def test_counts_round_up_exactly(surviving, fraction, pruned):
    assert count_pruned(surviving, fraction) == pruned


def prune_lowest(masks, scores, count):
    structure = SingleWeights()
    return structure.remove(masks, lowest(structure.unit_scores(masks, scores), count))


def test_ties_go_by_position():
    masks = {"a": torch.ones(2, 3, dtype=torch.bool), "b": torch.ones(4, dtype=torch.bool)}
    scores = {"a": torch.tensor([[1.0, 0.0, 1.0], [1.0, 2.0, 1.0]]), "b": torch.tensor([1.0, 0.0, 1.0, 1.0])}
    pruned = prune_lowest(masks, scores, 5)
    assert pruned["a"].tolist() == [[False, False, False], [False, True, True]]
    assert pruned["b"].tolist() == [True, False, True, True]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_the_choice_is_that_of_a_stable_sort_of_the_survivors(weights, cut, count):
    scores = np.array([score for score, _ in weights], dtype=np.float32)
    kept = np.array([flag for _, flag in weights])
    cut, count = cut % (len(weights) + 1), min(count, int(kept.sum()))
    parts = {"a": slice(0, cut), "b": slice(cut, None)}
    masks = {name: torch.from_numpy(kept[part].copy()) for name, part in parts.items()}
    pruned = prune_lowest(
        masks, {name: torch.from_numpy(scores[part]) for name, part in parts.items()}, count
    )
    survivors = np.flatnonzero(kept)
    expected = kept.copy()
    expected[survivors[np.argsort(scores[survivors], kind="stable")[:count]]] = False
    assert np.array_equal(np.concatenate([mask.numpy() for mask in pruned.values()]), expected)
