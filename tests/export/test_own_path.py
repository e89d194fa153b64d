"""From a model file and a folder of images without a split to an ONNX file: three commands, and no edits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from made_networks import classified, code_blocks
from PIL import Image

from prunecast.data import load

MODEL = """
from torch import nn


def build(depth, width, num_classes, image_shape):
    hidden, inputs, layers = max(2, round(24 * width)), image_shape[0] * image_shape[1] * image_shape[2], [nn.Flatten()]
    for _ in range(depth - 1):
        layers += [nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.05)]
        inputs = hidden
    return nn.Sequential(*layers, nn.Linear(inputs, num_classes))
"""
COMMANDS = (
    "init my_model:build --data photos --hours 0.02 --jobs 2",
    "run plan.toml -o table.csv",
    "make table.csv --plan plan.toml --target-error 0.4 --density 0.4 -o network",
)


def write_photos(folder: Path, per_class: int) -> None:
    """Digits as image files, one folder per class."""
    digits = load("digits").test
    for number in range(10):
        place = folder / f"digit {number}"
        place.mkdir(parents=True)
        for index in np.flatnonzero(digits.labels.numpy() == number)[:per_class]:
            pixels = digits.images.numpy()[index, :, :, 0] * 15  # type: ignore[attr-defined]
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{index}.png")


@pytest.mark.slow
def test_from_a_model_and_photos_to_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    (tmp_path / "my_model.py").write_text(MODEL)
    write_photos(tmp_path / "photos", 40)
    for command in COMMANDS:
        line = [sys.executable, "-c", "from prunecast.cli import main; main()", *command.split()]
        done = subprocess.run(
            line,
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    card = json.loads((tmp_path / "network" / "card.json").read_text(encoding="utf-8"))
    assert card["training"]["split"] == {"test_share": 0.2, "seed": 0}
    session = onnxruntime.InferenceSession(tmp_path / "network" / "model.onnx")
    notes = session.get_modelmeta().custom_metadata_map
    mean, std = (np.array(json.loads(notes[name]), dtype=np.float32) for name in ("mean", "std"))
    names = json.loads(notes["class_names"])
    assert names == [f"digit {number}" for number in range(10)]
    test = load("folder", root=tmp_path / "photos").test
    images = test.images.numpy()  # type: ignore[attr-defined]
    (logits,) = session.run(["logits"], {"images": ((images - mean) / std).transpose(0, 3, 1, 2)})
    wrong = np.mean(logits.argmax(1) != test.labels.numpy())
    assert wrong == pytest.approx(card["measured"]["error"], abs=1e-4)
    assert wrong < 0.5
    named = classified(code_blocks(tmp_path / "network")[0], images)
    assert np.mean(np.array(named) != np.array(names)[test.labels]) == wrong
