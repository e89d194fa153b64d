"""Families of a user that the packer refuses: one mixes channels, one draws noise, one its own first weights."""

import threading

from torch import nn


def normalised_by_groups(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * channels, num_classes))


def with_dropout(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3)]
    return nn.Sequential(*body, nn.Linear(64 * channels, num_classes))


def disturbed(depth, width, num_classes):
    """Draws its own weights while another thread begins a stretch of another training."""
    threads = [threading.Thread(target=other) for other in OTHERS]
    for thread in threads:
        thread.start()
        thread.join(0.1)  # waits for its turn, or has moved the generator
    return nn.Linear(3, num_classes)


disturbed.own_init = True
OTHERS = []
