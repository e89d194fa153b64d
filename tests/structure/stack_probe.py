"""An optimizer that takes down by which functions of prunecast its first step was called."""

import sys
from pathlib import Path

import prunecast
from prunecast.training import Optimizer

PACKAGE = Path(prunecast.__file__).parent
CALLS: list[str] = []


def step(recipe, parameters, gradients, state, rate):
    """Change nothing."""
    frame = sys._getframe()
    while frame is not None and not PROBED:
        if PACKAGE in Path(frame.f_code.co_filename).parents:
            CALLS.insert(0, frame.f_code.co_qualname)
        frame = frame.f_back
    PROBED.append(True)


PROBED: list[bool] = []
PROBE = Optimizer(name="probe", step=step, elementwise=True)
