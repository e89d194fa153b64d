"""Training one level of all members of a pack, and evaluating them.

It is a coroutine that yields when it would have to wait for the device or a host thread, so that one thread can advance
several packs in turn. Host threads get host memory only.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunecast.data import Source
from prunecast.fleet.chains import (
    Networks,
    Placement,
    are_finite,
    optimizer_contents,
    own_networks,
    start_contents,
    write_checkpoints,
)
from prunecast.fleet.device import Coroutine, StreamEvent, result_of
from prunecast.fleet.members import EpochData, Member, draw_epochs
from prunecast.fleet.pack import Pack, join
from prunecast.fleet.runner import Runner
from prunecast.fleet.slots import Shape, slot_adapters
from prunecast.fleet.stack import Noise
from prunecast.fleet.step import PackTrainer, renew_copies, reset, to_device
from prunecast.pruning import Chain, Trained, device_name
from prunecast.spec import MODULE_CALLS
from prunecast.training import (
    Score,
    Timeline,
    autocast,
    evaluation_batch,
    learning_rate,
    noise_seed,
    stretches,
)

STEPS_PER_CHECK = 32
"""Steps between two checks that losses are finite."""
CHECKS_AHEAD = 2
"""Maximum number of checks that the host is ahead of the device."""
IMAGES_AT_ONCE = 32_768
"""Images of all slots together in one batch of an evaluation."""


class LevelStopped(Exception):  # noqa: N818 - nothing broke
    """The fleet must stop in the middle of this level; its progress is stored."""


@dataclass(frozen=True, kw_only=True)
class Diverged:
    """A pack of several members with a value that is not finite, so that none of its results can be used."""

    suspects: tuple[int, ...]
    """The positions, in `members`, of those that were the first to have one."""


@dataclass(frozen=True, kw_only=True)
class LevelResult:
    """The results of a level; a member that trained alone may have diverged."""

    trained: list[Trained]
    rewinds: Networks | None
    """The networks at the rewind point; None if no member is at level 0."""


@dataclass(frozen=True, kw_only=True)
class LevelTraining:
    """The training of a level of some members in a runner's pack; members[i] is in slot slots[i]."""

    runner: Runner
    members: Sequence[Member]
    slots: Sequence[int]
    host: Executor
    """Threads for work on the host."""
    stopping: Callable[[], bool]
    """Whether the fleet must stop."""
    shape: Shape = ()
    """The slots of the pack; may be empty if all are for whole networks."""
    checkpoint_seconds: float = math.inf
    """The time between two checkpoints. Stopping a level stores one, too."""

    @property
    def trainer(self) -> PackTrainer:
        """The tensors that steps read and write."""
        return self.runner.trainer

    @cached_property
    def _placement(self) -> Placement:
        return Placement(
            layout=self.trainer.pack.layout,
            members=self.members,
            slots=self.slots,
            adapters=slot_adapters(self.members, self.shape, self.slots),
        )

    def run(self) -> Coroutine[LevelResult | Diverged]:
        """Train the level; raise `LevelStopped`, after storing a checkpoint, if the fleet must stop.

        Examples of the first pieces are drawn while the pack is filled, those of later pieces while earlier ones train.
        """
        began = saved = time.perf_counter()
        reached, last, pieces = self.members[0].first, self.members[0].level.last, self._pieces()
        drawing = deque(self._draw(piece) for piece in pieces[:2])
        yield from self._begin()
        losses, snapshot = _Losses(self.runner), None
        for number, piece in enumerate(pieces):
            epochs = yield from result_of(drawing.popleft())
            drawing.extend(self._draw(following) for following in pieces[number + 2 : number + 3])
            if piece.begin == self._times.rewind and self._saves_rewind:
                snapshot = _copied(self.trainer.pack)
            load_piece(self.runner, epochs, self.members[0].chain, piece)
            for steps in self._launches(piece):
                self.runner.advance(steps)
                reached += steps
                if not (yield from losses.are_finite()):
                    break
            if not losses.finite:
                break
            stop = self.stopping() and reached < last
            if stop or (time.perf_counter() - saved > self.checkpoint_seconds and reached < last):
                yield from losses.finish()
                if reached > self.members[0].first:
                    yield from self._save(reached, began, snapshot)
                saved = time.perf_counter()
            if stop:
                raise LevelStopped
        yield from losses.finish()
        return (yield from self._ended(began, snapshot))

    def _ended(self, began: float, snapshot: dict[str, Tensor] | None) -> Coroutine[LevelResult | Diverged]:
        """Evaluate the members and empty the pack; `snapshot` is a copy of it at the rewind point of level 0."""
        trainer, members = self.trainer, self.members
        first, last = members[0].first, members[0].level.last
        healthy = trainer.healthy.tolist()
        counts = [healthy[slot] for slot in self.slots]
        networks = self._on_host(trainer.pack.tensors(), last - first)
        rewinds = None if snapshot is None else self._on_host(snapshot, self._times.rewind - first)
        scores = []
        if min(counts) == last - first:
            scores = yield from evaluate_members(self.runner, members, self.slots)
        trainer.pack.wipe()
        yield self.runner.record_event()  # the next user of the runner finds its stream idle
        ends = yield from result_of(networks)
        starts = None if rewinds is None else (yield from result_of(rewinds))
        finite = yield from result_of(self.host.submit(are_finite, ends))
        seconds = (time.perf_counter() - began) / len(members)
        suspects = _suspects(counts, finite, last - first)
        overflowed = tuple(
            place for place, score in enumerate(scores) if not math.isfinite(score["test"].loss)
        )
        if (suspects or overflowed) and len(members) > 1:
            return Diverged(suspects=suspects or overflowed)
        device = device_name(trainer.cursor.device)
        if suspects:
            (network,), member = ends, members[0]
            steps, spent = _noticed(member, counts[0]), seconds + member.seconds
            lost = Trained(network=network, diverged=True, seconds=spent, device=device, steps=steps)
            return LevelResult(trained=[lost], rewinds=None)
        trained = [
            Trained(
                network=network,
                test=score["test"],
                train=score["examples"],
                validation=score.get("validation"),
                seconds=seconds + member.seconds,
                device=device,
            )
            for member, network, score in zip(members, ends, scores, strict=True)
        ]
        return LevelResult(trained=trained, rewinds=starts)

    @property
    def _times(self) -> Timeline:
        return self.members[0].chain.times

    def _begin(self) -> Coroutine[None]:
        """Fill the pack with the members at the start of their levels, or at their checkpoints."""
        trainer = self.trainer
        contents = yield from result_of(self.host.submit(start_contents, self._placement))
        state = None
        if any(member.checkpoint for member in self.members):
            laid_out = self.host.submit(optimizer_contents, self._placement)
            state = yield from result_of(laid_out)
        trainer.pack.fill(contents)
        reset(trainer)
        for kind, tensors in (state or {}).items():
            for tensor, values in zip(trainer.optimizer_state[kind], tensors, strict=True):
                tensor.copy_(values)

    @property
    def _saves_rewind(self) -> bool:
        return any(member.level.level == 0 for member in self.members)

    def _pieces(self) -> "list[Piece]":
        return load_pieces(
            self._times,
            self.members[0].first,
            self.members[0].level.last,
            room=len(self.trainer.rates),
            cut=self._times.rewind if self._saves_rewind else None,
        )

    def _draw(self, piece: "Piece") -> "Future[EpochData]":
        """Draw the examples of a piece in a host thread."""
        of_slots: list[Chain | None] = [None] * self.trainer.pack.slots
        for member, slot in zip(self.members, self.slots, strict=True):
            of_slots[slot] = member.chain
        return self.host.submit(draw_epochs, of_slots, piece.epochs)

    def _launches(self, piece: "Piece") -> Iterator[int]:
        """The number of steps of each launch, until the end of a piece or until the fleet must stop.

        For members that draw noise, each stretch seeds the generators anew, as in the plain loop; they can only be
        stopped between two stretches.
        """
        noise, whole = self.trainer.noise, [(piece.begin, piece.end)]
        for begin, end in whole if noise is None else stretches(self._times, piece.begin, piece.end):
            for first in range(begin, end, STEPS_PER_CHECK):
                if self.stopping() and (noise is None or first == begin):
                    return
                if noise is not None and first == begin:
                    self._restart(noise, begin)
                yield min(STEPS_PER_CHECK, end - first)

    def _restart(self, noise: Noise, begin: int) -> None:
        """Seed the generators of noise for the stretch that begins with this step."""
        for member, slot in zip(self.members, self.slots, strict=True):
            noise.generators[slot].manual_seed(noise_seed(member.chain.spec.replicate, begin))

    def _save(self, step: int, began: float, snapshot: dict[str, Tensor] | None) -> Coroutine[None]:
        """Store checkpoints, unless a loss is not finite; the end of the level reports that."""
        trainer, first = self.trainer, self.members[0].first
        if not bool(torch.isfinite(trainer.losses).all()):
            return
        networks = self._on_host(trainer.pack.tensors(), step - first)
        rewinds = None if snapshot is None else self._on_host(snapshot, self._times.rewind - first)
        state = {
            kind: [tensor.detach().to("cpu", copy=True) for tensor in tensors]
            for kind, tensors in trainer.optimizer_state.items()
        }
        ends = yield from result_of(networks)
        starts = None if rewinds is None else (yield from result_of(rewinds))
        seconds = (time.perf_counter() - began) / len(self.members)
        write = partial(write_checkpoints, self._placement, state)
        yield from result_of(self.host.submit(write, ends, starts, step, seconds))

    def _on_host(self, tensors: Mapping[str, Tensor], steps: int) -> "Future[Networks]":
        """The members' networks after `steps` steps: copied to the host here, cut out of the pack by a host thread."""
        pack = self.trainer.pack
        host = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        counts = [
            {name: count + steps for name, count in (pack.batch_counts[slot] or {}).items()}
            for slot in self.slots
        ]
        return self.host.submit(own_networks, self._placement, host, counts)


class _Losses:
    """Checks that losses are finite, and keeps the host at most `CHECKS_AHEAD` checks ahead of the device."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._checks: deque[tuple[StreamEvent, Tensor]] = deque()
        self.finite = True

    def are_finite(self) -> Coroutine[bool]:
        """Copy the losses after all steps launched so far, and check copies that have arrived."""
        losses = self._runner.trainer.losses
        seen = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=losses.is_cuda)
        seen.copy_(losses, non_blocking=True)
        self._checks.append((self._runner.record_event(), seen))
        yield from self._look(CHECKS_AHEAD)
        return self.finite

    def finish(self) -> Coroutine[None]:
        """Check all copies, and wait for everything that was launched."""
        yield from self._look(0)
        yield self._runner.record_event()

    def _look(self, left: int) -> Coroutine[None]:
        while len(self._checks) > left:
            event, seen = self._checks.popleft()
            yield event
            self.finite = self.finite and bool(torch.isfinite(seen).all())


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Steps whose examples are on the device at the same time: an epoch, several short ones, or part of one."""

    begin: int
    end: int
    epochs: range
    start: int
    """The first step of the first epoch."""


def load_pieces(times: Timeline, first: int, last: int, *, room: int, cut: int | None) -> list[Piece]:
    """Cut the steps from `first` to before `last` so that the epochs of each piece fit into `room` steps.

    Several short epochs make one piece, because each load costs the host some milliseconds. No piece crosses `cut`.
    """
    many, found = max(1, room // times.epoch), []
    while first < last:
        epoch = first // times.epoch
        end = min(last, (epoch + many) * times.epoch)
        if cut is not None and first < cut < end:
            end = cut
        epochs = range(epoch, -(-end // times.epoch))
        found.append(Piece(begin=first, end=end, epochs=epochs, start=epoch * times.epoch))
        first = end
    return found


@torch.no_grad()
def load_piece(runner: Runner, epochs: EpochData, chain: Chain, piece: Piece) -> None:
    """Copy examples, augmentation and learning rates to the device, and set the cursor to the start of the piece."""
    trainer, device, times = runner.trainer, runner.trainer.cursor.device, chain.times
    count = epochs.order.shape[1]
    trainer.order[:, :count].copy_(to_device(epochs.order, device))
    if trainer.draws is not None and epochs.draws is not None:
        for target, values in zip(trainer.draws.tensors(), epochs.draws.tensors(), strict=True):
            target[:, :count].copy_(to_device(values, device))
    steps = range(piece.start, piece.start + len(piece.epochs) * times.epoch)
    rates = [learning_rate(chain.spec.recipe, times, step) for step in steps]
    trainer.rates[: len(rates)].copy_(to_device(torch.tensor(rates, dtype=trainer.rates.dtype), device))
    trainer.cursor.fill_(piece.begin - piece.start)


def _copied(pack: Pack) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in pack.tensors().items()}


def _noticed(member: Member, healthy: int) -> int | None:
    """Steps until the end of the stretch in which a loss was first not finite, as the plain loop counts."""
    level, bad = member.level, member.first + healthy
    ends = (end for _, end in stretches(member.chain.times, member.first, level.last) if end > bad)
    return next((end - level.first for end in ends), None)


def _suspects(counts: Sequence[int], finite: Sequence[bool], steps: int) -> tuple[int, ...]:
    """The members whose losses were the first that were not finite, or whose final weights are not finite."""
    if min(counts) < steps:
        return tuple(place for place, count in enumerate(counts) if count == min(counts))
    return tuple(place for place, good in enumerate(finite) if not good)


def evaluate_members(
    runner: Runner, members: Sequence[Member], slots: Sequence[int]
) -> Coroutine[list[dict[str, Score]]]:
    """Each member's scores on the test set, its training examples, and its validation examples if it has some."""
    renew_copies(runner.trainer)
    chains = [member.chain for member in members]
    dataset = chains[0].dataset
    test = yield from evaluate_pack(runner, dataset.test, np.arange(len(dataset.test)))
    found = [{"test": test[slot]} for slot in slots]
    for name in ("examples", "validation"):
        examples = [getattr(chain, name) for chain in chains]
        if len(examples[0]) == 0:
            continue
        indices = np.zeros((runner.trainer.pack.slots, len(examples[0])), dtype=np.int64)
        for slot, chosen in zip(slots, examples, strict=True):
            indices[slot] = chosen
        scores = yield from evaluate_pack(runner, dataset.train, indices)
        for part, slot in zip(found, slots, strict=True):
            part[name] = scores[slot]
    return found


def evaluate_pack(runner: Runner, source: Source, indices: NDArray[np.int64]) -> Coroutine[list[Score]]:
    """Each slot's score. Indices are (count) if all slots share the examples, or (slots, count)."""
    chosen = to_device(torch.from_numpy(indices), runner.trainer.cursor.device)
    if (fused_evaluation := runner.evaluations.get(id(source))) is not None:
        wrong, loss = fused_evaluation.counts(chosen)
    else:
        wrong, loss = yield from _counted(runner, source, chosen)
    yield runner.record_event()
    count = indices.shape[-1]
    return [
        Score(error=bad / count, loss=total / count)
        for bad, total in zip(wrong.tolist(), loss.tolist(), strict=True)
    ]


def _counted(runner: Runner, source: Source, chosen: Tensor) -> Coroutine[tuple[Tensor, Tensor]]:
    """Wrong answers and summed losses of each slot. It yields between batches, so that other packs can run."""
    pack, device = runner.trainer.pack, chosen.device
    wrong = torch.zeros(pack.slots, dtype=torch.int64, device=device)
    loss = torch.zeros(pack.slots, dtype=torch.float64, device=device)
    size = min(evaluation_batch(source), max(100, IMAGES_AT_ONCE // pack.slots))
    before = runner.record_event()
    for part in torch.split(chosen, size, dim=-1):
        _add_batch(runner, source, part, wrong, loss)
        yield before  # one batch runs while the next is launched
        before = runner.record_event()
    return wrong, loss


@torch.no_grad()
def _add_batch(runner: Runner, source: Source, part: Tensor, wrong: Tensor, loss: Tensor) -> None:
    trainer, pack = runner.trainer, runner.trainer.pack
    images = source.batch(part.flatten(), None).view(-1, part.shape[-1], *source.image_shape)
    images = join(images.expand(pack.slots, *images.shape[1:]), pack.layout.channels, trainer.image_dtype)
    with MODULE_CALLS, autocast(trainer.recipe.precision, part.device):
        pack.module.eval()
        scores = pack.module(images).float().reshape(part.shape[-1], pack.slots, -1)
        pack.module.train()
    labels = source.labels[part.expand(pack.slots, -1)].t()
    wrong += (scores.argmax(2) != labels).sum(0)
    rows = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
    loss += rows.view(labels.shape).double().sum(0)
