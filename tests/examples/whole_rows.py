"""A structure and a schedule of your own: whole rows of weights are removed, half of them at the first level.

A plan's method names them as `structure = "whole_rows:Rows"` and `schedule = "whole_rows:halving"`.
"""

import numpy as np


class Rows:
    """Whole rows of a layer's weight are removed. A row computes one output; its score is the mean of its weights'."""

    def __init__(self, model):
        """Take the untrained network, which this structure does not need."""

    def parts(self, masks):
        """Return the smallest sets of layers that hold whole units: here each layer alone."""
        return [{name: mask} for name, mask in masks.items()]

    def count(self, masks):
        """Return the number of units that are left."""
        return len(self._rows(masks))

    def unit_scores(self, masks, scores):
        """Return a score for each unit that is left, from the scores of all weights."""
        return np.array([float(scores[name][row].double().mean()) for name, row in self._rows(masks)])

    def remove(self, masks, units):
        """Return the masks without these units, which are numbered as in `unit_scores`."""
        rows, left = self._rows(masks), {name: mask.clone() for name, mask in masks.items()}
        for unit in units:
            name, row = rows[unit]
            left[name][row] = False
        return left

    def _rows(self, masks):
        return [(name, row) for name, mask in masks.items() for row in range(len(mask)) if mask[row].any()]


def halving(method, level):
    """Return the fraction of the remaining units that a level removes: a half at level 1, a quarter at level 2."""
    return 0.5 / level
