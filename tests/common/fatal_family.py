"""A user's family of which networks wider than 1 fail, or kill their process, in the first training step."""

FAMILY = """
import os
import signal

from torch import nn

class Fatal(nn.Module):
    def forward(self, images):
        if len(images) > 2:  # a trial before anything trains has two
            {failure}
        return images

def small(depth, width, num_classes):
    first = Fatal() if width > 1 else nn.Identity()
    return nn.Sequential(first, nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, num_classes))
"""
KILLING = FAMILY.format(failure="os.kill(os.getpid(), signal.SIGKILL)")


def raising(message: str) -> str:
    """The family with networks that raise a ValueError."""
    return FAMILY.format(failure=f"raise ValueError({message!r})")
