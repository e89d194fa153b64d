"""A network of your own is tried before it trains; what does not run names the module and what to change."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from prunecast.errors import PrunecastError
from prunecast.families import full_sizes, multiply_adds, try_network

SHAPE = (3, 8, 8)


class Model(nn.Module):
    """A convolution, and what a test does with its output."""

    def __init__(self, head, channels=3, join=lambda x: x.flatten(1)):
        super().__init__()
        self.stem = nn.Conv2d(channels, 4, 3, stride=2, padding=1)
        self.body = nn.ModuleDict({"head": head})
        self.join = join

    def forward(self, image):
        return self.body["head"](self.join(self.stem(image)))


class Aside(nn.Module):
    """Returns a second result in training, as networks with auxiliary heads do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(192, 5)

    def forward(self, image):
        logits = self.head(image.flatten(1))
        return (logits, logits) if self.training else logits


class Unusual(nn.Module):
    """A method whose first argument is not called self."""

    def __init__(this):  # noqa: N805
        super().__init__()
        this.head = nn.Linear(192, 5)

    def forward(this, image):  # noqa: N805
        return this.head(image.reshape(-1, 191))


class ByHand(nn.Module):
    """Attention written with matrix products."""

    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(24, 48), nn.Linear(16, 5)

    def forward(self, image):
        q, k, v = self.qkv(image.transpose(1, 2).flatten(2)).chunk(3, dim=2)
        weights = torch.softmax(q @ k.transpose(1, 2), dim=2)
        return self.head((weights @ v).mean(1))


class Fused(ByHand):
    def forward(self, image):
        q, k, v = self.qkv(image.transpose(1, 2).flatten(2)).chunk(3, dim=2)
        return self.head(functional.scaled_dot_product_attention(q, k, v).mean(1))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Model(nn.Linear(256, 5)),
            r"^module 'body\.head' \(Linear\) takes 256 features, but gets 64 from images of 3x8x8; pool to a fixed",
        ),
        (
            Model(nn.Linear(64, 5), channels=1),
            r"^module 'stem' \(Conv2d\) takes 1 channel, but gets 3 .*image_shape",
        ),
        (
            Model(nn.Linear(64, 5), join=lambda x: x.reshape(-1, 63)),
            r"^the model \(Model, test_trial\.py, line \d+\) fails on images of 3x8x8 \(RuntimeError: .*set image_size",
        ),
        (
            Model(nn.Linear(64, 7)),
            r"shape \(2, 7\) for 2 images of 5 classes; give its last layer num_classes outputs",
        ),
        (Model(nn.Linear(4, 5), join=lambda x: x.permute(0, 2, 3, 1)), r"shape \(2, 4, 4, 5\)"),
        (
            Unusual(),
            r"^the model \(Unusual, test_trial\.py, line \d+\) fails on images of 3x8x8 \(RuntimeError: ",
        ),
        (
            Aside(),
            "^in training the model returns tuple; it must return the logits alone, one row of 5 scores",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Softmax(1)),
            "^in training the model returns probabilities: each row sums to 1. Return the logits, without the softmax",
        ),
    ],
    ids=["features", "channels", "reshape", "classes", "shape", "unusual", "tuple", "softmax"],
)
def test_what_does_not_run_is_explained(model, message):
    with pytest.raises(PrunecastError, match=message) as refused:
        try_network(model, SHAPE, 5)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [ByHand, Fused])
def test_attention_counts_whoever_computes_it(kind):
    tokens, channels = 8, 16
    expected = tokens * 24 * 48 + 2 * tokens**2 * channels + 16 * 5
    assert try_network(kind(), SHAPE, 5) == multiply_adds(kind(), SHAPE) == expected


class Branching(Fused):
    """It needs the values of its images."""

    def forward(self, image):
        return super().forward(image) if image.sum() < 1 else super().forward(-image)


class BranchingEncoder(nn.Module):
    """Torch's own encoder layer, which hides its products, after a branch on values."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(24, 2, 16, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, image):
        image = image if image.sum() < 1 else -image
        return self.head(self.encoder(image.transpose(1, 2).flatten(2)).mean(1))


@pytest.mark.parametrize("kind", [Branching, BranchingEncoder])
def test_a_network_that_branches_on_values_counts_as_another(kind):
    model = kind()
    assert full_sizes(model, SHAPE).multiply_adds == multiply_adds(model, SHAPE)


def test_a_trial_leaves_no_trace():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192), nn.Dropout(), nn.Linear(192, 5))
    state, numbers = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    try_network(model, SHAPE, 5)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state())
    assert model.training
    assert torch.backends.mha.get_fastpath_enabled()
