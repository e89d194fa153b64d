"""Which tensors are prunable: all that multiply activations; a chain in a store keeps those it began with."""

import dataclasses
import json
from functools import partial

import pytest
import torch
from own_networks import vit
from tiny import chain, run
from torch import nn

from prunecast import families
from prunecast.catalog import FAMILIES
from prunecast.export.making import multiply_adds
from prunecast.families import NotPrunable, not_prunable, prunable
from prunecast.pruning import chain_folder
from prunecast.pruning.files import write_json

VIT = chain(family="own_networks:vit", depth=1, width=1)
IN, OUT = "blocks.0.self_attn.in_proj_weight", "blocks.0.self_attn.out_proj.weight"


def test_attention_is_prunable_and_embeddings_are_not():
    model = vit(1, 1, 10)
    names = prunable(model)
    assert names == (
        *("patches.weight", IN, OUT, "blocks.0.linear1.weight", "blocks.0.linear2.weight", "head.weight"),
    )
    assert not_prunable(model, names) == (NotPrunable(name="positions", parameters=16 * 8),)
    assert prunable(model, earlier=True) == tuple(name for name in names if name != IN)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.MultiheadAttention(4, 1), ["in_proj_weight", "out_proj.weight"]),
        (
            nn.MultiheadAttention(4, 1, kdim=3, vdim=2, add_bias_kv=True),
            ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"],
        ),
        (nn.Bilinear(2, 3, 4), ["weight"]),
        (nn.Sequential(nn.Embedding(4, 2), nn.LayerNorm(2), nn.ConvTranspose2d(1, 1, 2)), ["2.weight"]),
    ],
)
def test_every_projection_of_torch_modules(module, expected):
    assert list(prunable(module)) == expected


def test_a_family_may_say_otherwise():
    model = vit(1, 1, 10)
    model.prunable_weights = ("head.weight",)
    assert prunable(model) == prunable(model, earlier=True) == ("head.weight",)


class LayerNorm2d(nn.Module):
    """A norm of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


class Vectors(nn.Module):
    """Vectors of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, 4))
        self.scale = nn.Parameter(torch.ones(4))
        self.scores_bias = nn.Parameter(torch.zeros(4))
        self.act, self.norm, self.own = nn.PReLU(4), nn.RMSNorm(4), LayerNorm2d()
        self.attention, self.head = nn.MultiheadAttention(4, 1, add_bias_kv=True), nn.Linear(4, 3)


def test_vectors_that_are_neither_biases_nor_norms_are_listed():
    model = Vectors()
    listed = [tensor.name for tensor in not_prunable(model, prunable(model))]
    assert listed == ["class_token", "scale", "act.weight"]


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_changed_for_built_in_families(family):
    depth = FAMILIES[family].depths[0]
    model = families.build(family, depth=depth, width=0.125, num_classes=10, generator=torch.Generator())
    assert prunable(model) == prunable(model, earlier=True)
    assert not_prunable(model, prunable(model)) == ()


def test_multiply_adds_of_attention_are_counted():
    model, tokens, size = vit(2, 1, 10), 16, 8
    weights = tokens * (4 * size + 2 * (3 * size**2 + size**2 + 2 * 2 * size**2)) + 10 * size
    products = 2 * 2 * tokens**2 * size
    assert multiply_adds(model, {}, (1, 8, 8)) == (weights + products, weights + products)
    mask = torch.zeros(3 * size, size, dtype=torch.bool)
    mask[0, :3] = True
    kept = multiply_adds(model, {IN: mask}, (1, 8, 8))[1]
    assert kept == weights + products - tokens * (3 * size**2 - 3)


def test_multiply_adds_of_attention_between_two_sequences():
    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = nn.MultiheadAttention(4, 1, kdim=3, vdim=3, batch_first=True)

        def forward(self, image):
            query, other = torch.zeros(len(image), 2, 4), torch.zeros(len(image), 5, 3)
            return self.attend(query, key=other, value=other)[0]

    weights = 2 * 16 + 5 * 12 + 5 * 12 + 2 * 16
    assert multiply_adds(Cross(), {}, (1, 8, 8))[0] == weights + 2 * 2 * 5 * 4


def test_a_new_chain_prunes_attention_and_lists_what_it_never_prunes(tmp_path):
    records = run(tmp_path, VIT, cap=2)
    masks = chain_folder(tmp_path, VIT).masks(2)
    assert IN in masks
    assert not bool(masks[IN].all())
    assert records[0].not_prunable == (NotPrunable(name="positions", parameters=128),)
    assert chain_folder(tmp_path, VIT).records() == records
    assert records[0].weights == sum(mask.numel() for mask in masks.values())


@pytest.mark.parametrize("done", [0, 1])
def test_a_chain_of_an_earlier_version_keeps_its_tensors(tmp_path, monkeypatch, done):
    """It was begun by a prunecast that did not write down what it prunes."""
    with monkeypatch.context() as then:
        then.setattr(families, "prunable", partial(prunable, earlier=True))
        expected = run(tmp_path / "unbroken", VIT, cap=3)
        run(tmp_path / "continued", VIT, cap=done)
    for store in (tmp_path / "unbroken", tmp_path / "continued"):
        path = chain_folder(store, VIT).path / "spec.json"
        body = json.loads(path.read_text())
        del body["prunable"], body["sha256"]
        write_json(path, body)
    records = run(tmp_path / "continued", VIT, cap=3)
    assert IN not in chain_folder(tmp_path / "continued", VIT).masks(3)
    assert [dataclasses.replace(record, seconds=0) for record in records] == [
        dataclasses.replace(record, seconds=0) for record in expected
    ]


def test_a_chain_goes_on_with_the_tensors_it_names(tmp_path, monkeypatch):
    with monkeypatch.context() as then:
        then.setattr(families, "prunable", lambda model: ("head.weight", "patches.weight"))
        run(tmp_path, VIT, cap=1)
    run(tmp_path, VIT, cap=2)
    assert set(chain_folder(tmp_path, VIT).masks(3)) == {"head.weight", "patches.weight"}
