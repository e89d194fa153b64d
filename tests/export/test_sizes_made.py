"""Networks as users bring them, with weights of their own, from a sweep to files.

The sizes that `choose` names are those that `make` writes, and ONNX Runtime has the error of the card.
"""

import json
import runpy
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from prunecast.cli import cli
from prunecast.data import load

PLAN = """# Two widths, in seconds.
family = "{family}"
dataset = "digits"
recipe = {{preset = "digits", name = "brief", epochs = 5, drops = [4], rewind = 1, initial_weights = "own"{how}}}
num_examples = 300
level_cap = 15
depth = {depth}
width = [1, 1.5]
[stop]
at_chance = 0
disconnected = false
"""
FAMILIES = {
    "mlp": ("common_networks:mlp", 2, "layers"),
    "mobilenet": ("common_networks:mobilenet", 1, "layers"),
    "unet": ("common_networks:unet", 1, "layers"),
    "resnet": ("common_networks:resnet", 1, "layers"),
    "vit": ("own_networks:vit", 1, "layers"),
}
"""By name: family, depth, and how model.py has it."""
TRANSFORMER = ', optimizer = "adamw", learning_rate = 0.01, weight_decay = 0.01'
ASKED = {
    "a density between two levels": ("--depth", "{depth}", "--width", "1.5", "--density", "0.37"),
    "a target": ("--target-error", "{target}", "--sizes", "measured", "--confidence", "0.5"),
}


def call(*line: str) -> str:
    done = CliRunner().invoke(cli, list(line), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def answered(folder: Path, asked: list[str]) -> dict:
    """What `choose` and `make` say about one question."""
    table = str(folder / "results.csv")
    said = json.loads(call("choose", table, *asked, "--json"))
    plan, network = str(folder / "plan.toml"), folder / asked[0].strip("-")
    card = json.loads(call("make", table, "--plan", plan, *asked, "-o", str(network), "--json"))
    assert said["stored_parameters"] == card["counts"]["stored"]
    assert said["nonzero_parameters"] == card["counts"]["nonzero"]
    assert said["density"] == pytest.approx(card["network"]["density"], abs=1e-12)
    _same_in_the_files(network, card)
    _same_in_onnx(network, card)
    return card


def _same_in_the_files(network: Path, card: dict) -> None:
    """The counts are those of what lies on the disk."""
    masks, state = load_file(network / "mask.safetensors"), load_file(network / "model.safetensors")
    module = runpy.run_path(str(network / "model.py"))["load"]()
    parameters = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    assert sum(weight.size for weight in parameters.values()) == card["counts"]["parameters"]
    assert all(np.array_equal(weight, state[name]) for name, weight in parameters.items())
    kept = sum(
        int(masks[name].sum()) if name in masks else weight.size for name, weight in parameters.items()
    )
    assert kept == card["counts"]["stored"]
    assert all(not parameters[name][~mask].any() for name, mask in masks.items())


def _same_in_onnx(network: Path, card: dict) -> None:
    """ONNX Runtime classifies as the card says."""
    test, session = load("digits").test, onnxruntime.InferenceSession(network / "model.onnx")
    notes = session.get_modelmeta().custom_metadata_map
    mean, std = (np.array(json.loads(notes[name]), dtype=np.float32) for name in ("mean", "std"))
    images = ((test.images.numpy() - mean) / std).transpose(0, 3, 1, 2)  # type: ignore[attr-defined]
    (logits,) = session.run(["logits"], {"images": images})
    wrong = np.mean(logits.argmax(1) != test.labels.numpy())
    assert wrong == pytest.approx(card["measured"]["error"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_sizes_chosen_are_the_sizes_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # these networks have an ONNX file
    family, depth, kind = FAMILIES[name]
    (tmp_path / "plan.toml").write_text(
        PLAN.format(family=family, depth=depth, how=TRANSFORMER if name == "vit" else ""), encoding="utf-8"
    )
    table, store = str(tmp_path / "results.csv"), str(tmp_path / "store")
    call("run", str(tmp_path / "plan.toml"), "--store", store, "--jobs", "1", "-o", table)
    best = min(float(line.split(",")[10]) for line in Path(table).read_text().splitlines()[1:])
    for question in ASKED.values():
        asked = [word.format(depth=depth, target=round(min(0.8, 1.5 * best), 3)) for word in question]
        assert answered(tmp_path, asked)["code"]["kind"] == kind
