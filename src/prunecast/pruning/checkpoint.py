"""The training in progress of a level, kept in the chain's folder so that a killed one goes on from there."""

from dataclasses import dataclass

from prunecast.pruning.files import read_tensors, write_tensors
from prunecast.pruning.level import Level
from prunecast.pruning.opened import Chain
from prunecast.pruning.store import FORMAT
from prunecast.training import State


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A level between two steps."""

    step: int
    """The step to go on with."""
    seconds: float
    """Seconds spent on the level so far."""
    state: State


def read_checkpoint(chain: Chain, level: Level) -> Checkpoint | None:
    """The level's checkpoint, if there is one."""
    path = chain.folder.checkpoint
    if not path.exists():
        return None
    tensors, notes = read_tensors(path)
    if notes["level"] != level.level:
        return None
    network = {name[8:]: tensor for name, tensor in tensors.items() if name.startswith("network/")}
    slots = {name[6:]: tensor for name, tensor in tensors.items() if name.startswith("slots/")}
    state = State(network=network, optimizer_state=slots)
    return Checkpoint(step=notes["step"], seconds=notes["seconds"], state=state)


def write_checkpoint(chain: Chain, level: Level, checkpoint: Checkpoint) -> None:
    """Store the training in progress in place of the last checkpoint."""
    network = {f"network/{name}": tensor for name, tensor in checkpoint.state.network.items()}
    slots = {f"slots/{name}": tensor for name, tensor in checkpoint.state.optimizer_state.items()}
    notes = {
        "format": FORMAT,
        "level": level.level,
        "step": checkpoint.step,
        "seconds": checkpoint.seconds,
    }
    write_tensors(chain.folder.checkpoint, {**network, **slots}, notes)
