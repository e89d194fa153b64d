"""Networks that cannot be packed are refused by name."""

import re

import pytest
import torch
from fleet_nets import Residual, Stacked
from torch import nn
from torch.nn import functional as F  # noqa: N812

from prunecast.fleet import Unpackable, pack


class Around(nn.Module):
    """A first convolution, the thing in question, and a linear head."""

    def __init__(self, middle=None, operation=None, channels: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3)
        self.middle = middle
        self.operation = operation
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.first(x)
        x = self.operation(x) if self.middle is None else self.middle(x)
        return self.head(x.mean((2, 3)))


class Tied(Around):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(8, 8, 3))
        self.second = nn.Conv2d(8, 8, 3)
        self.second.weight = self.middle.weight


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x):
        return x * self.scale


class Moody(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


class Choosy(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Hooked(Around):
    def __init__(self) -> None:
        super().__init__(nn.ReLU())
        self.middle.register_forward_hook(lambda module, inputs, output: output * 2)


CASES = [
    (Around(nn.GroupNorm(2, 8)), "'middle' (GroupNorm)"),
    (Around(nn.Softmax(dim=1)), "'middle' (Softmax)"),
    (Around(nn.PixelShuffle(1)), "'middle' (PixelShuffle)"),
    (Around(nn.Dropout(0.5)), "'middle'"),
    (Around(nn.BatchNorm2d(8, momentum=None)), "'middle'"),
    (Around(Own()), "'middle.scale'"),
    (Around(Moody()), "training"),
    (Around(Choosy()), "cannot be followed operation by operation"),
    (Around(operation=lambda x: x.flip(1)), "'flip'"),
    (Around(operation=lambda x: x - x.mean(1, keepdim=True)), "'mean'"),
    (Around(operation=lambda x: x * x.mean()), "'mean'"),
    (Around(operation=lambda x: torch.cat(x.chunk(2, dim=1), 1)), "'chunk'"),
    (Around(operation=lambda x: torch.cat([x, x], 2)), "'cat'"),
    (Around(operation=lambda x: x[:, [1, 0, 2, 3, 4, 5, 6, 7]]), "'getitem'"),
    (Around(operation=lambda x: x.view(2, 8, 6, 6)), "'view'"),
    (Around(operation=lambda x: x + torch.cat([x, x], 1)[:, :8]), "'getitem'"),
    (Around(operation=lambda x: F.dropout(x, 0.1)), "'dropout'"),
    (Around(operation=lambda x: F.max_pool2d(x, 2, return_indices=True)[0]), "pool"),
    (Tied(), "'second.weight'"),
    (Hooked(), "'middle' has hooks"),
]


@pytest.mark.parametrize(("model", "named"), CASES, ids=[named for _, named in CASES])
def test_refusal_names_the_module_or_operation(model, named):
    with pytest.raises(Unpackable, match=re.escape(named)):
        pack([model, model], image_shape=(3, 8, 8))


def differing(**changes) -> nn.Module:
    model = Residual(1.0)
    for name, module in changes.items():
        setattr(model, name, module)
    return model


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Stacked(1.0), "differ in more"),
        (Residual(1.0, classes=7), "classes"),
        (differing(stem=nn.Conv2d(3, 8, 5, padding=2, bias=False)), "'stem' has a different kernel_size"),
        (differing(stem=nn.Conv2d(3, 8, 3, padding=1)), "'stem' has a bias"),
        (differing(norm1=nn.BatchNorm2d(16, eps=0.1)), "'norm1' has a different eps"),
        (differing(norm1=nn.Identity()), "'norm1' is of different types"),
    ],
)
def test_members_that_differ_in_more_than_width_are_refused(other, named):
    with pytest.raises(Unpackable, match=named):
        pack([Residual(1.0), other], image_shape=(3, 8, 8))


def test_a_layer_used_twice_with_other_owners_is_refused():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.shared = nn.Conv2d(3, 1, 1), nn.Conv2d(3, 2, 1), nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return (self.shared(x) + self.shared(torch.cat([self.one(x), self.two(x)], 1))).mean((2, 3))

    with pytest.raises(Unpackable, match="'shared' is used in two places"):
        pack([Twice(), Twice()], image_shape=(3, 8, 8))


def test_a_tensor_left_over_is_refused():
    model = Residual(1.0)
    model.register_buffer("extra", torch.zeros(3))
    with pytest.raises(Unpackable, match="'extra'"):
        pack([model], image_shape=(3, 8, 8))
