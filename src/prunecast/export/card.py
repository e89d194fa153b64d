"""The card of a made network as a value: what was predicted, what was measured, and how it was made."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunecast import __version__
from prunecast.choice import Question
from prunecast.data import Preprocessing, Split
from prunecast.export.files import CARD, FORMAT, TEXT
from prunecast.families import NotPrunable
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.pruning import write_whole
from prunecast.wording import finding_as_json


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Which member of which family it is."""

    family: str
    depth: int
    width: float
    num_classes: int
    image_shape: tuple[int, int, int]
    """channels, height and width of the images it reads"""
    density: float
    """prunable weights kept over all of them, exactly"""
    level: int
    units: dict[str, int] | None = None
    """where whole channels were removed: how many are left, by the layer that computes them"""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What the law predicted before anything was trained."""

    law: str
    table: str
    metric: Metric
    """what is predicted, and compared below"""
    value: float
    interval: tuple[float, float]
    """the interval that 95% of new training runs fall in"""
    probability: float | None
    """that the target is met"""
    source: str
    """law, or measured where such a network had been trained"""
    findings: tuple[Finding, ...]
    """what to know about the prediction"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the network in the files does."""

    error: float
    """on the test set, with the arithmetic of the recipe"""
    error_fp32: float
    """the same in 32 bits, as model.py computes"""
    loss: float
    validation_error: float | None
    train_error: float | None
    chance_error: float
    """of the best constant answer"""
    in_interval: bool
    """whether the measurement fell into the 95% interval"""
    meets_target: bool | None
    """None where no target was asked for"""


@dataclass(frozen=True, kw_only=True)
class CardLatency:
    """Milliseconds of one call: predicted before the network was trained, and measured on its files."""

    predicted: float
    interval: tuple[float, float] | None
    """95% of predicted latencies fall in this interval; None if the latency comes from the table"""
    measured: float
    """the median"""
    low: float
    """the 10th percentile"""
    high: float
    """the 90th percentile"""
    runtime: str
    batch: int
    threads: int
    within_budget: bool | None
    """whether the measured one keeps to the budget; None where none was given"""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Whole numbers, counted on the network itself."""

    parameters: int
    """all parameters of the unpruned network"""
    weights: int
    """the prunable ones"""
    nonzero: int
    """the prunable ones kept"""
    stored: int
    """those, biases and normalisation"""
    not_prunable: tuple[NotPrunable, ...]
    """tensors other than vectors that are never pruned"""
    dead_layers: tuple[str, ...]
    """prunable tensors without a weight left"""
    connected: int | None
    """kept weights on a path from image to output; None if the network's layers are not known"""
    multiply_adds: int
    """of one image, unpruned"""
    multiply_adds_kept: int
    """of one image, if every zero is skipped"""
    kept_dense: tuple[NotPrunable, ...] = ()
    """prunable tensors whose inputs cannot be divided into the groups of a structure N:M"""


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Bytes of the files on disk."""

    dense: int
    """model.safetensors"""
    mask: int
    """mask.safetensors"""
    sparse: int
    """sparse.safetensors"""
    onnx: int | None
    """model.onnx; None where there is none"""


@dataclass(frozen=True, kw_only=True)
class Code:
    """How to run the network without prunecast."""

    kind: str
    """`layers`, `operators` of evaluation mode, or a call of the family's `source`"""
    image_by_image: bool
    """whether batches are cut into single images, because the network could not be traced for batches of any size"""
    problem: str
    """why it has neither layers nor operators; empty if it has"""
    copied: bool
    """whether family_source.py is a copy of the file with the family's function"""
    onnx_image_by_image: bool
    """whether the ONNX file takes one image at a time"""
    onnx_missing: str
    """the module that an ONNX file needs and that is not installed; empty where nothing is missing"""
    onnx_problem: str
    """why torch could not write an ONNX file; empty where it could"""


@dataclass(frozen=True, kw_only=True)
class Start:
    """The trained weights that the chain started from."""

    file: str
    digest: str
    as_it_is: bool
    """whether level 0 is the network of the file, instead of being trained from it"""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How it was trained."""

    dataset: str
    data: str
    """digest of the images and labels"""
    num_examples: int
    recipe: dict[str, Any]
    method: dict[str, Any]
    replicate: int
    """the seed: initialisation, order, augmentation and subsample follow from it"""
    levels: tuple[dict[str, Any], ...]
    """level, density, test error and seconds of every training run"""
    seconds: float
    device: str
    code: str
    environment: dict[str, str]
    spec: str
    """digest of everything that changes the numbers; the chain's folder in the store"""
    split: Split | None = None
    """how prunecast chose the test images; None if the data has a test set"""
    start: Start | None = None
    """None if it started from random weights"""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A made network."""

    network: Shape
    preprocessing: Preprocessing | None
    """how an image becomes its input; None if a dataset of your own does not define it"""
    class_names: tuple[str, ...]
    """in the order of its logits; numbers where the classes have no names"""
    question: Question
    predicted: Predicted
    measured: Measured
    counts: Counts
    disk: Disk
    code: Code
    training: Training
    latency: CardLatency | None = None
    """None where the law's table has no latencies"""
    other_latencies: tuple[CardLatency, ...] = ()
    """in the other runtimes and with the other batches of the table"""

    def as_json(self) -> dict[str, Any]:
        """Plain lists, numbers and words."""
        body = dataclasses.asdict(self)
        if self.network.units is None:
            del body["network"]["units"]
        if self.latency is None:
            del body["latency"]
        if not self.other_latencies:
            del body["other_latencies"]
        if not self.counts.kept_dense:
            del body["counts"]["kept_dense"]
        for name in ("split", "start"):
            if body["training"][name] is None:
                del body["training"][name]
        if self.question.max_latency is None:
            del body["question"]["max_latency"]
        predicted = self.predicted
        del body["predicted"]["findings"]
        body["predicted"]["notes"] = [finding_as_json(own, predicted.metric) for own in predicted.findings]
        return {"format": FORMAT, "prunecast": __version__, **body}


def write_card(folder: Path, card: Card, text: str) -> None:
    """Write the card as JSON and as text; the JSON last, so that a folder that has it is complete."""
    write_whole(folder / TEXT, text.encode())
    body = json.dumps(card.as_json(), indent=1, ensure_ascii=False)
    write_whole(folder / CARD, body.encode() + b"\n")
