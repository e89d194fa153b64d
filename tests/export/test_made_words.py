"""The card in words, against golden files: every number in it comes from the value."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from prunecast.choice import Question
from prunecast.choice.findings import UnprunedErrorPredicted
from prunecast.cli.make import card_text
from prunecast.data import Preprocessing, Split
from prunecast.export import card_text as words
from prunecast.export.card import (
    Card,
    Code,
    Counts,
    Disk,
    Measured,
    Predicted,
    Shape,
    Start,
    Training,
    write_card,
)
from prunecast.metric import Metric
from prunecast.spec import Recipe

GOLDEN = Path(__file__).parent / "golden"
CARD = Card(
    network=Shape(
        family="cifar_resnet",
        depth=20,
        width=0.703125,
        num_classes=10,
        image_shape=(3, 32, 32),
        density=0.037,
        level=15,
    ),
    preprocessing=Preprocessing(
        size=(32, 32), shorter_side=None, mean=(125.3, 123.0, 113.9), std=(63.0, 62.1, 66.7)
    ),
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    question=Question(
        target_error=0.2,
        max_parameters=None,
        max_training=None,
        minimise="stored",
        confidence=0.5,
        num_examples=50_000,
        sizes="around",
    ),
    predicted=Predicted(
        law="eq2",
        table="results",
        metric=Metric.ERROR,
        value=0.2,
        interval=(0.1734, 0.2307),
        probability=0.5,
        source="law",
        findings=(UnprunedErrorPredicted(unpruned_error=0.13, deviation=0.04),),
    ),
    measured=Measured(
        error=0.1987,
        error_fp32=0.1987,
        loss=0.61,
        validation_error=None,
        train_error=0.11,
        chance_error=0.9,
        in_interval=True,
        meets_target=True,
    ),
    counts=Counts(
        parameters=133_000,
        weights=132_000,
        nonzero=4_884,
        stored=5_884,
        not_prunable=(),
        dead_layers=(),
        connected=4_800,
        multiply_adds=20_000_000,
        multiply_adds_kept=900_000,
    ),
    disk=Disk(dense=540_000, mask=135_000, sparse=41_000, onnx=None),
    code=Code(
        kind="layers",
        image_by_image=False,
        problem="",
        copied=False,
        onnx_image_by_image=False,
        onnx_missing="onnx",
        onnx_problem="",
    ),
    training=Training(
        dataset="cifar10",
        data="0123456789abcdef",
        num_examples=50_000,
        recipe={"name": "cifar10", "epochs": 160, "warmup": 0.0},
        method={"name": "imp", "score": "magnitude", "fraction": 0.2},
        replicate=3,
        levels=({"level": 0, "density": 1.0, "error": 0.13, "seconds": 100.0},),
        seconds=100.0,
        device="NVIDIA H200",
        code="0.1.0+abc",
        environment={"torch": "2.11"},
        spec="feedfacefeedfacefeed",
    ),
)


def test_the_card_is_the_golden_one() -> None:
    assert words.text(CARD) == (GOLDEN / "README.md").read_text(encoding="utf-8")


def test_the_card_runs_an_onnx_file_of_one_image_image_by_image() -> None:
    code = replace(CARD.code, onnx_image_by_image=True, onnx_missing="")
    said = words.text(replace(CARD, code=code, disk=replace(CARD.disk, onnx=600_000)))
    assert 'logits = [session.run(["logits"], {"images": image[None]})[0][0] for image in images]' in said


def test_the_card_says_what_was_split_and_where_training_started() -> None:
    how = replace(
        CARD.training,
        recipe=dataclasses.asdict(Recipe(name="mine", epochs=5, learning_rate=0.1, batch_size=8)),
        split=Split(test_share=0.25, seed=3),
        start=Start(file="resnet.pt", digest="0123456789abcdef", as_it_is=True),
    )
    said = words.text(replace(CARD, training=how))
    assert (
        "| test images | 25% of every class, chosen by file name and split_seed 3; never trained on |" in said
    )
    assert "| start | resnet.pt (digest 0123456789ab); level 0 is its network as it is |" in said
    assert "momentum 0.9, weight_decay 0.0001" in said
    assert "drop_factor" not in said
    assert "checkpoint_steps" not in said
    body = replace(CARD, training=how).as_json()["training"]
    assert body["split"] == {"test_share": 0.25, "seed": 3}
    assert body["start"]["as_it_is"] is True
    assert "split" not in CARD.as_json()["training"]


def test_the_card_says_how_pillow_prepares_a_photo() -> None:
    how = CARD.preprocessing
    assert how is not None
    call = 'ImageOps.fit(image.convert("RGB"), (32, 32), Image.Resampling.BILINEAR)'
    assert f"as Pillow's `{call}` does" in words.text(
        replace(CARD, preprocessing=replace(how, shorter_side=32))
    )
    cropped = words.text(replace(CARD, preprocessing=replace(how, shorter_side=36)))
    assert "scale the shorter side of an image to 36 pixels" in cropped
    assert "ImageOps" not in cropped


def test_what_is_printed_is_the_golden_text() -> None:
    assert card_text(CARD, Path("network")) + "\n" == (GOLDEN / "made.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("measured", "metric", "said"),
    [
        (
            {"in_interval": False, "meets_target": False},
            "error",
            "outside the interval. It misses the target of 0.2",
        ),
        ({"meets_target": None}, "error", "measured 0.1987, inside the interval."),
        ({"validation_error": 0.21}, "validation_error", "Predicted validation error 0.200"),
        ({"validation_error": 0.21}, "validation_error", "measured 0.2100"),
        (
            {},
            "loss",
            "Predicted test loss 0.200, 95% of new training runs in 0.173 to 0.231; measured 0.6100",
        ),
    ],
)
def test_the_verdict_compares_what_was_predicted(measured: dict, metric: str, said: str) -> None:
    card = replace(
        CARD,
        measured=replace(CARD.measured, **measured),
        predicted=replace(CARD.predicted, metric=Metric(metric)),
    )
    assert said in words.verdict(card)


def test_the_card_for_programs_has_it_all(tmp_path: Path) -> None:
    write_card(tmp_path, CARD, words.text(CARD))
    body = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    assert body == json.loads(json.dumps(CARD.as_json()))
    assert {"network", "question", "predicted", "measured", "counts", "disk", "training"} <= set(body)


def test_layers_without_weights_are_named() -> None:
    card = replace(CARD, counts=replace(CARD.counts, dead_layers=("block3.conv.weight", "fc.weight")))
    said = "2 layers have no weight left: block3.conv.weight, fc.weight."
    assert said in words.text(card)
    assert said in " ".join(card_text(card, Path("network")).split())
    assert card.as_json()["counts"]["dead_layers"] == ("block3.conv.weight", "fc.weight")
