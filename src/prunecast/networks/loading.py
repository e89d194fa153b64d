"""A made network as a module again."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from prunecast import families
from prunecast.errors import PrunecastError
from prunecast.networks.files import FORMAT, read_network

CARD = "card.json"


def load_network(folder: str | Path) -> nn.Module:
    """The network that `prunecast make` wrote: its family's module with the pruned weights, ready to classify.

    The folder needs card.json, and either model.safetensors with mask.safetensors or sparse.safetensors.
    """
    card = read_card(Path(folder))
    about = card["network"]
    model = families.build(
        about["family"],
        depth=about["depth"],
        width=about["width"],
        num_classes=about["num_classes"],
        generator=torch.Generator().manual_seed(0),
        image_shape=tuple(about["image_shape"]),
    )
    return filled(model, Path(folder), card["training"]["spec"])


def filled(model: nn.Module, folder: Path, digest: str) -> nn.Module:
    """The module with the weights of a folder's files, ready to classify."""
    try:
        model.load_state_dict(read_network(folder, digest)[0])
    except RuntimeError as failure:
        first = str(failure).splitlines()[0]
        raise PrunecastError(
            f"the weights in {folder} do not fit their family as it is now ({first})"
        ) from failure
    return model.eval()


def load_masks(folder: str | Path) -> dict[str, Tensor]:
    """Which prunable weights were kept: a boolean tensor for each, by its name in the state dict."""
    return read_network(Path(folder), read_card(Path(folder))["training"]["spec"])[1]


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a made network."""
    path = folder / CARD
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = card["format"]
    except FileNotFoundError:
        raise PrunecastError(f"there is no {path}: give the folder that `prunecast make -o` wrote") from None
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise PrunecastError(f"{path} cannot be read: make the network again") from failure
    if version > FORMAT:
        raise PrunecastError(f"{path} was written by a newer prunecast: upgrade")
    return card
