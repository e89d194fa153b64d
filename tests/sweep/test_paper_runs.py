"""The plans of the paper's eight pairs run end to end at the scale smoke, on small images in the real file formats."""

import paper_images
import pytest

import prunecast.table
from prunecast.catalog import architecture
from prunecast.cli import cli
from prunecast.pruning import kept_at
from prunecast.spec import method, recipe

PAIRS = {
    "cifar10-resnet": lambda folder: paper_images.cifar10(folder, "folder"),
    "cifar10-vgg": lambda folder: paper_images.cifar10(folder, "archive"),
    "cifar10-densenet": lambda folder: paper_images.cifar10(folder, "binary archive"),
    "svhn-resnet": paper_images.svhn,
    "svhn-vgg": paper_images.svhn,
    "svhn-densenet": paper_images.svhn,
    "tinyimagenet-resnet18": paper_images.tinyimagenet,
    "imagenet-resnet50": paper_images.imagenet,
}
RUN = ["--scale", "smoke", "--store", "store", "--jobs", "1", "-o", "table.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_runs_from_its_official_files_to_its_table(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    PAIRS[name](data)
    cli.main(["run", name, "--data", str(data), *RUN], standalone_mode=False)
    table = prunecast.table.read(tmp_path / "table.csv")
    frame = table.frame
    assert (len(frame), frame["width"].nunique(), frame["replicate"].nunique()) == (6, 2, 1)
    assert table.recipe.endswith("-smoke")
    assert table.dataset == name.split("-")[0]
    preset = recipe(table.recipe.removesuffix("-smoke"))
    whole = 4 * frame["num_examples"].iloc[0] // 32
    rewound = round(whole * 10 / preset.epochs)
    for _, row in frame.iterrows():
        assert row["nonzero"] == kept_at(method("imp"), int(row["weights"]), int(row["level"]))
        assert row["steps"] == (whole if row["level"] == 0 else whole - rewound)
        assert row["density"] == pytest.approx(row["nonzero"] / row["weights"])
        assert 0 <= row["error"] <= 1
    deepest = frame.iloc[-1]
    shape = (3, 64, 64) if "imagenet" in name else None
    classes = 3 if "imagenet" in name else 10
    member = architecture(
        table.family,
        depth=int(deepest["depth"]),
        width=deepest["width"],
        num_classes=classes,
        image_shape=shape,
    )
    assert (deepest["weights"], deepest["parameters"]) == (member.weights, member.parameters)
    capsys.readouterr()
    monkeypatch.setenv("PRUNECAST_DATA", str(data))
    cli.main(["run", name, *RUN], standalone_mode=False)
    assert "2 of 2 chains are finished, 6 levels" in capsys.readouterr().out
