"""From a model file and a folder of images to an ONNX file: four commands, without an edit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from made_networks import classified, code_blocks
from PIL import Image

from prunecast import data
from prunecast.sweep import loader, read_plan

MODEL = """from torch import nn


def net(depth, width, num_classes):
    channels = max(2, round(8 * width))
    layers = [nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, num_classes))
"""
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def prunecast(folder: Path, line: str) -> str:
    call = "from prunecast.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", call, *line.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file, and digits as pictures of 16×16 pixels in one folder per class, without a split."""
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_model.py").write_text(MODEL, encoding="utf-8")
    digits = data.load("digits").train
    assert isinstance(digits, data.MemorySource)
    for number, (image, label) in enumerate(zip(digits.images.numpy(), digits.labels.tolist(), strict=True)):
        path = tmp_path / "photos" / NAMES[label] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        grey = Image.fromarray((15 * image[..., 0]).astype(np.uint8))
        grey.resize((16, 16)).convert("RGB").save(path)
    return tmp_path


@pytest.mark.slow
def test_four_commands_lead_to_an_onnx_file(desk: Path) -> None:
    prunecast(desk, "init my_model:net --data photos --hours 0.01 --jobs 1")
    prunecast(desk, "run plan.toml -o table.csv")
    said = json.loads(prunecast(desk, "choose table.csv --max-parameters 1000 --json"))
    prunecast(desk, "make table.csv --plan plan.toml --max-parameters 1000 -o network")
    card = json.loads((desk / "network" / "card.json").read_text(encoding="utf-8"))
    assert said["stored_parameters"] == card["counts"]["stored"]
    assert card["class_names"] == sorted(NAMES)
    test = loader(read_plan(desk / "plan.toml").chains[0], torch.device("cpu"), {})().test
    assert isinstance(test, data.MemorySource)
    pixels, labels = test.images.numpy(), test.labels.numpy()
    expected = pytest.approx(card["measured"]["error"], abs=1e-4)
    assert np.mean(onnx_labels(desk / "network", pixels) != labels) == expected
    named = classified(code_blocks(desk / "network")[0], pixels)
    assert np.mean(np.array(named) != np.array(card["class_names"])[labels]) == expected


def onnx_labels(network: Path, pixels: np.ndarray) -> np.ndarray:
    """What ONNX Runtime answers, with what the file says about its input."""
    session = onnxruntime.InferenceSession(network / "model.onnx")
    notes = session.get_modelmeta().custom_metadata_map
    mean, std = (np.array(json.loads(notes[name]), np.float32) for name in ("mean", "std"))
    batch = ((pixels - mean) / std).transpose(0, 3, 1, 2)
    (logits,) = session.run(["logits"], {"images": batch})
    return logits.argmax(1)
