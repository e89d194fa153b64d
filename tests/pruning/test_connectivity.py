import copy
import gc
import itertools
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional

from prunecast import families
from prunecast.pruning.connectivity import connectivity
from prunecast.pruning.masks import count_kept, count_total, full_masks
from prunecast.spec import MODULE_CALLS


def masks_of(model):
    return full_masks({name: model.get_parameter(name) for name in families.prunable(model)})


def built(family, depth, width):
    return families.build(
        family, depth=depth, width=width, num_classes=10, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(
    ("family", "depth", "width", "shape"),
    [
        ("digits_cnn", 5, 1.0, (1, 8, 8)),
        ("cifar_resnet", 8, 0.5, (3, 32, 32)),
        ("vgg", 16, 0.0625, (3, 32, 32)),
        ("densenet", 121, 0.125, (3, 32, 32)),
        ("tinyimagenet_resnet", 18, 0.0625, (3, 64, 64)),
        ("imagenet_resnet", 50, 0.0625, (3, 64, 64)),
    ],
)
def test_full_networks_are_wholly_alive_and_empty_ones_dead(family, depth, width, shape):
    model = built(family, depth, width)
    masks = masks_of(model)
    full = connectivity(model, masks, shape)
    assert (full.connected, full.alive, full.note) == (True, count_total(masks), "")
    empty = connectivity(model, {name: torch.zeros_like(mask) for name, mask in masks.items()}, shape)
    assert (empty.connected, empty.alive) == (False, 0)


def test_a_cut_layer_disconnects_a_plain_network():
    model = built("digits_cnn", 4, 1.0)
    for name in families.prunable(model):
        masks = masks_of(model)
        masks[name][:] = False
        assert connectivity(model, masks, (1, 8, 8)).connected is False


def test_one_path_of_one_weight_a_layer_is_found():
    model = built("digits_cnn", 4, 1.0)
    masks = {name: torch.zeros_like(mask) for name, mask in masks_of(model).items()}
    masks["conv1.weight"][3, 0, 1, 1] = True
    masks["conv2.weight"][5, 3, 0, 2] = True
    masks["conv3.weight"][2, 5, 1, 1] = True
    masks["head.weight"][7, 2] = True
    masks["conv2.weight"][6, 4] = True  # nothing enters channel 4
    masks["conv3.weight"][1, 5] = True  # nothing leaves channel 1
    found = connectivity(model, masks, (1, 8, 8))
    assert (found.connected, found.alive) == (True, 4)
    masks["conv3.weight"][2] = False
    assert connectivity(model, masks, (1, 8, 8)).connected is False


def test_identity_shortcuts_are_paths_and_projections_are_not_by_themselves():
    model = built("cifar_resnet", 8, 0.5)
    masks = {name: torch.zeros_like(mask) for name, mask in masks_of(model).items()}
    names = list(masks)
    masks[names[0]][:] = True
    shortcuts = [name for name in names if masks[name].dim() == 4 and masks[name].shape[2] == 1]
    assert len(shortcuts) == 2
    for name in (*shortcuts, names[-1]):
        masks[name][:] = True
    found = connectivity(model, masks, (3, 32, 32))
    assert (found.connected, found.alive) == (True, count_kept(masks))
    masks[shortcuts[0]][:] = False
    assert connectivity(model, masks, (3, 32, 32)).connected is False


def brute_force(masks):
    """Count weights on a path of a fully connected network by trying every path."""
    sizes = [masks[0].shape[1], *(mask.shape[0] for mask in masks)]
    used = [torch.zeros_like(mask) for mask in masks]
    for path in itertools.product(*(range(size) for size in sizes)):
        steps = [(path[i + 1], path[i]) for i in range(len(masks))]
        if all(mask[place] for mask, place in zip(masks, steps, strict=True)):
            for mask, place in zip(used, steps, strict=True):
                mask[place] = True
    return sum(int(mask.sum()) for mask in used)


@pytest.mark.parametrize("number", range(20))
def test_living_weights_are_those_on_some_path(number):
    generator = torch.Generator().manual_seed(number)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(4, 5),
        nn.ReLU(),
        nn.Linear(5, 4),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.Linear(4, 3),
    )
    masks = {
        name: torch.rand(mask.shape, generator=generator) < 0.35 for name, mask in masks_of(model).items()
    }
    expected = brute_force(list(masks.values()))
    found = connectivity(model, masks, (1, 2, 2))
    assert (found.alive, found.connected) == (expected, expected > 0)


def test_a_batch_norm_bias_is_not_a_path():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    nn.init.ones_(model[1].bias)
    masks = masks_of(model)
    masks["0.weight"][:] = False
    assert connectivity(model, masks, (1, 2, 2)).connected is False
    assert not torch.equal(model.eval()(torch.zeros(1, 1, 2, 2)), torch.zeros(1, 2))


def test_taps_that_only_see_padding_are_dead():
    model = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Flatten(), nn.Linear(1, 2))
    assert connectivity(model, masks_of(model), (1, 1, 1)).alive == 1 + 2


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gate, self.head = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return self.head((self.conv(x) * self.gate(x)).mean((2, 3)))


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x.flatten(1)) if x.sum() > 0 else self.head(-x.flatten(1))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 1), nn.Linear(6 * 4, 2)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.a(x)), 2)
        x = functional.avg_pool2d(torch.cat([x, self.b(x) + x], 1), 2, stride=2)
        return self.head(functional.dropout(x, 0.1).view(x.size(0), -1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Gate(), "function 'mul' is not understood"),
        (Branching(), "the model (Branching, test_connectivity.py, line"),
        (
            nn.Sequential(nn.Flatten(), nn.Softmax(1), nn.Linear(4, 2)),
            "module '1' (Softmax) is not understood, so it",
        ),
    ],
    ids=["product", "branch", "softmax"],
)
def test_what_is_not_understood_is_named(model, words):
    found = connectivity(model, masks_of(model), (1, 2, 2) if not isinstance(model, Gate) else (1, 8, 8))
    assert found.connected is None
    assert found.alive is None
    assert words in found.note


class Upwards(nn.Module):
    """Down and up again with group norms and a concatenation, as in a U-Net."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU())
        self.middle = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.GroupNorm(3, 6), nn.SiLU())
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.join = nn.Sequential(
            nn.Conv2d(14, 4, 3, padding=1), nn.Upsample(scale_factor=2, mode="bilinear")
        )
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        fine = self.down(x)
        coarse = self.middle(functional.max_pool2d(fine, 2))
        joined = torch.cat([fine, self.up(coarse), functional.interpolate(coarse, scale_factor=2)], 1)
        return self.head(self.norm(self.join(joined).mean((2, 3))))


def moved(model, masks, name, place):
    """Whether the logits depend on a kept weight, with random weights and without biases, which make constants."""
    twin = copy.deepcopy(model).double().eval()
    with torch.no_grad():
        for own in twin.modules():
            if getattr(own, "bias", None) is not None:
                nn.init.zeros_(own.bias)
        for own, mask in masks.items():
            twin.get_parameter(own).normal_().mul_(mask)
        image = torch.randn(2, 1, 8, 8, dtype=torch.float64)
        before = twin(image)
        twin.get_parameter(name)[place] *= 1.5
        after = twin(image)
    # A change that is the same for both images is that of a constant.
    return not torch.allclose(before[0] - after[0], before[1] - after[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("number", range(6))
def test_what_group_norms_and_upsampling_let_through_moves_the_logits(number):
    generator = torch.Generator().manual_seed(number)
    model = Upwards()
    full = masks_of(model)
    assert connectivity(model, full, (1, 8, 8)).alive == count_total(full)
    masks = {name: torch.rand(mask.shape, generator=generator) < 0.15 for name, mask in full.items()}
    found = connectivity(model, masks, (1, 8, 8))
    torch.manual_seed(number)
    moving = sum(
        moved(model, masks, name, tuple(place)) for name, mask in masks.items() for place in mask.nonzero()
    )
    assert found.note == ""
    assert found.connected == (moving > 0)
    assert found.alive == moving


def test_a_model_that_is_not_understood_is_let_go_of():
    model = Branching()
    seen = weakref.ref(model)
    for _ in range(2):
        connectivity(model, masks_of(model), (1, 2, 2))
    del model
    gc.collect()
    assert seen() is None


def test_functions_are_understood_like_modules():
    model = Functional()
    masks = masks_of(model)
    assert connectivity(model, masks, (1, 8, 8)).alive == count_total(masks)
    masks["b.weight"][:] = False
    found = connectivity(model, masks, (1, 8, 8))
    assert (found.connected, found.alive) == (True, count_kept(masks))


def test_tracing_waits_for_module_calls_but_counting_calls_no_module():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))
    masks = masks_of(model)
    found = []
    thread = threading.Thread(target=lambda: found.append(connectivity(model, masks, (1, 8, 8))))
    with MODULE_CALLS:
        thread.start()
        thread.join(0.2)
        assert not found
    thread.join()
    counting = threading.Thread(target=lambda: found.append(connectivity(model, masks, (1, 8, 8))))
    with MODULE_CALLS:
        counting.start()
        counting.join(60)
    assert [own.alive for own in found] == [count_total(masks)] * 2


def test_counting_calls_no_module(monkeypatch):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3))
    masks = masks_of(model)
    before = connectivity(model, masks, (1, 8, 8))
    monkeypatch.setattr(nn.Module, "__call__", lambda *_: pytest.fail("a module was called"))
    assert connectivity(model, masks, (1, 8, 8)) == before
