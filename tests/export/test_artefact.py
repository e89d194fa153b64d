"""The files of a made network run without prunecast: model.py, the ONNX file, and the code on the card."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import yaml
from made_networks import ASKED, Made, Swept, error_without_prunecast, isolated
from onnx import numpy_helper
from own_networks import Branching, Encoder, Fixed, Hidden, OneByOne, Reshaping, vit
from torch import nn

import prunecast
from prunecast import data, families
from prunecast.errors import PrunecastError
from prunecast.export.card import Shape
from prunecast.export.files import write_network
from prunecast.export.model_file import write_program
from prunecast.export.onnx import OnnxFile, write_onnx

SHAPE = Shape(
    family="own_networks:Branching",
    depth=1,
    width=1.0,
    num_classes=10,
    image_shape=(1, 8, 8),
    density=1.0,
    level=0,
)


def test_the_code_on_the_card_has_the_measured_error_without_prunecast(made: Made) -> None:
    card = json.loads((made.folder / "card.json").read_text(encoding="utf-8"))
    assert card["code"]["kind"] == "layers"
    assert error_without_prunecast(made.folder) == pytest.approx(card["measured"]["error"], abs=1e-9)
    assert card["measured"]["error_fp32"] == card["measured"]["error"]


def test_onnx_runtime_has_the_measured_error(made: Made) -> None:
    card = json.loads((made.folder / "card.json").read_text(encoding="utf-8"))
    test = data.load("digits").test
    assert isinstance(test, data.MemorySource)
    session = onnxruntime.InferenceSession(made.folder / "model.onnx")
    notes = session.get_modelmeta().custom_metadata_map
    mean, std = (np.array(json.loads(notes[name]), dtype=np.float32) for name in ("mean", "std"))
    batch = ((test.images.numpy() - mean) / std).transpose(0, 3, 1, 2)
    (logits,) = session.run(["logits"], {"images": batch})
    wrong = np.mean(logits.argmax(1) != test.labels.numpy())
    assert wrong == pytest.approx(card["measured"]["error"], abs=1e-4)
    assert json.loads(notes["class_names"]) == card["class_names"]
    assert card["disk"]["onnx"] == (made.folder / "model.onnx").stat().st_size


def test_pruned_weights_are_zero_in_the_onnx_file_which_names_no_path(made: Made) -> None:
    content = (made.folder / "model.onnx").read_bytes()
    assert b".py" not in content
    tensors = {
        one.name: numpy_helper.to_array(one) for one in onnx.load_from_string(content).graph.initializer
    }
    masks = prunecast.load_masks(made.folder)
    found = [name for name in masks if name in tensors]
    assert len(found) > len(masks) / 2
    assert all(not tensors[name][~masks[name].numpy()].any() for name in found)
    weights = sum(int(np.count_nonzero(tensor)) for tensor in tensors.values() if tensor.ndim > 1)
    assert weights == sum(int(mask.sum()) for mask in masks.values())


def test_the_header_is_yaml_with_the_measured_error(made: Made) -> None:
    text = (made.folder / "README.md").read_text(encoding="utf-8")
    _, header, rest = text.split("---\n", maxsplit=2)
    known = yaml.safe_load(header)
    card = json.loads((made.folder / "card.json").read_text(encoding="utf-8"))
    assert known["pipeline_tag"] == "image-classification"
    (model,) = known["model-index"]
    (result,) = model["results"]
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values["error"] == pytest.approx(card["measured"]["error"], abs=1e-6)
    assert rest.lstrip().startswith(f"# {model['name']}\n")


def test_model_py_loads_the_sparse_file_and_refuses_other_weights(made: Made, tmp_path: Path) -> None:
    for name in ("model.py", "sparse.safetensors"):
        shutil.copy(made.folder / name, tmp_path)
    known = runpy.run_path(str(tmp_path / "model.py"))
    state, own = known["load"]().state_dict(), prunecast.load_network(made.folder).state_dict()
    assert all(torch.equal(state[name], own[name]) for name in own)
    text = (tmp_path / "model.py").read_text(encoding="utf-8")
    (tmp_path / "model.py").write_text(text.replace("SPEC = '", "SPEC = 'f"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"belongs to a different network than model\.py"):
        runpy.run_path(str(tmp_path / "model.py"))["load"]()


def test_without_the_extra_one_line_says_how_to_get_an_onnx_file(swept: Swept, tmp_path: Path) -> None:
    asked = ["--depth", "3", "--width", "1", "--density", "1"]
    flat = " ".join(swept.run(*asked, output=tmp_path / "network").output.split())
    assert "For an ONNX file, pip install 'prunecast[onnx]' and run the same command" in flat
    assert not (tmp_path / "network" / "model.onnx").exists()


@pytest.mark.parametrize("name", ["model.py", "README.md"])
def test_a_file_of_your_own_is_not_replaced(swept: Swept, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine\n", encoding="utf-8")
    with pytest.raises(PrunecastError, match=f"{name} was not written by prunecast make.* choose another -o"):
        swept.run(*ASKED, output=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


NETWORKS = {
    "vit": (vit(2, 1, 10), "layers", False),
    "encoder": (Encoder(), "layers", False),
    "fixed": (Fixed(), "operators", False),
    "one by one": (OneByOne(), "operators", True),
    "hidden": (Hidden(), "operators", False),
    "reshaping": (Reshaping(), "layers", False),
    "branching": (Branching(1, 10, (1, 8, 8)), "source", False),
    "built-in": (
        families.build(
            "vit_patch2",
            depth=1,
            width=0.5,
            num_classes=10,
            generator=torch.Generator().manual_seed(0),
            image_shape=(1, 8, 8),
        ),
        "layers",
        False,
    ),
    "layers": (nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 10)), "layers", False),
}
"""By name: a network, how it is written, and whether for one image at a time."""
LOGITS = """
import json, runpy, sys, torch

batch = torch.tensor({batch})
folders = {folders}
for folder in folders:
    network = runpy.run_path(folder + "/model.py")["load"]()
    with torch.no_grad():
        print(json.dumps(network(batch).tolist()))
"""


def test_a_network_of_layers_can_be_trained_further(made: Made) -> None:
    network = runpy.run_path(str(made.folder / "model.py"))["load"]().train()
    network(torch.randn(4, 1, 8, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.usefixtures("with_onnx")
@pytest.mark.parametrize("model", [Fixed(), OneByOne()], ids=["fixed", "one by one"])
def test_the_onnx_file_takes_batches_where_the_code_can_be_read(model: nn.Module, tmp_path: Path) -> None:
    one = isinstance(model, OneByOne)
    found = write_onnx(tmp_path, model.eval(), SHAPE.image_shape, None, (), "abc")
    assert found == OnnxFile(image_by_image=one)
    batch = torch.randn(1 if one else 7, *SHAPE.image_shape)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (logits,) = session.run(["logits"], {"images": batch.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(logits, model(batch).numpy(), atol=1e-4)


def test_any_network_runs_from_its_files_alone(tmp_path: Path) -> None:
    batch = torch.randn(7, 1, 8, 8)
    for name, (model, kind, image_by_image) in NETWORKS.items():
        (tmp_path / name).mkdir()
        write_network(tmp_path / name, model.state_dict(), {}, "abc")
        written = write_program(tmp_path / name, model, SHAPE, None, tuple("0123456789"), "abc")
        assert (written.kind, written.image_by_image) == (kind, image_by_image)
    folders = [str(tmp_path / name) for name in NETWORKS]
    printed = isolated(LOGITS.format(batch=batch.tolist(), folders=folders), ("prunecast", "own_networks"))
    for (model, *_), logits in zip(NETWORKS.values(), printed.splitlines(), strict=True):
        with torch.no_grad():
            assert torch.allclose(torch.tensor(json.loads(logits)), model(batch), rtol=0, atol=1e-4)
    (tmp_path / "built-in" / "constants.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        runpy.run_path(str(tmp_path / "built-in" / "model.py"))["load"]()
    copied = (tmp_path / "branching" / "family_source.py").read_bytes()
    assert copied.endswith(Path(sys.modules["own_networks"].__file__ or "").read_bytes())
