"""`prunecast make`: the network it writes is the one it measured, and its card says what is true."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import research_tables
import torch
from click.testing import CliRunner
from made_networks import ASKED, Made, Swept
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch

import prunecast
from prunecast import data, families
from prunecast.catalog import architecture
from prunecast.choice import choose
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.export import make
from prunecast.export.making import multiply_adds
from prunecast.export.orders import _possible
from prunecast.sweep import read_plan
from prunecast.training import evaluate

SCRIPT = Path(sys.executable).with_name("prunecast")
NETWORK = ("model.safetensors", "mask.safetensors", "sparse.safetensors")


def _card(folder: Path) -> dict:
    return json.loads((folder / "card.json").read_text(encoding="utf-8"))


def _error(network: torch.nn.Module) -> float:
    digits = data.load("digits")
    return evaluate(network, digits.test, torch.arange(len(digits.test)), "fp32").error


def test_the_loaded_network_has_the_measured_error(made: Made) -> None:
    card = _card(made.folder)
    network = prunecast.load_network(made.folder)
    assert not network.training
    assert _error(network) == card["measured"]["error"]
    assert card["measured"]["error"] == card["training"]["levels"][-1]["error"]


def test_the_card_says_how_pixels_become_the_input(made: Made) -> None:
    how, test = _card(made.folder)["preprocessing"], data.load("digits").test
    assert isinstance(test, data.MemorySource)
    assert (how["size"], how["shorter_side"], how["value_range"]) == ([8, 8], None, [0, 16])
    assert how["mean"] == pytest.approx([test.mean.item()])


def test_the_sparse_file_alone_is_the_same_network(made: Made, tmp_path: Path) -> None:
    for name in ("card.json", "sparse.safetensors"):
        shutil.copy(made.folder / name, tmp_path)
    whole, sparse = (prunecast.load_network(place).state_dict() for place in (made.folder, tmp_path))
    assert list(whole) == list(sparse)
    assert all(torch.equal(whole[name], sparse[name]) for name in whole)
    masks = prunecast.load_masks(made.folder), prunecast.load_masks(tmp_path)
    assert all(torch.equal(masks[0][name], masks[1][name]) for name in masks[0])


def test_the_density_is_exact_and_zeros_are_zeros(made: Made) -> None:
    card = _card(made.folder)
    state, masks = (load_torch(made.folder / name) for name in NETWORK[:2])
    kept, total = (
        sum(int(mask.sum()) for mask in masks.values()),
        sum(mask.numel() for mask in masks.values()),
    )
    counts = card["counts"]
    assert (kept, total) == (counts["nonzero"], counts["weights"])
    assert kept / total == card["network"]["density"]
    assert all(not bool(state[name][~mask].any()) for name, mask in masks.items())
    assert all(bool(state[name][mask].all()) for name, mask in masks.items())
    everything = sum(weight.numel() for weight in prunecast.load_network(made.folder).parameters())
    assert everything == counts["parameters"]
    assert counts["stored"] == everything - total + kept


def test_the_sparse_file_is_read_with_numpy_alone(made: Made) -> None:
    """As docs/how-to/export.md says it."""
    from safetensors import safe_open

    tensors = load_file(made.folder / "sparse.safetensors")
    with safe_open(made.folder / "sparse.safetensors", framework="numpy") as file:
        shapes = json.loads(file.metadata()["notes"])["shapes"]
    model = load_file(made.folder / "model.safetensors")
    for name, shape in shapes.items():
        weight = np.zeros(int(np.prod(shape)), dtype=np.float32)
        if f"{name}.bits" in tensors:
            places = np.unpackbits(tensors[f"{name}.bits"], count=weight.size).astype(bool)
        else:
            places = tensors[f"{name}.positions"]
        weight[places] = tensors[f"{name}.values"]
        assert np.array_equal(weight.reshape(shape), model[name])


def test_the_card_says_what_the_files_are(made: Made) -> None:
    card, text = _card(made.folder), (made.folder / "README.md").read_text(encoding="utf-8")
    sizes = [(made.folder / name).stat().st_size for name in NETWORK]
    assert [card["disk"][name] for name in ("dense", "mask", "sparse")] == sizes
    low, high = card["predicted"]["interval"]
    measured = card["measured"]
    assert measured["in_interval"] == (low <= measured["error"] <= high)
    assert measured["meets_target"] == (measured["error"] <= 0.3)
    assert card["training"]["recipe"]["epochs"] == 5
    assert card["training"]["replicate"] == 1
    assert card["training"]["seconds"] == pytest.approx(
        sum(level["seconds"] for level in card["training"]["levels"])
    )
    for words in (
        f"measured {measured['error']:.4f}",
        "only in a runtime that skips single zeros",
        f"{sizes[2]:,}",
    ):
        assert words in text
    flat = " ".join(made.output.split())
    assert f"measured {measured['error']:.4f}" in flat
    assert "only in a runtime that skips single zeros" in flat


@pytest.mark.parametrize(
    ("family", "depth", "width"),
    [("digits_cnn", 4, 1.5), ("cifar_resnet", 14, 0.25), ("vgg", 16, 0.125), ("vit_patch4", 2, 0.25)],
)
def test_multiply_adds_are_those_of_the_layers(family: str, depth: int, width: float) -> None:
    member = architecture(family, depth=depth, width=width, num_classes=10)
    model = families.build(
        family, depth=depth, width=width, num_classes=10, generator=torch.Generator().manual_seed(0)
    )
    masks = {
        name: torch.zeros(model.get_parameter(name).shape, dtype=torch.bool)
        for name in families.prunable(model)
    }
    dense, none = multiply_adds(model, masks, member.image_shape)
    attention = sum(layer.multiply_adds for layer in member.layers if layer.kind == "attention")
    assert (dense, none) == (member.multiply_adds, attention)
    full = {name: torch.ones_like(mask) for name, mask in masks.items()}
    assert multiply_adds(model, full, member.image_shape) == (dense, dense)


@pytest.mark.parametrize("density", [1.0, 0.9, 0.41])
def test_a_named_network_is_made_at_any_density(swept: Swept, tmp_path: Path, density: float) -> None:
    asked = ["--depth", "3", "--width", "1", "--density", str(density), "--replicate", "7", "--json"]
    card = json.loads(swept.run(*asked, output=tmp_path / "network").output)
    assert card == _card(tmp_path / "network")
    assert card["counts"]["nonzero"] == round(np.ceil(density * card["counts"]["weights"] - 1e-6))
    assert card["training"]["replicate"] == 7
    assert card["measured"]["meets_target"] is None


def test_nothing_is_trained_twice(swept: Swept, made: Made) -> None:
    before = {
        name: (made.folder / name).read_bytes()
        for name in (*NETWORK, "card.json", "README.md", "model.py", "model.onnx")
    }
    again = swept.run(*ASKED, output=made.folder)
    assert "· level" not in again.output
    assert {name: (made.folder / name).read_bytes() for name in before} == before


@pytest.mark.slow
def test_stopped_and_continued_it_is_the_same_network(swept: Swept, made: Made, tmp_path: Path) -> None:
    """Once killed, once stopped by Ctrl-C, each right after a level; a fast machine may have finished by then."""
    folder = tmp_path / "network"
    line = [SCRIPT, "make", "results.csv", "--plan", "small.toml", "-o", str(folder), *ASKED]
    codes = []
    for end, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            line, cwd=swept.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        next((told for told in process.stdout if "· level" in told), "")
        process.send_signal(end)
        _, errors = process.communicate(timeout=300)
        codes.append(process.returncode)
        assert process.returncode in (code, 0)
        assert (folder / "card.json").exists() == (process.returncode == 0)
        assert ("run the same command to continue" in errors) == (process.returncode == 130)
        assert "Traceback" not in errors
    assert any(codes), "nothing was interrupted"
    levels = len(_levels(folder))
    assert levels > 0
    finished = subprocess.run(line, cwd=swept.folder, capture_output=True, text=True, check=True, timeout=300)
    assert f"· level {levels - 1:2d}" not in finished.stdout
    for name in NETWORK:
        assert (folder / name).read_bytes() == (made.folder / name).read_bytes()
    one, two = _card(made.folder), _card(folder)
    for card in (one, two):
        card["training"].pop("seconds")
        card["training"]["levels"] = [{**level, "seconds": 0} for level in card["training"]["levels"]]
    assert one == two


def _levels(folder: Path) -> list:
    (records,) = (folder / "store" / "chains").glob("*/records.json")
    return json.loads(records.read_text(encoding="utf-8"))["levels"]


MISTAKES = [
    (
        ("family", '"digits_cnn"', '"vgg"'),
        "fitted to networks of the family 'digits_cnn', but the plan other trains .*'vgg'",
    ),
    (("dataset", '"digits"\nrecipe', '"mine"\nloader = "digits"\nrecipe'), "of the dataset 'digits'.*'mine'"),
    (("recipe", '"short"', '"long"'), "of the recipe 'short'.*set name = \"short\""),
    (("num_examples", "= 300", "= 200"), "trained on 300 examples, but the plan other trains on 200"),
]


@pytest.mark.parametrize(
    ("change", "message"), MISTAKES, ids=lambda value: value[0] if len(value) == 3 else ""
)
def test_a_plan_that_disagrees_is_one_sentence(swept: Swept, tmp_path: Path, change, message: str) -> None:
    plan = (swept.folder / "small.toml").read_text(encoding="utf-8")
    assert change[1] in plan
    (tmp_path / "other.toml").write_text(plan.replace(*change[1:]), encoding="utf-8")
    with pytest.raises(PrunecastError, match=message) as caught:
        swept.run(
            "--target-error", "0.3", "--plan", str(tmp_path / "other.toml"), output=tmp_path / "network"
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "network").exists()


REFUSED = [
    (
        ("--target-error", "0.0001"),
        "No network of these sizes reaches 0.0001.*; ask for a larger --target-error",
    ),
    ((), "needs a target error"),
    (("--density", "2"), "at most 1, not 2"),
    (("--depth", "3", "--width", "9", "--density", "0.5"), "no network of depth 3 and width 9 was trained"),
    (("--target-error", "0.3", "--num-examples", "250"), "and you asked for 250"),
    (("--depth", "3", "--width", "1", "--density", "0.002"), "did not reach density 0.002.*ended at level"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_a_mistake_is_one_sentence(swept: Swept, tmp_path: Path, arguments, message: str) -> None:
    with pytest.raises(PrunecastError, match=message) as caught:
        swept.run(*arguments, output=tmp_path / "network")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "network" / "card.json").exists()


def test_a_refusal_names_the_network_beyond_what_was_measured() -> None:
    chosen = choose(research_tables.path("cifar10-resnet20-24ep"), target_error=0.11, confidence=0.5)
    with pytest.raises(PrunecastError, match=r"; ask for a larger --target-error; outside .*--sizes around"):
        _possible(chosen)


def test_a_saved_law_makes_what_its_table_makes(swept: Swept, made: Made, tmp_path: Path) -> None:
    """And from the training runs in another folder's store, nothing is left to train."""
    law = tmp_path / "law.json"
    prunecast.fit(prunecast.read(swept.folder / "results.csv")).save(law)
    line = ["make", str(law), "--plan", str(swept.folder / "small.toml"), "-o", str(tmp_path / "network")]
    line += [*ASKED, "--store", str(made.folder / "store")]
    told = CliRunner().invoke(cli, line, catch_exceptions=False).output
    assert "· level" not in told
    for name in NETWORK:
        assert (tmp_path / "network" / name).read_bytes() == (made.folder / name).read_bytes()
    assert not (tmp_path / "network" / "store").exists()


def test_validation_errors_are_compared_with_validation_errors(swept: Swept, tmp_path: Path) -> None:
    frame = prunecast.read(swept.folder / "results.csv").frame
    frame.assign(validation_error=frame["error"]).to_csv(tmp_path / "table.csv", index=False)
    plan = (swept.folder / "small.toml").read_text(encoding="utf-8")
    asked = {"depth": 3, "width": 1, "density": 0.9}
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    with pytest.raises(
        PrunecastError, match="fitted to validation errors, but the plan plan holds out no examples"
    ):
        make(tmp_path / "table.csv", read_plan(tmp_path / "plan.toml"), tmp_path / "network", **asked)
    held_out = plan.replace("rewind = 1}", "rewind = 1, validation_examples = 100}")
    (tmp_path / "plan.toml").write_text(held_out, encoding="utf-8")
    card = make(tmp_path / "table.csv", read_plan(tmp_path / "plan.toml"), tmp_path / "network", **asked)
    assert card.predicted.metric == "validation_error"
    low, high = card.predicted.interval
    assert card.measured.validation_error is not None
    assert card.measured.validation_error * 100 == pytest.approx(round(card.measured.validation_error * 100))
    assert card.measured.in_interval == (low <= card.measured.validation_error <= high)


def test_a_method_that_prunes_nothing_makes_nothing(swept: Swept, tmp_path: Path) -> None:
    table = (swept.folder / "results.csv").read_text(encoding="utf-8")
    (tmp_path / "table.csv").write_text(table.replace(",imp,", ",none,"), encoding="utf-8")
    plan = (swept.folder / "small.toml").read_text(encoding="utf-8")
    (tmp_path / "plan.toml").write_text(plan + 'method = "none"\n', encoding="utf-8")
    with pytest.raises(PrunecastError, match=r"'none' prunes nothing, so it never reaches density 0.5"):
        make(
            tmp_path / "table.csv",
            read_plan(tmp_path / "plan.toml"),
            tmp_path / "network",
            **{"depth": 3, "width": 1, "density": 0.5},
        )


def test_a_folder_that_is_no_network_is_one_sentence(made: Made, tmp_path: Path) -> None:
    with pytest.raises(PrunecastError, match=r"there is no .*card.json"):
        prunecast.load_network(tmp_path)
    shutil.copy(made.folder / "card.json", tmp_path)
    with pytest.raises(PrunecastError, match=r"holds neither model.safetensors"):
        prunecast.load_network(tmp_path)
    card = _card(made.folder)
    card["training"]["spec"] = "another"
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    shutil.copy(made.folder / "sparse.safetensors", tmp_path)
    with pytest.raises(PrunecastError, match="a different network than the card"):
        prunecast.load_network(tmp_path)
    (tmp_path / "card.json").write_text("{", encoding="utf-8")
    with pytest.raises(PrunecastError, match=r"card\.json cannot be read"):
        prunecast.load_network(tmp_path)
