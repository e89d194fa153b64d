"""What is measured on a made network: its errors as loaded from its files, and its arithmetic."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunecast.data import Dataset
from prunecast.families.initialise import Weighted
from prunecast.networks.loading import filled
from prunecast.pruning.opened import choose_examples
from prunecast.spec import ChainSpec
from prunecast.training import Score, evaluate
from prunecast.training.precision import settings


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of the network that the files hold."""

    error: float
    """on the test set"""
    loss: float
    validation_error: float | None
    """on held-out training examples, where the recipe holds some out"""


def errors_of(model: nn.Module, folder: Path, spec: ChainSpec, dataset: Dataset) -> Errors:
    """Fill a module from a folder's files and evaluate it where the data is, with the recipe's arithmetic."""
    device = dataset.test.labels.device
    model = filled(model, folder, spec.digest).to(device)
    _, held_out = choose_examples(spec, len(dataset.train))
    precision = spec.recipe.precision

    def score(source: Any, indices: Any) -> Score:
        return evaluate(model, source, torch.from_numpy(indices), precision)

    with settings(precision, device, spec.threads):
        test = score(dataset.test, np.arange(len(dataset.test)))
        validation = score(dataset.train, held_out).error if len(held_out) else None
    return Errors(error=test.error, loss=test.loss, validation_error=validation)


def multiply_adds(
    model: nn.Module, masks: Mapping[str, Tensor], image_shape: tuple[int, ...]
) -> tuple[int, int]:
    """Multiply-adds of one image through convolutions and linear layers: of all weights, and of those kept."""
    uses: dict[str, int] = {}
    names = {id(module): name for name, module in model.named_modules() if isinstance(module, Weighted)}

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        name = names[id(module)]
        seen = inputs[0] if getattr(module, "transposed", False) else output
        places = math.prod(seen.shape[1:-1]) if isinstance(module, nn.Linear) else math.prod(seen.shape[2:])
        uses[name] = uses.get(name, 0) + places

    hooks = [
        module.register_forward_hook(count) for module in model.modules() if isinstance(module, Weighted)
    ]
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, *image_shape))
    finally:
        for hook in hooks:
            hook.remove()
    weights = {name: f"{name}.weight" if name else "weight" for name in uses}
    total = {name: model.get_parameter(weights[name]).numel() for name in uses}
    kept = {name: int(masks[weights[name]].sum()) if weights[name] in masks else total[name] for name in uses}
    return sum(uses[name] * total[name] for name in uses), sum(uses[name] * kept[name] for name in uses)
