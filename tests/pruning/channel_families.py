"""Families of a user's own for the tests of channels."""

from torch import nn


class Choosy(nn.Module):
    """Decides by the values of its input what to compute."""

    def forward(self, x):
        return -x if x.sum() > 0 else x


def choosy(depth, width, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), Choosy(), nn.Linear(8, num_classes))


class Residual(nn.Module):
    """A sum with batch norms, so that channels are tied."""

    def __init__(self, channels, num_classes):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()),
            *(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)),
        )
        self.head = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.stem_norm(self.stem(x)).relu()
        return self.head((x + self.body(x)).relu().mean(dim=(2, 3)))


def residual(depth, width, num_classes):
    return Residual(round(8 * width), num_classes)
