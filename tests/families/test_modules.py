import copy
import math

import pytest
import torch
from torch import fx, nn

from prunecast.catalog import architecture
from prunecast.families import build, multiply_adds, not_prunable, prunable

torch.set_num_threads(1)
MEMBERS = [
    ("cifar_resnet", 8, 1, 10),
    ("cifar_resnet", 20, 0.25, 10),
    ("cifar_resnet", 14, 1 / 16, 100),
    ("vgg", 16, 0.25, 10),
    ("vgg", 11, 1 / 16, 10),
    ("densenet", 121, 0.25, 10),
    ("densenet", 121, 1 / 16, 10),
    ("imagenet_resnet", 50, 0.125, 1000),
    ("imagenet_resnet", 18, 1 / 16, 10),
    ("tinyimagenet_resnet", 18, 0.25, 200),
    ("tinyimagenet_resnet", 50, 1 / 64, 200),
    ("digits_cnn", 3, 1, 10),
    ("digits_cnn", 9, 0.5, 10),
]


def made(family, depth, width, classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return build(family, depth=depth, width=width, num_classes=classes, generator=generator)


def measured_multiply_adds(model, images):
    """Count from what the modules really do: output elements × inputs that meet in each."""
    counted = []

    def count(module, _, output):
        per_output = module.weight[0].numel()
        counted.append(output[0].numel() * per_output)

    hooks = [
        module.register_forward_hook(count)
        for module in model.modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    ]
    model.eval()(images)
    for hook in hooks:
        hook.remove()
    return sum(counted)


@pytest.mark.parametrize(("family", "depth", "width", "classes"), MEMBERS)
def test_modules_agree_with_the_layer_list(family, depth, width, classes):
    drawn = architecture(family, depth=depth, width=width, num_classes=classes)
    model = made(family, depth, width, classes)
    weights = {name: model.get_parameter(name) for name in prunable(model)}
    assert sum(p.numel() for p in model.parameters()) == drawn.parameters
    assert sum(p.numel() for p in weights.values()) == drawn.weights
    assert [tuple(p.shape) for p in weights.values()] == [
        layer.weight_shape for layer in drawn.layers if layer.weights
    ]
    images = torch.randn(1, *drawn.image_shape)
    assert measured_multiply_adds(model, images) == drawn.multiply_adds
    assert model(images).shape == (1, classes)


@pytest.mark.parametrize(("family", "depth", "width", "classes"), MEMBERS)
def test_every_output_has_the_shape_the_layer_list_says(family, depth, width, classes):
    drawn = architecture(family, depth=depth, width=width, num_classes=classes)
    model = made(family, depth, width, classes).eval()
    shapes = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda _m, _i, out, name=name: shapes.update({name: tuple(out.shape[1:])})
        )
    model(torch.randn(1, *drawn.image_shape))
    assert shapes == {layer.name: layer.out_shape for layer in drawn.layers if layer.name in shapes}
    assert len(shapes) == len(list(model.named_children()))


@pytest.mark.parametrize(("family", "depth", "width", "classes"), MEMBERS)
def test_fx_traces_every_family_into_plain_operations(family, depth, width, classes):
    model = made(family, depth, width, classes).eval()
    traced = fx.symbolic_trace(model)
    kinds = {
        type(traced.get_submodule(node.target)) for node in traced.graph.nodes if node.op == "call_module"
    }
    assert kinds <= {nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.Linear}
    others = {getattr(n.target, "__name__", n.target) for n in traced.graph.nodes if "call_" in n.op}
    assert {name for name in others if "." not in name and not hasattr(model, name)} <= {
        "add",
        "cat",
        "mean",
        "flatten",
    }
    images = torch.randn(1, *model.architecture.image_shape)
    assert torch.equal(traced(images), model(images))


@pytest.mark.parametrize("family", ["cifar_resnet", "vgg", "densenet", "digits_cnn"])
def test_gradients_reach_every_parameter(family):
    depth = {"cifar_resnet": 20, "vgg": 16, "densenet": 121, "digits_cnn": 5}[family]
    model = made(family, depth, 0.25, 10)
    model(torch.randn(4, *model.architecture.image_shape)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(model.get_parameter(name).grad.abs().sum() > 0 for name in prunable(model))


@pytest.mark.parametrize(
    ("family", "depth", "width", "classes"), [("vit_patch4", 2, 0.1, 10), ("vit_patch16", 1, 1 / 64, 1000)]
)
def test_vits_agree_with_their_layer_list(family, depth, width, classes):
    drawn = architecture(family, depth=depth, width=width, num_classes=classes)
    model = made(family, depth, width, classes)
    weights = {name: model.get_parameter(name) for name in prunable(model)}
    assert sum(p.numel() for p in model.parameters()) == drawn.parameters
    assert [tuple(p.shape) for p in weights.values()] == [
        layer.weight_shape for layer in drawn.layers if layer.weights
    ]
    assert not_prunable(model, weights) == ()
    assert multiply_adds(model, drawn.image_shape) == drawn.multiply_adds
    model.train()(torch.randn(2, *drawn.image_shape)).square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in weights.values())
    images = torch.randn(2, *drawn.image_shape)
    assert torch.equal(fx.symbolic_trace(model)(images), model(images))


def test_the_first_weights_of_a_vit_are_a_third_of_he_uniform():
    model = made("vit_patch4", 1, 1, 10)
    for layer in (model.block1_qkv, model.head, model.block1_mlp2):
        assert layer.weight.abs().max().item() == pytest.approx(
            math.sqrt(6 / layer.in_features) / 3, rel=0.02
        )


def test_a_vit_sees_where_things_are():
    model = made("vit_patch4", 1, 0.25, 10).eval()
    assert model.tokens.positions.shape == (64, 48)
    assert len(torch.unique(model.tokens.positions.round(decimals=3), dim=0)) == 64
    images = torch.randn(1, 3, 32, 32)
    turned = images.roll(8, dims=3)  # whole patches, so only their places differ
    assert not torch.allclose(model(images), model(turned), atol=1e-3)


def test_residual_network_equals_its_formula():
    model = made("cifar_resnet", 8, 0.25, 10).eval()
    part = dict(model.named_children())

    def block(x, name):
        y = part[f"{name}_conv1_norm"](part[f"{name}_conv1"](x)).relu()
        y = part[f"{name}_conv2_norm"](part[f"{name}_conv2"](y))
        short = f"{name}_shortcut"
        return (y + (part[f"{short}_norm"](part[short](x)) if short in part else x)).relu()

    images = torch.randn(2, 3, 32, 32)
    x = part["stem_norm"](part["stem"](images)).relu()
    for stage in (1, 2, 3):
        x = block(x, f"stage{stage}_block1")
    assert torch.equal(model(images), part["head"](x.mean((2, 3))))
    assert part["stage1_block1_conv1"].stride == (1, 1)
    assert part["stage3_block1_conv1"].stride == (2, 2)


def test_densenet_puts_new_channels_after_the_old():
    model = made("densenet", 121, 1 / 16, 10).eval()
    seen = {}
    model.stem.register_forward_hook(lambda _m, _i, out: seen.update(stem=out))
    model.set1_block1_conv2.register_forward_hook(lambda _m, _i, out: seen.update(new=out))
    model.set1_block2_conv1_norm.register_forward_hook(lambda _m, given, _o: seen.update(joined=given[0]))
    model(torch.randn(2, 3, 32, 32))
    assert torch.equal(seen["joined"], torch.cat((seen["stem"], seen["new"]), dim=1))


def test_he_uniform_bounds_and_spread():
    model = made("vgg", 16, 0.5, 10)
    for name in prunable(model):
        weight = model.get_parameter(name).detach()
        bound = math.sqrt(6 / weight[0].numel())
        assert weight.abs().max() <= bound
        if weight.numel() > 10_000:
            assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
            assert weight.abs().max() > 0.99 * bound
    rest = {name: p for name, p in model.named_parameters() if name not in prunable(model)}
    for name, parameter in rest.items():
        assert (parameter == (1 if name.endswith("norm.weight") else 0)).all()


def test_initialisation_is_a_function_of_the_generator_alone():
    torch.manual_seed(1)
    first = made("cifar_resnet", 8, 0.5, 10, seed=3).state_dict()
    state = torch.random.get_rng_state()
    again = made("cifar_resnet", 8, 0.5, 10, seed=3).state_dict()
    other = made("cifar_resnet", 8, 0.5, 10, seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["stem.weight"], other["stem.weight"])
    assert torch.equal(state, torch.random.get_rng_state())


def test_other_image_shapes():
    generator = torch.Generator().manual_seed(0)
    shape = (1, 28, 28)
    model = build(
        "cifar_resnet", depth=8, width=0.5, num_classes=10, generator=generator, image_shape=shape
    ).eval()
    assert model(torch.randn(2, *shape)).shape == (2, 10)


def test_networks_copy_and_save():
    model = made("digits_cnn", 5, 1, 10).eval()
    images = torch.randn(3, 1, 8, 8)
    other = made("digits_cnn", 5, 1, 10, seed=1).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(copy.deepcopy(model)(images), model(images))
    assert torch.equal(other(images), model(images))
