"""`prunecast make` of a method that removes whole channels writes a smaller dense network."""

import json
from pathlib import Path

import onnxruntime
import pytest
import torch
from made_networks import Swept, error_without_prunecast
from safetensors.torch import load_file

import prunecast
from prunecast import data, families
from prunecast.export import onnx
from prunecast.sweep import export, read_plan, run_plan
from prunecast.training import evaluate

pytestmark = pytest.mark.slow
PLAN = """# Whole channels of two widths.
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 4, drops = [3], rewind = 1}
num_examples = 200
level_cap = 7
depth = 3
width = [1, 2]
method = "imp-channels"
"""


OWN_PLAN = """# Heads and hidden units of a transformer out of torch's own layers.
family = "own_networks:vit"
dataset = "digits"
num_examples = 400
level_cap = 9
depth = 1
width = 3
method = "imp-channels"
[recipe]
preset = "digits"
name = "short"
epochs = 10
rewind = 1
optimizer = "adamw"
learning_rate = 0.01
weight_decay_on = "weights"
schedule = "cosine"
"""


def made(swept: Path, text: str, *asked: str) -> Path:
    """Run a plan, and make the network that is asked for."""
    (swept / "small.toml").write_text(text, encoding="utf-8")
    plan = read_plan(swept / "small.toml")
    for _ in run_plan(plan, swept / "store"):
        pass
    export(plan, swept / "store", swept / "results.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx, "NEEDED", ("onnx", "onnxscript", "onnxruntime"))
        done = Swept(swept).run(*asked, output=swept / "network")
    assert done.exit_code == 0, done.output
    assert "until" in done.output
    assert "Whole channels were removed" in done.output
    return swept / "network"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("channels"), PLAN, "--density", "0.3", "--depth", "3", "--width", "2")


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("own"), OWN_PLAN, "--density", "0.6", "--depth", "1", "--width", "3")


def test_the_files_hold_a_smaller_dense_network(folder):
    card = json.loads((folder / "card.json").read_text())
    network, counts = card["network"], card["counts"]
    assert network["density"] <= 0.3
    assert counts["nonzero"] == round(network["density"] * counts["weights"])
    state = load_file(folder / "model.safetensors")
    weights = [tensor for name, tensor in state.items() if tensor.dim() > 1]
    assert sum(tensor.numel() for tensor in weights) == counts["nonzero"]
    assert all(bool((tensor != 0).any()) for tensor in weights)
    small = prunecast.load_network(folder)
    assert sum(own.numel() for own in small.parameters()) == counts["stored"] < counts["parameters"]
    assert families.multiply_adds(small, (1, 8, 8)) == counts["multiply_adds_kept"] < counts["multiply_adds"]
    whole = families.build(
        "digits_cnn", depth=3, width=2, num_classes=10, generator=torch.Generator(), image_shape=(1, 8, 8)
    )
    assert card["disk"]["dense"] < sum(own.numel() * 4 for own in whole.state_dict().values())


@pytest.mark.parametrize("which", ["folder", "own_folder"])
def test_all_of_them_compute_what_was_measured(which, request):
    folder = request.getfixturevalue(which)
    digits = data.load("digits")
    measured = json.loads((folder / "card.json").read_text())["measured"]["error"]
    small = prunecast.load_network(folder)
    assert evaluate(small, digits.test, torch.arange(len(digits.test)), "fp32").error == measured
    assert error_without_prunecast(folder) == measured
    images = digits.test.batch(torch.arange(50), None)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"images": images.contiguous().numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(logits), small(images), rtol=1e-4, atol=1e-4)


def test_a_transformer_loses_heads_and_hidden_units(own_folder):
    counts = json.loads((own_folder / "card.json").read_text())["counts"]
    small = prunecast.load_network(own_folder)
    block = small.blocks[0]
    assert block.linear1.out_features < 48
    assert block.self_attn.num_heads * block.self_attn.head_dim == block.self_attn.out_proj.in_features
    assert sum(own.numel() for own in small.parameters()) == counts["stored"] < counts["parameters"]
    assert families.multiply_adds(small, (1, 8, 8)) == counts["multiply_adds_kept"] < counts["multiply_adds"]


def test_the_card_shows_what_was_removed(folder):
    text = (folder / "README.md").read_text()
    assert "| size | unpruned | without channels |" in text
    assert "wherever it runs, and usually less time" in text
    assert "scattered" not in text
