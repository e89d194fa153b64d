import pytest

from prunecast.catalog import FAMILIES, architecture, scaled
from prunecast.errors import PrunecastError

KNOWN = [  # family, depth, width, classes, prunable weights, all parameters, multiply-adds
    ("cifar_resnet", 20, 1, 10, 270_896, 270_896 + 1_578, 40_813_184),
    ("cifar_resnet", 20, 0.25, 10, 17_132, 17_534, 2_633_888),
    ("vgg", 16, 1, 10, 14_715_584, 14_724_042, 313_201_664),
    ("densenet", 121, 1, 10, 1_721_184, 1_762_954, 222_532_608),
    ("imagenet_resnet", 50, 1, 1000, 25_502_912, 25_557_032, 4_089_184_256),
    ("imagenet_resnet", 18, 1, 1000, 11_678_912, 11_689_512, 1_814_073_344),
    ("tinyimagenet_resnet", 18, 1, 200, 11_269_312, 11_279_112, 148_148_224),
    ("vit_patch4", 6, 1, 10, 2_665_344, 2_680_714, 179_898_240),
    ("digits_cnn", 4, 1, 10, 72 + 1_152 + 2_304 + 160, 3_688 + 80 + 10, 72 * 64 + 3_456 * 16 + 160),
]


@pytest.mark.parametrize(("family", "depth", "width", "classes", "weights", "parameters", "adds"), KNOWN)
def test_known_counts(family, depth, width, classes, weights, parameters, adds):
    made = architecture(family, depth=depth, width=width, num_classes=classes)
    assert (made.weights, made.parameters, made.multiply_adds) == (weights, parameters, adds)


def test_cifar_resnet_by_hand():
    stem, head = 3 * 16 * 9, 64 * 10
    first = 6 * 16 * 16 * 9
    second = 16 * 32 * 9 + 5 * 32 * 32 * 9 + 16 * 32
    third = 32 * 64 * 9 + 5 * 64 * 64 * 9 + 32 * 64
    made = architecture("cifar_resnet", depth=20, width=1, num_classes=10)
    assert made.weights == stem + first + second + third + head


@pytest.mark.parametrize(
    ("family", "depth"),
    [("cifar_resnet", depth) for depth in (8, 14, 20, 26, 50, 98)]
    + [("densenet", depth) for depth in (121, 169, 201)]
    + [("imagenet_resnet", depth) for depth in (18, 34, 50, 101, 152)]
    + [("digits_cnn", depth) for depth in range(3, 10)],
)
def test_depth_counts_the_weighted_layers_outside_shortcuts(family, depth):
    made = architecture(family, depth=depth, width=0.5, num_classes=10)
    assert sum(layer.weights > 0 and layer.in_depth for layer in made.layers) == depth


@pytest.mark.parametrize("family", FAMILIES)
def test_even_the_narrowest_network_has_a_channel_everywhere(family):
    depth = FAMILIES[family].depths[0]
    made = architecture(family, depth=depth, width=1 / 1024, num_classes=7)
    assert min(layer.out_shape[0] for layer in made.layers) >= 1
    assert made.layers[-1].out_shape == (7,)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_read_only_what_stands_before_them(family):
    made = architecture(family, depth=FAMILIES[family].depths[-1], width=1, num_classes=10)
    known = {"image"}
    for layer in made.layers:
        assert known.issuperset(layer.inputs)
        assert layer.name not in known
        known.add(layer.name)


@pytest.mark.parametrize(
    ("channels", "width", "expected"), [(16, 0.25, 4), (16, 1 / 64, 1), (5, 0.5, 2), (7, 0.5, 4)]
)
def test_rounding_is_to_the_nearest_and_halves_to_even(channels, width, expected):
    assert scaled(channels, width) == expected


@pytest.mark.parametrize(
    ("family", "depth", "width", "message"),
    [
        ("resnet", 20, 1, "unknown family 'resnet'.*cifar_resnet, vgg"),
        ("cifar_resnet", 21, 1, "no depth 21; its depths are 8, 14, 20, 26 ..."),
        ("vgg", 17, 1, "no depth 17; its depths are 11, 13, 16, 19"),
        ("vgg", 16, 0, "width of vgg must be a positive number"),
        ("vgg", 16, float("nan"), "width of vgg must be a positive number"),
    ],
)
def test_mistakes_name_the_remedy(family, depth, width, message):
    with pytest.raises(PrunecastError, match=message):
        architecture(family, depth=depth, width=width, num_classes=10)


def test_images_that_vanish_are_refused_by_the_layer_name():
    with pytest.raises(PrunecastError, match="section5_pool"):
        architecture("vgg", depth=16, width=1, num_classes=10, image_shape=(3, 16, 16))


def test_a_vit_by_hand():
    wide, tokens = 192, 64
    made = architecture("vit_patch4", depth=6, width=1, num_classes=10)
    weights = 3 * 4 * 4 * wide + 6 * 12 * wide**2 + 10 * wide
    assert made.weights == weights
    assert made.parameters == weights + 6 * 13 * wide + 2 * wide + 10
    assert made.multiply_adds == (weights - 10 * wide) * tokens + 6 * 2 * tokens**2 * wide + 10 * wide
    assert architecture("vit_patch8", depth=6, width=1, num_classes=10).weights == weights + 3 * 48 * wide


def test_patches_must_fill_the_image():
    with pytest.raises(PrunecastError, match="images of 30x30 pixels cannot be cut into patches of 4x4"):
        architecture("vit_patch4", depth=1, width=1, num_classes=10, image_shape=(3, 30, 30))


def test_the_catalog_does_not_import_torch():
    import subprocess
    import sys

    code = "import sys, prunecast.catalog; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
