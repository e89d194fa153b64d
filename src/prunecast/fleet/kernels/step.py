"""The training step of a pack in kernels of the package, and its evaluation, several batches per CUDA graph."""

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor

from prunecast.data import MemorySource, Source
from prunecast.fleet.kernels.library import Argument, Compile, Launch
from prunecast.fleet.kernels.lowering import lower
from prunecast.fleet.kernels.passes import Passes, prepare_passes, variants
from prunecast.fleet.kernels.program import Program, Unfused
from prunecast.fleet.kernels.tables import PackTable, pack_table
from prunecast.fleet.kernels.tiling import head_launch, head_parts, images_launch
from prunecast.fleet.step import PackTrainer
from prunecast.spec import Recipe

COMPILING_THREADS = 8
BATCHES_PER_GRAPH = 8
"""Evaluation batches per CUDA graph; fewer launches save the host time."""


@dataclass(frozen=True, kw_only=True)
class EvaluationBuffers:
    """The tensors that an evaluation reads and writes; only their values change."""

    source: MemorySource
    order: Tensor
    """(1 or slots, positions), int32: the examples of all slots, or of each slot."""
    count: Tensor
    """The number of positions in use, one int32."""
    cursor: Tensor
    """The number of the batch, one int64."""
    wrong: Tensor
    """(slots), int32: wrong answers."""
    losses: Tensor
    """(slots): sums of losses."""


@dataclass(frozen=True, kw_only=True)
class FusedStep:
    """All launches of a training step, with the tensors for intermediate results."""

    trainer: PackTrainer
    source: MemorySource
    """The trainer's training examples."""
    program: Program
    passes: Passes
    table: PackTable
    sums: Tensor
    """The sums of all norms in one tensor."""
    slope: Tensor
    """(batch, channels): the gradient of the final value's mean."""
    gradients: Mapping[str, Tensor]
    ranges: Tensor
    parts: Tensor
    head_launch: Launch
    compile: Compile

    def __call__(self) -> None:
        """Do one step of all members at the cursor."""
        trainer = self.trainer
        drawn = (None, None) if trainer.draws is None else (trainer.draws.flip, trainer.draws.shift)
        self._images(self.source, trainer.order, drawn)
        self.passes.forward()
        head = self.program.head
        ends = [trainer.losses, self.slope, self.gradients[f"{head}.weight"], self.gradients[f"{head}.bias"]]
        self._head("head", self.source, trainer.order, ends, [])
        self.passes.backward(self.slope)
        recipe, table = trainer.recipe, self.table
        rule: list[Argument] = [table.rows, table.blocks, trainer.rates, trainer.cursor]
        rule += [float(recipe.momentum), float(recipe.weight_decay), table.step]
        self._launch("update", Launch(grid=(len(table.blocks), 1, 1)), rule)
        self._launch(
            "finish",
            Launch(grid=(1, 1, 1)),
            [trainer.losses, trainer.healthy, trainer.cursor, trainer.pack.slots],
        )

    def evaluate_batch(self, at: EvaluationBuffers) -> None:
        """Add the batch at the cursor to the counts; call `freeze_norms` before the first batch."""
        self._images(at.source, at.order, (None, None), at.cursor)
        self.passes.forward(count=1.0, sums=False)
        self._head("head_scores", at.source, at.order, [at.wrong, at.losses], [at.count], at.cursor)
        at.cursor.add_(1)

    def freeze_norms(self) -> None:
        """Make norms use their running statistics until `unfreeze_norms`."""
        self._launch("still", Launch(grid=(len(self.table.rows), 1, 1)), [self.table.rows])

    def unfreeze_norms(self) -> None:
        """Make norms use the batch's statistics again."""
        self.sums.zero_()

    def _images(
        self,
        source: MemorySource,
        order: Tensor,
        drawn: tuple[Tensor | None, Tensor | None],
        cursor: Tensor | None = None,
    ) -> None:
        colours, height, width = source.image_shape
        slots, channels, batch = self.trainer.pack.slots, self.program.image_channels, self.passes.batch
        launch = images_launch(
            batch=batch, slots=slots, height=height, width=width, colours=colours, channels=channels
        )
        args: list[Argument] = [source.images, source.mean, source.scale, order, *drawn]
        args += [self.trainer.cursor if cursor is None else cursor, self.passes.images, order.shape[1]]
        args += [batch, slots, height, width, colours, channels, len(order)]
        self._launch("images", launch, args)

    def _head(
        self,
        name: str,
        source: MemorySource,
        order: Tensor,
        ends: list[Tensor],
        more: list[Tensor],
        cursor: Tensor | None = None,
    ) -> None:
        program, batch = self.program, self.passes.batch
        trained = dict(zip(self.trainer.pack.masks, self.trainer.trained, strict=True))
        channels, area = program.channels(program.final), program.size(program.final) ** 2
        args: list[Argument] = [self.passes.joined[program.final], trained[f"{program.head}.weight"]]
        args += [trained[f"{program.head}.bias"], self.ranges, self.parts, source.labels, order]
        args += [self.trainer.cursor if cursor is None else cursor, *ends, order.shape[1], len(order)]
        args += [batch, area, channels, len(program.members), program.classes, *more]
        self._launch(name, self.head_launch, args)

    def _launch(self, name: str, launch: Launch, args: list[Argument]) -> None:
        source = {"images": "images.cu", "head": "head.cu", "head_scores": "head.cu"}.get(name, "update.cu")
        self.compile(source, {}).launch(
            name, grid=launch.grid, threads=launch.threads, shared=launch.shared, args=args
        )


def on_device(source: Source) -> TypeGuard[MemorySource]:
    """Return whether the kernels can read a source: contiguous bytes and labels on the device."""
    if not isinstance(source, MemorySource) or source.streams:
        return False
    read = (source.images, source.labels, source.mean, source.scale)
    formats = (torch.uint8, torch.int64, torch.float32, torch.float32)
    return (
        all(
            tensor.dtype == kind and tensor.is_contiguous()
            for tensor, kind in zip(read, formats, strict=True)
        )
        and source.mean.numel() == source.scale.numel() == source.image_shape[0]
    )


FUSED_KEYS = (
    *("name", "epochs", "steps", "learning_rate", "drops", "drop_factor", "warmup", "rewind", "schedule"),
    *("final_learning_rate", "batch_size", "momentum", "second_momentum", "weight_decay", "augmentation"),
    *("precision", "validation_examples", "checkpoint_steps", "initial_weights"),
)
"""Fields of a recipe that may have any value or are checked separately; all others must have their defaults."""


def refuse_recipe(recipe: Recipe) -> None:
    """Raise `Unfused` for a recipe that the kernels do not support."""
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if field.name not in FUSED_KEYS and value != field.default:
            raise Unfused(f"Fused steps need {field.name} {field.default}, not {value}.")
    if recipe.precision != "bf16":
        raise Unfused(f"Fused steps need precision bf16, not {recipe.precision}.")
    if recipe.augmentation == "resized-crop":
        raise Unfused("Fused steps cannot crop and scale images (augmentation resized-crop).")


def fused_step(trainer: PackTrainer, kernels_of: Compile, packs: int) -> FusedStep:
    """Prepare the step of a pack; `packs` packs are expected to train at once.

    Raises `Unfused` if the kernels do not support the network, the data or the recipe.
    """
    source = trainer.source
    refuse_recipe(trainer.recipe)
    if not on_device(source):
        raise Unfused("Fused steps need images that are bytes on the device, with one mean per colour.")
    if trainer.losses.dtype != torch.float32:
        raise Unfused(f"Fused steps need parameters in float32, not {trainer.losses.dtype}.")
    _refuse_layout(trainer)
    program = lower(trainer.pack, source.image_shape)
    device = trainer.cursor.device
    _compile_all(program, kernels_of, device)
    channels = [conv.out_channels for conv in program.convolutions]
    flat = torch.zeros(4 * sum(channels), device=device)
    pieces = torch.split(flat, [4 * many for many in channels])
    sums = {conv.norm: piece.view(4, -1) for conv, piece in zip(program.convolutions, pieces, strict=True)}
    laid_out = {name: _in_memory_order(tensor) for name, tensor in trainer.pack.parameters().items()}
    gradients = {name: torch.zeros_like(tensor) for name, tensor in laid_out.items()}
    trained = {
        name: _in_memory_order(tensor)
        for name, tensor in zip(trainer.pack.masks, trainer.trained, strict=True)
    }
    final = program.channels(program.final)
    parts = head_parts(program.members)
    return FusedStep(
        trainer=trainer,
        source=source,
        program=program,
        passes=prepare_passes(
            program,
            batch=trainer.batch,
            packs=packs,
            parameters=trained,
            sums=sums,
            gradients=gradients,
            kernels_of=kernels_of,
        ),
        table=pack_table(trainer, program, sums, gradients),
        sums=flat,
        slope=torch.zeros(trainer.batch, final, device=device),
        gradients=gradients,
        ranges=torch.tensor(program.members, dtype=torch.int32, device=device),
        parts=torch.tensor(parts, dtype=torch.int32, device=device),
        head_launch=head_launch(
            program.members, parts, batch=trainer.batch, channels=final, classes=program.classes
        ),
        compile=kernels_of,
    )


def _refuse_layout(trainer: PackTrainer) -> None:
    """Refuse other memory layouts than channels last: the kernels get addresses, not strides."""
    groups = zip(
        trainer.pack.masks,
        trainer.parameters,
        trainer.trained,
        trainer.optimizer_state["momentum"],
        trainer.pack.masks.values(),
        strict=True,
    )
    for name, *tensors in groups:
        if not all(_in_memory_order(tensor).is_contiguous() for tensor in tensors):
            raise Unfused(f"The parameter {name!r} is not stored channels last, so it is not fused.")


def _compile_all(program: Program, kernels_of: Compile, device: torch.device) -> None:
    """Compile all kernels in host threads, then load them in this thread."""
    wanted = {(source, tuple(macros.items())) for source, macros in variants(program, device)}
    wanted |= {(source, ()) for source in ("images.cu", "head.cu", "update.cu")}
    with ThreadPoolExecutor(COMPILING_THREADS) as pool:
        compiled = list(pool.map(lambda one: kernels_of(one[0], dict(one[1])), sorted(wanted)))
    for kernels in compiled:
        kernels.load()


def _in_memory_order(tensor: Tensor) -> Tensor:
    """Return a view of a weight in memory order: (outputs, rows, columns, inputs)."""
    return tensor.detach().permute(0, 2, 3, 1) if tensor.ndim == 4 else tensor.detach()


@dataclass(frozen=True, kw_only=True)
class FusedEvaluation:
    """The evaluation of a pack on examples of one source."""

    fused: FusedStep
    buffers: EvaluationBuffers
    graph: torch.cuda.CUDAGraph | None

    def counts(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Launch the evaluation of examples that all share (count) or of each slot's own (slots, count).

        Returns every slot's wrong answers and its sum of losses, once the stream has come so far.
        """
        buffers, count = self.buffers, indices.shape[-1]
        buffers.order[:, :count].copy_(indices)
        buffers.count.fill_(count)
        for tensor in (buffers.cursor, buffers.wrong, buffers.losses):
            tensor.zero_()
        self.fused.freeze_norms()
        batches = -(-count // self.fused.passes.batch)
        if self.graph is None:
            for _ in range(batches):
                self.fused.evaluate_batch(buffers)
        else:
            for _ in range(-(-batches // BATCHES_PER_GRAPH)):  # batches after the last count nothing
                self.graph.replay()
        self.fused.unfreeze_norms()
        return buffers.wrong.clone(), buffers.losses.clone()


def fused_evaluation(fused: FusedStep, source: MemorySource, *, shared: bool) -> FusedEvaluation:
    """Allocate tensors, and capture on a GPU; `shared` if all slots are evaluated on the same examples."""
    device, slots = fused.trainer.cursor.device, fused.trainer.pack.slots
    buffers = EvaluationBuffers(
        source=source,
        order=torch.zeros((1 if shared else slots, len(source)), dtype=torch.int32, device=device),
        count=torch.zeros(1, dtype=torch.int32, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        wrong=torch.zeros(slots, dtype=torch.int32, device=device),
        losses=torch.zeros(slots, device=device),
    )
    return FusedEvaluation(
        fused=fused, buffers=buffers, graph=_captured(fused, buffers) if device.type == "cuda" else None
    )


def _captured(fused: FusedStep, buffers: EvaluationBuffers) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream(buffers.cursor.device)
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(BATCHES_PER_GRAPH):
            fused.evaluate_batch(buffers)
    return graph
