"""The layer of the guide that converts pixels for weights that were trained elsewhere."""

import re
from pathlib import Path

import pytest
import torch
from pictures import class_folders
from torch import nn

from prunecast.data import load

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "bring-a-network.md"


def test_pixels_are_those_that_the_weights_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    class_folders(tmp_path / "photos", height=40, width=36)
    (block,) = (
        own
        for own in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
        if "Converted" in own
    )
    shown: dict[str, type[nn.Module]] = {}
    exec(block, shown)
    network = shown["Converted"](nn.Identity())
    source = load("folder", root=tmp_path / "photos", image_size=32).test
    pixels = source.images.float().permute(0, 3, 1, 2)  # type: ignore[attr-defined]
    given = source.batch(torch.arange(len(source)), None)
    torch.testing.assert_close(network(given), pixels / 127.5 - 1, atol=1e-5, rtol=0)
    assert (
        shown["Converted"](nn.Linear(2, 2)).state_dict().keys()
        == nn.Sequential(nn.Linear(2, 2)).state_dict().keys()
    )
