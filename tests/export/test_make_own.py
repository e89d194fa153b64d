"""A family of one's own: the size promised is the size made, and the card says how to use the network."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from made_networks import error_without_prunecast
from own_networks import vit

from prunecast import load_network, read
from prunecast.choice import choose
from prunecast.errors import PrunecastError
from prunecast.export import make
from prunecast.families import prunable
from prunecast.pruning import kept_at
from prunecast.spec import method
from prunecast.sweep import read_plan

PLAN = """# A small vision transformer.
family = "own_networks:vit"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 4, drops = [3], rewind = 1}
num_examples = 300
level_cap = 8
depth = 1
width = [1, 2]
"""
ASKED = {"density": 0.64, "width": 2.0, "depth": 1.0, "target_error": 0.5}


def table(*, earlier: bool = False) -> pd.DataFrame:
    """Curves of two widths, with the counts of the networks themselves, or those of an earlier rule."""
    rows = []
    for width, level in product((1, 2), range(15)):
        model = vit(1, width, 10)
        weights = sum(model.get_parameter(name).numel() for name in prunable(model, earlier=earlier))
        nonzero = kept_at(method("imp"), weights, level)
        rows.append({"width": width, "level": level, "weights": weights, "nonzero": nonzero})
        rows[-1]["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    frame = pd.DataFrame(rows).assign(density=lambda own: own["nonzero"] / own["weights"])
    size = (frame["density"] * frame["width"]) ** 2
    error = 0.3 / frame["width"] * np.sqrt((size + 0.04**2 * (2.9 * frame["width"]) ** 2) / (size + 0.04**2))
    names = {"family": "own_networks:vit", "dataset": "digits", "method": "imp", "recipe": "short"}
    return frame.assign(error=error, depth=1, num_examples=300, replicate=0, **names)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan, its table and the table that an earlier version measured."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "small.toml").write_text(PLAN, encoding="utf-8")
    table().to_csv(folder / "results.csv", index=False)
    table(earlier=True).to_csv(folder / "earlier.csv", index=False)
    return folder


def test_the_size_promised_is_the_size_made(own: Path, tmp_path: Path) -> None:
    results, plan = own / "results.csv", read_plan(own / "small.toml")
    card = make(results, plan, tmp_path / "network", **ASKED)
    promised = choose(results, **ASKED).answer
    assert promised.stored_parameters == card.counts.stored
    assert promised.nonzero_parameters == card.counts.nonzero
    assert [tensor.name for tensor in card.counts.not_prunable] == ["positions"]
    text = (tmp_path / "network" / "README.md").read_text(encoding="utf-8")
    assert "never pruned: positions (" in text
    assert error_without_prunecast(tmp_path / "network") == pytest.approx(card.measured.error, abs=1e-9)
    assert json.loads((tmp_path / "network" / "card.json").read_text())["class_names"] == list("0123456789")


def test_a_width_may_be_a_number_of_channels(own: Path, tmp_path: Path) -> None:
    """Plans give whole numbers; the width of an answer is a number with a fraction."""
    text = PLAN.replace("own_networks:vit", "own_networks:channels")
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    frame = table().drop(columns=["weights", "parameters", "nonzero"]).assign(family="own_networks:channels")
    asked = {**ASKED, "density": 1.0, "target_error": 0.8}
    card = make(read(frame), read_plan(tmp_path / "plan.toml"), tmp_path / "network", **asked)
    assert card.network.width == 2
    assert load_network(tmp_path / "network")(torch.zeros(3, 1, 8, 8)).shape == (3, 10)


def test_a_table_that_never_pruned_attention_is_refused(own: Path, tmp_path: Path) -> None:
    """Its densities are shares of fewer weights."""
    with pytest.raises(PrunecastError, match=r"measure the table again, or set prunable_weights"):
        make(own / "earlier.csv", read_plan(own / "small.toml"), tmp_path / "network", **ASKED)
