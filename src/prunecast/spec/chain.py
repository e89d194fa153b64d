"""The chain's spec, its canonical form, and the digest that names it."""

import dataclasses
import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.spec.check import require, require_number, require_text
from prunecast.spec.method import Method
from prunecast.spec.recipe import Recipe

SPEC_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """One network, pruned level by level: all that changes its numbers."""

    family: str
    """A built-in family, or a user's own as `package.module:function`."""
    dataset: str
    """What the table calls the data; by default also the loader's name."""
    recipe: Recipe
    """How every level is trained."""
    method: Method
    """How weights are chosen and the rest retrained."""
    depth: int
    """Layers, not counting shortcuts."""
    width: float
    """Factor on the number of channels."""
    num_examples: int
    """Training examples in the subsample."""
    replicate: int = 0
    """Fixes initialisation, data order, augmentation and subsample."""
    loader: str | None = None
    """The dataset to load where the table calls it otherwise, as `folder` or `arrays` for one's own data."""
    image_size: int | None = None
    """The size to which images of a folder are brought; their own by default."""
    threads: int = 1
    """torch threads on CPU: sums run in another order with another number."""
    final_nonzero: int | None = None
    """Weights below which no level prunes: the last one keeps exactly so many, and its weights are stored."""

    def __post_init__(self) -> None:
        """Refuse sizes that make no network or no training."""
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
        final = self.final_nonzero
        require(final is None or final > 0, f"final_nonzero is {final}; keep at least one weight.")

    @functools.cached_property
    def digest(self) -> str:
        """The chain's name: the head of SHA-256 of its canonical form."""
        return hashlib.sha256(canonical(self).encode()).hexdigest()[:20]


def as_dict(spec: ChainSpec) -> dict[str, Any]:
    """Every field of a spec as plain values, for the store."""
    return dataclasses.asdict(spec)


def from_dict(values: dict[str, Any]) -> ChainSpec:
    """The spec that `as_dict` wrote, also where it is older and lacks fields that came later."""
    try:
        recipe = dict(values["recipe"])
        recipe["drops"] = tuple(recipe.get("drops", ()))
        others = {key: value for key, value in values.items() if key not in ("recipe", "method")}
        return ChainSpec(recipe=Recipe(**recipe), method=Method(**values["method"]), **others)
    except (KeyError, TypeError) as problem:
        raise PrunecastError(
            f"A chain's spec cannot be read ({problem}); it was written by a newer prunecast: upgrade."
        ) from problem


def canonical(spec: ChainSpec) -> str:
    """The spec as sorted JSON of what changes the numbers.

    Names, and how often a checkpoint is written, change nothing and are left out. So is every optional field
    that has its default: a field that a later version adds then renames no chain. (A default, once published,
    must never change.)
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
