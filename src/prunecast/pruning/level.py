"""One level of a chain: where it starts, its checkpoint, and what is written when it is finished.

The training itself is elsewhere: the plain loop and the fleet both take a `Level` and return a `Trained`.
"""

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from prunecast.errors import DamagedError
from prunecast.families import Sizes, find_units, full_sizes, not_prunable
from prunecast.files import is_there
from prunecast.pruning.chain import Chain, code_version
from prunecast.pruning.channels import removable
from prunecast.pruning.connectivity import connectivity
from prunecast.pruning.criteria import PruningContext
from prunecast.pruning.files import damaged, is_finite, is_whole, write_tensors
from prunecast.pruning.masks import Masks, count_kept, count_total, dead_layers
from prunecast.pruning.n_of_m import NOfM
from prunecast.pruning.prune import next_masks
from prunecast.pruning.record import Pruned, Record, finite
from prunecast.pruning.store import (
    check_kept,
    check_shapes,
    older_records,
    read_packed,
    write_packed,
)
from prunecast.pruning.structure import structure_of
from prunecast.spec import CHANNELS, MODULE_CALLS, rng
from prunecast.training import Score, State, initial_state, loss_of

GRADIENT_EXAMPLES = 512
"""Training examples at most over which criteria take gradients."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A training run to be done."""

    level: int
    masks: Masks
    counts: Pruned
    """The sizes of the masks."""
    network: dict[str, Tensor]
    """Parameters and buffers to start from; the optimizer starts from zero."""
    first: int
    """The step to start at, which fixes learning rate, data order and augmentation."""
    last: int
    """The step before which to end."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of a training run."""

    network: dict[str, Tensor]
    seconds: float
    device: str
    diverged: bool = False
    test: Score | None = None
    """None if the training run diverged; the same for the other scores."""
    train: Score | None = None
    validation: Score | None = None
    steps: int | None = None
    """Steps done, if the training run diverged before the level's last step."""


def open_level(chain: Chain, records: Sequence[Record]) -> Level:
    """The next level to train: its masks, starting weights and steps."""
    level, times = len(records), chain.times
    retraining = chain.spec.method.retraining
    full = chain.full
    counts = records[-1].following if level else count(chain, full)
    assert counts is not None, "a diverged chain has no next level"
    masks = _masks_of(chain, level, counts) if level else full
    trained = chain.spec.start_trained
    if level == 0 or retraining == "from-start":
        network = _untrained(chain)
        first, last = times.total if trained else 0, times.total
    else:
        if retraining == "weight-rewinding":
            network = _untrained(chain) if trained else rewound(chain, level, masks)
        else:
            network = read_packed(chain.folder.start(level), chain.folder, full)
            check_shapes(chain.folder.start(level), network, chain.untrained.state_dict())
        tuned = retraining == "fine-tuning"
        first = times.total if tuned else times.rewind
        last = first + times.total - times.rewind
    return Level(level=level, masks=masks, counts=counts, network=network, first=first, last=last)


def _untrained(chain: Chain) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in chain.untrained.state_dict().items()}


def _masks_of(chain: Chain, level: int, counts: Pruned) -> Masks:
    """Read the masks of a level; refuse them if they keep another number of weights than the level before recorded."""
    path, masks = chain.folder.mask(level), chain.folder.masks(level)
    check_shapes(path, masks, chain.full)
    check_kept(path, masks, counts.nonzero)
    return masks


def close_level(
    chain: Chain, records: Sequence[Record], level: Level, end: Trained, *, keep_weights: bool = False
) -> Record:
    """Choose the next level's masks and store this level as finished; the record is written last."""
    folder, method = chain.folder, chain.spec.method
    following = None
    if not end.diverged or method.before_training:
        masks = masks_after(chain, level, end)
        following = count(chain, masks)
        if _ended(chain, level.masks):
            following = replace(following, exhausted=True)
        folder.write_masks(level.level + 1, masks)
        if method.retraining in ("rate-rewinding", "fine-tuning"):
            write_packed(folder.start(level.level + 1), end.network, masks, level.level + 1)
    final = chain.spec.final_nonzero
    if keep_weights or (final is not None and level.counts.nonzero <= final):
        write_tensors(folder.weights(level.level), end.network, folder.notes(level.level))
    record = record_of(chain, level, end, following)
    folder.write_records([*records, record])
    folder.tidy(level.level + 1)
    return record


def masks_after(chain: Chain, level: Level, end: Trained) -> Masks:
    """The masks of the next level."""
    spec, before_training = chain.spec, chain.spec.method.before_training
    initial = {name: chain.untrained.get_parameter(name).detach() for name in chain.prunable}
    network = chain.untrained.state_dict() if before_training else end.network
    context = PruningContext(
        method=spec.method,
        level=level.level + 1,
        replicate=spec.replicate,
        masks=chain.full if before_training else level.masks,
        weights=initial if before_training else {name: end.network[name] for name in chain.prunable},
        initial_weights=initial,
        untrained=chain.untrained,
        image_shape=chain.dataset.train.image_shape,
        network=network,
        loss_gradients=partial(loss_gradients, chain, network, level.level + 1),
    )
    return next_masks(context, spec.final_nonzero)


def count(chain: Chain, masks: Masks) -> Pruned:
    """The sizes of some masks: weights kept, and weights on a path."""
    paths = connectivity(chain.untrained, masks, chain.dataset.train.image_shape)
    return Pruned(
        nonzero=count_kept(masks),
        alive=paths.alive,
        connected=paths.connected,
        note=paths.note,
        exhausted=_exhausted(chain, masks),
    )


def _ended(chain: Chain, masks: Masks) -> bool:
    """Whether this level, with its masks, is the last one of a structure N:M."""
    if not chain.spec.method.prunes:
        return False
    structure = structure_of(chain.spec.method.structure)(chain.untrained)
    return isinstance(structure, NOfM) and structure.finished(masks)


def _exhausted(chain: Chain, masks: Masks) -> bool:
    """Whether a chain of channels has none left to remove; the level with these masks is then not trained."""
    if chain.spec.method.structure != CHANNELS or not chain.spec.method.prunes:
        return False
    units = find_units(chain.untrained, chain.dataset.train.image_shape)
    return not removable(units, units.kept(masks))


def sizes_of(chain: Chain, masks: Masks) -> Sizes:
    """The size of a level's network; single weights that are pruned are stored and multiplied as zeros."""
    shape = chain.dataset.train.image_shape
    if chain.spec.method.structure == CHANNELS:
        units = find_units(chain.untrained, shape)
        return units.sizes(units.kept(masks))
    whole = full_sizes(chain.untrained, shape)
    return replace(whole, parameters=whole.parameters - count_total(masks) + count_kept(masks))


def loss_gradients(chain: Chain, network: Mapping[str, Tensor], level: int) -> dict[str, Tensor]:
    """The gradient of the mean loss over some training examples, without augmentation, in evaluation."""
    source, spec = chain.dataset.train, chain.spec
    device = source.labels.device
    model = copy.deepcopy(chain.untrained).to(device)
    model.load_state_dict(dict(network))
    chosen = rng(spec.replicate, "score", level).permutation(chain.examples)[:GRADIENT_EXAMPLES]
    indices = torch.from_numpy(chosen).to(device)
    with MODULE_CALLS:
        logits = model.eval()(source.batch(indices, None))
        loss = loss_of(spec.recipe).mean(logits, source.labels[indices])
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter, device="cpu") if gradient is None else gradient.cpu()
        for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True)
    }


def record_of(chain: Chain, level: Level, end: Trained, following: Pruned | None) -> Record:
    """The row of the table, and the sizes of the next level."""
    weights, sizes = count_total(level.masks), sizes_of(chain, level.masks)
    chance = chain.dataset.chance_error
    return Record(
        level=level.level,
        density=level.counts.nonzero / weights,
        error=end.test.error if end.test else chance,
        loss=finite(end.test.loss) if end.test else None,
        train_error=end.train.error if end.train else None,
        validation_error=end.validation.error if end.validation else None,
        parameters=sum(parameter.numel() for parameter in chain.untrained.parameters()),
        weights=weights,
        nonzero=level.counts.nonzero,
        effective_density=None if level.counts.alive is None else level.counts.alive / weights,
        steps=level.last - level.first if end.steps is None else end.steps,
        seconds=end.seconds,
        status="diverged" if end.diverged else "ok",
        chance_error=chance,
        device=end.device,
        code=code_version(),
        note=level.counts.note,
        dead_layers=dead_layers(level.masks),
        not_prunable=not_prunable(chain.untrained, chain.prunable),
        remaining_parameters=sizes.parameters,
        bytes=sizes.bytes,
        multiply_adds=sizes.multiply_adds,
        following=following,
    )


def rewound(chain: Chain, level: int, masks: Masks) -> dict[str, Tensor]:
    """Read the network of the rewind point, and store it again with fewer weights once half of them are pruned.

    Only weights that a finished level pruned are dropped, so a kill at any moment changes nothing.
    """
    path, full = chain.folder.rewind, chain.full
    _, stored, _ = chain.folder.tensors(path)
    if stored > level:
        raise older_records(path, stored, level)
    network = read_packed(path, chain.folder, full)
    check_shapes(path, network, chain.untrained.state_dict())
    if count_kept(masks) <= count_kept(chain.folder.masks(stored) if stored else full) // 2:
        write_packed(path, network, masks, level)
    return network


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state of a level between two steps, from which a killed training run continues."""

    step: int
    """The next step."""
    seconds: float
    """Seconds spent on the level so far."""
    state: State


def read_checkpoint(chain: Chain, level: Level) -> Checkpoint | None:
    """The level's checkpoint, if there is one; a damaged one costs only the time since the level began."""
    path = chain.folder.checkpoint
    if not is_there(path):
        return None
    try:
        return _checkpoint(chain, level)
    except DamagedError:
        LOG.warning("%s is damaged, so its level starts again.", path)
        return None


def _checkpoint(chain: Chain, level: Level) -> Checkpoint | None:
    path = chain.folder.checkpoint
    tensors, found, notes = chain.folder.tensors(path)
    if found != level.level:
        return None
    network, slots = _below("network/", tensors), _below("slots/", tensors)
    check_shapes(path, network, chain.untrained.state_dict())
    fresh = initial_state(chain.spec.recipe, list(chain.untrained.parameters()))
    shapes = {
        f"{kind}/{place}": one.shape for kind, of_kind in fresh.items() for place, one in enumerate(of_kind)
    }
    if any(shapes.get(name) != tensor.shape for name, tensor in slots.items()):
        raise damaged(path, "its tensors are not those of this chain's optimizer")
    step, seconds = notes.get("step"), notes.get("seconds")
    if not (is_whole(step, level.first) and step <= level.last and is_finite(seconds, 0)):
        raise damaged(path, "it does not say after which step it was written")
    state = State(network=network, optimizer_state=slots)
    return Checkpoint(step=step, seconds=seconds, state=state)


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def write_checkpoint(chain: Chain, level: Level, checkpoint: Checkpoint) -> None:
    """Store the training in progress in place of the last checkpoint."""
    network = {f"network/{name}": tensor for name, tensor in checkpoint.state.network.items()}
    slots = {f"slots/{name}": tensor for name, tensor in checkpoint.state.optimizer_state.items()}
    notes = {**chain.folder.notes(level.level), "step": checkpoint.step, "seconds": checkpoint.seconds}
    write_tensors(chain.folder.checkpoint, {**network, **slots}, notes)
