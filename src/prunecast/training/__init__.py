"""One training: schedule, optimizer steps under masks, the plain loop, its CUDA graph, and evaluation."""

from prunecast.training.evaluate import Score, evaluate
from prunecast.training.graph import stepper
from prunecast.training.loop import Bench, prepare, step, train
from prunecast.training.schedule import Timeline, checkpoint_due, learning_rate, stretches, timeline
from prunecast.training.state import State, copy_state, set_state, share_state
from prunecast.training.team import ALONE, Team

__all__ = [
    "ALONE",
    "Bench",
    "Score",
    "State",
    "Team",
    "Timeline",
    "checkpoint_due",
    "copy_state",
    "evaluate",
    "learning_rate",
    "prepare",
    "set_state",
    "share_state",
    "step",
    "stepper",
    "stretches",
    "timeline",
    "train",
]
