"""A chain: its data, its untrained network, its examples, and its folder in the store."""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from prunecast import __version__, families
from prunecast.data import Dataset, subsample
from prunecast.errors import PrunecastError
from prunecast.files import is_there
from prunecast.pruning.masks import Masks, full_masks
from prunecast.pruning.prune import check_method, check_structure
from prunecast.pruning.starts import load_start
from prunecast.pruning.store import ChainFolder, chain_folder, environment
from prunecast.spec import ChainSpec, rng, seed
from prunecast.training import Timeline, check_recipe, timeline


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A chain with its data and its untrained network."""

    spec: ChainSpec
    folder: ChainFolder
    dataset: Dataset
    untrained: nn.Module
    """The network as initialised or loaded from its file of weights, on the CPU; it is never trained."""
    prunable: tuple[str, ...]
    examples: NDArray[np.int64]
    """The subsample."""
    validation: NDArray[np.int64]
    """The held-out examples; most recipes have none."""
    times: Timeline

    @property
    def full(self) -> Masks:
        """The masks of level 0."""
        return full_masks({name: self.untrained.get_parameter(name) for name in self.prunable})


def open_chain(spec: ChainSpec, store: Path, dataset: Dataset) -> Chain:
    """Build a chain's network and choose its examples; write its spec, or check that its data is still the same."""
    check_method(spec.method)
    check_recipe(spec.recipe, spec.num_examples)
    chain = built(spec, store, dataset)
    try:
        check_structure(spec.method, chain.untrained, dataset.train.image_shape)
    except PrunecastError as problem:
        raise PrunecastError(f"family {spec.family!r}, method {spec.method.name!r}: {problem}") from problem
    folder = chain.folder
    about = {
        "code": code_version(),
        "environment": environment(),
        "data": dataset.digest,
        "prunable": list(chain.prunable),
    }
    folder.write_spec(spec, about)
    if folder.spec()[1].get("data") != dataset.digest:
        raise PrunecastError(
            f"The chain in {folder.path} was trained on different data than {dataset.name!r} now holds; "
            "give the data another name in the plan, or use another --store."
        )
    return chain


def built(spec: ChainSpec, store: Path, dataset: Dataset) -> Chain:
    """Build a chain's network and choose its examples, without writing to the store."""
    generator = torch.Generator().manual_seed(seed(spec.replicate, "initialisation"))
    shape = dataset.train.image_shape
    untrained = families.build(
        spec.family,
        depth=spec.depth,
        width=spec.width,
        num_classes=dataset.num_classes,
        generator=generator,
        image_shape=shape,
        own_weights=spec.recipe.initial_weights == "own",
    )
    if spec.start is not None:
        load_start(store, spec, untrained)
    examples, validation = choose_examples(spec, len(dataset.train))
    folder = chain_folder(store, spec)
    return Chain(
        spec=spec,
        folder=folder,
        dataset=dataset,
        untrained=untrained,
        prunable=_prunable(folder, untrained),
        examples=examples,
        validation=validation,
        times=timeline(spec.recipe, spec.num_examples),
    )


def _prunable(folder: ChainFolder, untrained: nn.Module) -> tuple[str, ...]:
    """The tensors to prune: those that the chain's spec.json lists, or else those that its first version pruned."""
    if not is_there(folder.path / "spec.json"):
        return families.prunable(untrained)
    begun = folder.spec()[1].get("prunable")
    if begun is None:
        return families.prunable(untrained, earlier=True)
    known = dict(untrained.named_parameters())
    for name in begun:
        if name not in known:
            raise PrunecastError(
                f"The chain in {folder.path} prunes the tensor {name!r}, which its family no longer has; restore the "
                "family, or use another --store."
            )
    return tuple(begun)


def choose_examples(spec: ChainSpec, total: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The subsample and the held-out examples, which do not overlap; classes are not balanced."""
    held = spec.recipe.validation_examples
    if spec.num_examples + held > total:
        raise PrunecastError(
            f"num_examples {spec.num_examples} and validation_examples {held} are more than the {total} "
            f"examples of {spec.dataset!r}; ask for fewer."
        )
    order = rng(spec.replicate, "validation").permutation(total) if held else np.arange(total)
    chosen = subsample(total - held, spec.num_examples, rng(spec.replicate, "subsample"))
    return np.sort(order[held:])[chosen], np.sort(order[:held])


TRAINED_BY = ("spec", "catalog", "families", "data", "training", "pruning", "distributed", "fleet")
"""The packages that a result depends on."""


@functools.cache
def code_version() -> str:
    """The package's version and a digest of all source that trains or prunes, CUDA kernels included."""
    package = Path(__file__).parent.parent
    sources = sorted(
        path
        for part in TRAINED_BY
        for path in (package / part).rglob("*")
        if path.suffix in (".py", ".cu", ".cuh", ".h")
    )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"{__version__}+{digest[:12]}"
