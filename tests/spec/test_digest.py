import dataclasses
import json

import pytest

from prunecast import spec
from prunecast.spec import ChainSpec

CHAIN = ChainSpec(
    family="cifar_resnet",
    dataset="cifar10",
    recipe=spec.recipe("cifar10"),
    method=spec.method("imp"),
    depth=20,
    width=1.0,
    num_examples=50_000,
)
OF_NUMBERS = {
    "family": "vgg",
    "dataset": "svhn",
    "depth": 26,
    "width": 0.5,
    "num_examples": 25_000,
    "replicate": 1,
    "threads": 2,
    "loader": "folder",
    "image_size": 64,
    "final_nonzero": 1000,
    "start": "0123456789abcdef0123",
    "recipe": spec.recipe("svhn"),
    "method": spec.method("random"),
}


@pytest.mark.parametrize("field", OF_NUMBERS)
def test_every_field_that_changes_the_numbers_changes_the_digest(field):
    assert dataclasses.replace(CHAIN, **{field: OF_NUMBERS[field]}).digest != CHAIN.digest


OF_RECIPE = {
    "schedule": "own:schedule",
    "final_learning_rate": 0.01,
    "loss": "own:loss",
    "label_smoothing": 0.1,
    "gradient_clip": 1.0,
    "weight_decay_on": "weights",
    "name": "other",
    "epochs": 161,
    "learning_rate": 0.2,
    "batch_size": 64,
    "drops": (80, 121),
    "rewind": 9,
    "warmup": 1,
    "drop_factor": 0.2,
    "optimizer": "adam",
    "momentum": 0.8,
    "second_momentum": 0.99,
    "weight_decay": 0,
    "augmentation": "none",
    "precision": "bf16",
    "steps": 1000,
    "validation_examples": 5000,
    "initial_weights": "own",
    "checkpoint_steps": 10,
}


def test_every_recipe_field_but_name_and_checkpoints_changes_the_digest():
    assert set(OF_RECIPE) == {field.name for field in dataclasses.fields(spec.Recipe)}
    unchanged = set()
    chain = dataclasses.replace(CHAIN, family="my_model:build")
    for name, value in OF_RECIPE.items():
        needs = {"schedule": "own:schedule"} if name == "final_learning_rate" else {}
        recipes = [dataclasses.replace(chain.recipe, **needs, **changes) for changes in ({}, {name: value})]
        if len({dataclasses.replace(chain, recipe=recipe).digest for recipe in recipes}) == 1:
            unchanged.add(name)
    assert unchanged == {"name", "checkpoint_steps"}


def test_spelling_of_a_number_does_not_change_the_digest():
    recipe = dataclasses.replace(CHAIN.recipe, epochs=160.0, drops=(80.0, 120.0))
    assert dataclasses.replace(CHAIN, width=1, recipe=recipe).digest == CHAIN.digest


def test_spec_survives_the_store():
    assert spec.from_dict(json.loads(json.dumps(spec.as_dict(CHAIN)))) == CHAIN


def test_digest_is_for_ever():
    assert spec.canonical(CHAIN) == (
        '{"dataset":"cifar10","depth":20,"family":"cifar_resnet","method":{},"num_examples":50000,"recipe":'
        '{"augmentation":"flip-shift","batch_size":128,"drops":[80,120],"epochs":160,"learning_rate":0.1,'
        '"rewind":10},"version":1,"width":1}'
    )
    assert CHAIN.digest == "17e5769f72a29cccf025"


DIGESTS = {
    "imp": "17e5769f72a29cccf025",
    "imp-layerwise": "b843f27618aacf8a9c78",
    "imp-channels": "ae93bd5757167a3147dd",
    "imp-2:4": "54a838c5a5b503d42062",
    "imp-rate-rewinding": "251a25c597781906ba81",
    "imp-fine-tuning": "9675aa0cec18373d3f65",
    "random": "78df0f1f9c9433409e38",
    "none": "a0b144a1782538c1a462",
    "synflow": "205512b0041daf1aa29a",
}


def test_every_method_keeps_its_digest():
    found = {name: dataclasses.replace(CHAIN, method=method).digest for name, method in spec.METHODS.items()}
    assert found == DIGESTS
