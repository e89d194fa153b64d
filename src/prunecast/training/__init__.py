"""One training run: schedule, optimizer steps under masks, the plain loop, its CUDA graph, and evaluation."""

from prunecast.training.device import Captured, autocast, no_waiting, settings
from prunecast.training.evaluation import Score, evaluate, evaluation_batch
from prunecast.training.loop import draw_epoch, epoch_draws, load_epoch, step, stepper, train
from prunecast.training.optimizer import OptimizerState, Tensors, initial_state, optimizer_step, sgd_step
from prunecast.training.parallel import ALONE, ProcessGroup
from prunecast.training.schedule import Timeline, checkpoint_due, learning_rate, stretches, timeline
from prunecast.training.trainer import State, Trainer, copy_state, prepare, set_state, share_state, written_by

__all__ = [
    "ALONE",
    "Captured",
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
