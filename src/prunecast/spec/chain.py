"""A chain: everything that changes its numbers, the digest that names it, and its random numbers.

Random numbers are pure functions of (replicate, purpose, counters), so that none of them has to be stored. The words
are joined to `prunecast/1/<replicate>/<purpose>/<counter>/...` and hashed with SHA-256; the first 128 bits of the hash
are the key of a Philox generator. Two purposes or two counters therefore never share numbers, and the numbers of epoch
57 are known without drawing those of epochs 0 to 56.
"""

import dataclasses
import functools
import hashlib
import json
import math
import threading
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prunecast.catalog import FAMILIES, LEVEL_CAP, find_dataset
from prunecast.errors import PrunecastError, require, require_flag, require_number, require_text
from prunecast.spec.methods import CHANNELS, Method, n_of_m
from prunecast.spec.recipes import ANNEALED, Recipe

SPEC_VERSION = 1
Purpose = Literal["initialisation", "order", "augmentation", "subsample", "validation", "score", "noise"]

TORCH_GENERATOR = threading.RLock()
"""Hold this lock while seeding torch's global generator or drawing from it: all threads share it."""

MODULE_CALLS = threading.RLock()
"""Hold this lock while calling an nn.Module outside the training thread, and while torch.fx traces one: the tracer
replaces `nn.Module.__call__` for all threads. Take it before TORCH_GENERATOR if you need both."""


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """One network, pruned level by level: everything that changes its numbers."""

    family: str
    """A built-in family, or a user's own as `package.module:function`."""
    dataset: str
    """What tables call the data; by default also the loader's name."""
    recipe: Recipe
    """How every level is trained."""
    method: Method
    """Which weights are removed, and how the rest is retrained."""
    depth: int
    """Layers, not counting shortcuts."""
    width: float
    """Factor on the number of channels."""
    num_examples: int
    """Training examples in the subsample."""
    replicate: int = 0
    """Fixes initialisation, data order, augmentation and subsample."""
    loader: str | None = None
    """What to load if tables call it something else: `folder`, `arrays`, or `package.module:attribute`."""
    image_size: int | None = None
    """The size that images of a folder are resized to; by default they keep their own."""
    test_share: float = 0.2
    """The share of every class that is used for testing, for a folder without a test set."""
    split_seed: int = 0
    """Chooses the images of that share."""
    threads: int = 1
    """torch threads on the CPU; their number changes the order of sums."""
    start: str | None = None
    """The digest of the file of weights that the chain starts from; by default it starts from random weights."""
    start_trained: bool = False
    """Whether level 0 is the network of that file as it is, instead of being trained from it."""
    final_nonzero: int | None = None
    """The last level keeps exactly this number of weights, or as many whole channels as have no more, and its weights
    are stored."""

    def __post_init__(self) -> None:
        """Refuse sizes that no network or training run can have."""
        require(self.depth > 0, f"depth is {self.depth}; give a positive number of layers.")
        good = self.width > 0 and math.isfinite(self.width)
        require(good, f"width is {self.width}; give a positive factor.")
        require(self.num_examples > 0, f"num_examples is {self.num_examples}; give a positive number.")
        require(self.replicate >= 0, f"replicate is {self.replicate}; give 0 or more.")
        if self.loader is not None:
            require_text("loader", self.loader)
        for field in ("threads", "image_size"):
            if (value := getattr(self, field)) is not None:
                require_number(field, value, whole=True)
                require(value > 0, f"{field} is {value}; give a positive number.")
        require(
            ":" in self.family or self.recipe.initial_weights != "own",
            f"initial_weights own needs a model function of your own, but {self.family} is built in; remove it.",
        )
        ends_at_zero = self.recipe.schedule in ANNEALED and not self.recipe.final_learning_rate
        require(
            self.method.retraining != "fine-tuning" or not ends_at_zero,
            f"Fine-tuning continues at the last learning rate, but the schedule {self.recipe.schedule} ends at 0; "
            f"add final_learning_rate = {self.recipe.learning_rate / 10:g}, or another rate above 0, to the recipe.",
        )
        share = self.test_share
        require_number("test_share", share)
        require(0 < share < 1, f"test_share is {share}; give a share between 0 and 1, such as 0.2.")
        require_number("split_seed", self.split_seed, whole=True)
        if self.start is not None:
            require_text("start", self.start)
        require_flag("start_trained", self.start_trained)
        require(
            self.start is not None or not self.start_trained,
            "start_trained needs a start; name a file of weights.",
        )
        require(
            not (self.start_trained and self.method.before_training),
            f"The method {self.method.name} trains every level from its start; let the start be trained.",
        )
        final = self.final_nonzero
        require(final is None or final > 0, f"final_nonzero is {final}; keep at least one weight.")
        structure = self.method.structure
        known = structure in ("weights", CHANNELS) or n_of_m(structure) is not None
        require(
            final is None or known,
            f"final_nonzero needs a method that prunes single weights, {CHANNELS} or N:M, not {structure}.",
        )

    @functools.cached_property
    def digest(self) -> str:
        """The chain's name: the first 20 hex digits of the SHA-256 of its canonical form."""
        return hashlib.sha256(canonical(self).encode()).hexdigest()[:20]


COLUMNS = ("family", "dataset", "method", "recipe", "depth", "width", "num_examples", "replicate")
"""What tables say about a chain; of its method and recipe they have the names."""


def as_columns(spec: ChainSpec) -> dict[str, Any]:
    """What tables say about a chain, and its digest as `spec`."""
    names = {"method": spec.method.name, "recipe": spec.recipe.name, "spec": spec.digest}
    return {column: getattr(spec, column) for column in COLUMNS} | names


def as_dict(spec: ChainSpec) -> dict[str, Any]:
    """Every field of a spec as plain values, for the store."""
    return dataclasses.asdict(spec)


def from_dict(values: dict[str, Any]) -> ChainSpec:
    """The spec that `as_dict` wrote, even if it is older and lacks fields that were added later."""
    try:
        recipe = dict(values["recipe"])
        recipe["drops"] = tuple(recipe.get("drops", ()))
        others = {key: value for key, value in values.items() if key not in ("recipe", "method")}
        return ChainSpec(recipe=Recipe(**recipe), method=Method(**values["method"]), **others)
    except (KeyError, TypeError) as problem:
        raise PrunecastError(
            f"A chain's spec cannot be read ({problem}); it was written by a newer prunecast: upgrade prunecast."
        ) from problem


def canonical(spec: ChainSpec) -> str:
    """The spec as sorted JSON of what changes the numbers.

    Names, and how often a checkpoint is written, change nothing and are left out. So is every optional field that has
    its default, so that a field added by a later version renames no chain. (A published default must never change.)
    """
    body = _significant(spec, ("recipe", "method"))
    body["recipe"] = _significant(spec.recipe, ("name", "checkpoint_steps"))
    body["method"] = _significant(spec.method, ("name",))
    return json.dumps({"version": SPEC_VERSION, **body}, sort_keys=True, separators=(",", ":"))


def _significant(values: ChainSpec | Recipe | Method, without: tuple[str, ...]) -> dict[str, Any]:
    fields = [field for field in dataclasses.fields(values) if field.name not in without]
    return {
        field.name: _plain(getattr(values, field.name))
        for field in fields
        if getattr(values, field.name) != field.default
    }


def _plain(value: Any) -> Any:
    """One spelling per number: 1 and 1.0 are the same width, (80,) and (80.0,) the same drops."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def level_cap(family: str, dataset: str) -> int:
    """The last level of a chain that neither disconnects nor falls to chance, as in the paper."""
    facts = find_dataset(dataset)
    if facts is not None and facts.level_cap is not None:
        return facts.level_cap
    return FAMILIES[family].level_cap if family in FAMILIES else LEVEL_CAP


def stream_key(replicate: int, purpose: Purpose, *counters: int) -> int:
    """The 128-bit key of one stream of random numbers: the start of the SHA-256 of its words."""
    words = "/".join(["prunecast", "1", str(replicate), purpose, *map(str, counters)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:16], "little")


def rng(replicate: int, purpose: Purpose, *counters: int) -> np.random.Generator:
    """The NumPy generator of one stream, the same on every machine."""
    return np.random.Generator(np.random.Philox(key=stream_key(replicate, purpose, *counters)))


def seed(replicate: int, purpose: Purpose, *counters: int) -> int:
    """A 63-bit seed of the same stream, for generators other than NumPy's."""
    return stream_key(replicate, purpose, *counters) >> 65
