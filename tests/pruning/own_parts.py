"""Criteria and a schedule as a user may write them, named by the tests as `own_parts:NAME`."""

import torch

from prunecast.pruning import Criterion


def by_position(context):
    """The first weights of each layer go first."""
    return {name: torch.arange(mask.numel()).reshape(mask.shape) for name, mask in context.masks.items()}


def as_arrays(context):
    """The same, as NumPy arrays."""
    return {name: scores.numpy() for name, scores in by_position(context).items()}


LAYERWISE = Criterion(name="first of each layer", score=by_position, per_layer=True)


def called(context):
    """The size of what a weight contributes to the sum of the logits for an image of zeros, which calls the network."""
    model = context.model.eval()
    model(torch.zeros(1, *context.image_shape)).sum().backward()
    return {
        name: model.get_parameter(name).grad.abs() + context.weights[name].abs() for name in context.masks
    }


def incomplete(context):
    return dict(list(by_position(context).items())[1:])


def misshapen(context):
    return {name: scores.flatten() for name, scores in by_position(context).items()}


def undefined(context):
    return {name: torch.full(mask.shape, torch.nan) for name, mask in context.masks.items()}


NUMBER = 3


def everything(method, level):
    return 1.0
