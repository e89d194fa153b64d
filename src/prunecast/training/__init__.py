"""One training run: schedule, optimizer steps under masks, the plain loop, its CUDA graph, and evaluation."""

from prunecast.training.evaluate import Score, evaluate, evaluation_batch
from prunecast.training.graph import no_waiting, stepper, written_by
from prunecast.training.loop import Trainer, draw_epoch, epoch_draws, load_epoch, prepare, step, train
from prunecast.training.optimizer import OptimizerState, Tensors, initial_state, optimizer_step, sgd_step
from prunecast.training.parallel import ALONE, ProcessGroup
from prunecast.training.precision import autocast, settings
from prunecast.training.schedule import Timeline, checkpoint_due, learning_rate, stretches, timeline
from prunecast.training.state import State, copy_state, set_state, share_state

__all__ = [
    "ALONE",
    "OptimizerState",
    "ProcessGroup",
    "Score",
    "State",
    "Tensors",
    "Timeline",
    "Trainer",
    "autocast",
    "checkpoint_due",
    "copy_state",
    "draw_epoch",
    "epoch_draws",
    "evaluate",
    "evaluation_batch",
    "initial_state",
    "learning_rate",
    "load_epoch",
    "no_waiting",
    "optimizer_step",
    "prepare",
    "set_state",
    "settings",
    "sgd_step",
    "share_state",
    "step",
    "stepper",
    "stretches",
    "timeline",
    "train",
    "written_by",
]
