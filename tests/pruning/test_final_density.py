"""A chain that ends at an exact number of weights, on the ladder of densities or between two of its rungs."""

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from prunecast import spec
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder
from prunecast.pruning.files import read_tensors
from prunecast.pruning.masks import count_kept
from prunecast.pruning.prune import kept_at, levels_to, next_masks, shared_out

METHODS = ["imp", "imp-layerwise", "random", "imp-rate-rewinding", "synflow"]


@pytest.mark.parametrize("method", METHODS)
def test_the_last_level_keeps_exactly_what_was_asked(tmp_path, method):
    whole = tiny.run(tmp_path, tiny.chain(method=method), cap=1)
    weights, first = whole[0].weights, whole[1].nonzero
    final = round(0.7 * weights)
    own = tiny.chain(method=method, final_nonzero=final)
    records = tiny.run(tmp_path, own, cap=2)
    assert [record.nonzero for record in records] == [weights, first, final]
    assert records[0].error == whole[0].error
    folder = chain_folder(tmp_path, own)
    assert [folder.weights(level).exists() for level in range(3)] == [False, False, True]
    network, masks = read_tensors(folder.weights(2))[0], folder.masks(2)
    assert count_kept(masks) == final
    assert all(not bool(network[name][~mask].any()) for name, mask in masks.items())


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.floats(0, 1))
def test_what_is_shared_out_is_whole_and_in_proportion(counts, share):
    total = int(share * sum(counts))
    shares = shared_out(total, counts)
    assert sum(shares) == total
    assert all(
        abs(one - total * part / sum(counts)) < 1 and one <= part
        for one, part in zip(shares, counts, strict=True)
    )


@pytest.mark.parametrize("name", ["imp", "imp-layerwise", "random"])
def test_the_level_that_keeps_so_many_is_known_beforehand(name):
    method = spec.method(name)
    generator = torch.Generator().manual_seed(0)
    weights = {
        layer: torch.randn(shape, generator=generator) for layer, shape in {"a": (7, 3), "b": (50,)}.items()
    }
    full = {layer: torch.ones(weight.shape, dtype=torch.bool) for layer, weight in weights.items()}
    for final in range(1, 72):
        masks, level = full, 0
        while count_kept(masks) > final:
            level += 1
            before, masks = masks, next_masks(tiny.context(method, masks, weights, level=level), final)
            assert all(not bool((masks[layer] & ~before[layer]).any()) for layer in masks)
        assert count_kept(masks) == final
        assert level == levels_to(method, full, final)


def test_on_the_ladder_it_is_the_ladder():
    method, masks = spec.method("imp"), {"a": torch.ones(20, 25, dtype=torch.bool)}
    for level in range(9):
        assert levels_to(method, masks, kept_at(method, 500, level)) == level


def test_a_method_that_never_gets_there_is_refused():
    masks = {"a": torch.ones(20, 25, dtype=torch.bool)}
    with pytest.raises(PrunecastError, match="'none' never prunes to 100 weights"):
        levels_to(spec.method("none"), masks, 100)


def test_a_network_without_weights_is_refused():
    with pytest.raises(PrunecastError, match="keep at least one weight"):
        tiny.chain(final_nonzero=0)
