"""A residual network written in another style, and variants of it with one change."""

import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812


class Own(nn.Module):
    """A residual network as others write it, with a place for the thing in question."""

    def __init__(self, width: int = 8, **changes) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv1, self.norm1 = nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width, eps=1e-3)
        self.conv2 = nn.Conv2d(width, width, 3, 2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width, momentum=0.3)
        self.short, self.short_norm = nn.Conv2d(width, width, 1, 2, bias=False), nn.BatchNorm2d(width)
        self.same, self.relu, self.pool = nn.Identity(), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, 7)
        for name, module in changes.items():
            setattr(self, name, module)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(input=x)))
        x = self.middle(x)
        y = self.norm2(self.conv2(x))
        y += self.short_norm(self.short(x))
        return self.end(self.relu(y))

    def middle(self, x):
        return torch.relu(torch.add(self.same(x), self.norm1(self.conv1(x))))

    def end(self, x):
        return self.head(torch.flatten(self.pool(x), 1))


def own(*, methods=None, **changes) -> nn.Module:
    """The network above with other modules or methods, less what these do not use: that cannot be packed."""
    model = type("Changed", (Own,), methods or {})(**changes)
    used = {node.target for node in fx.symbolic_trace(model).graph.nodes}
    for name in [name for name, _ in model.named_children() if name not in used]:
        delattr(model, name)
    return model
