"""The other members of a chain's group: they train and evaluate beside the first, and write nothing."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from prunecast.data import Dataset
from prunecast.pruning.chain import bench_of, examine, share_level
from prunecast.pruning.opened import Chain, built
from prunecast.spec import ChainSpec
from prunecast.training import ProcessGroup, Trainer, stepper, stretches, train
from prunecast.training.precision import settings


def follow_chain(spec: ChainSpec, store: Path, dataset: Dataset, group: ProcessGroup) -> NoReturn:
    """Do every level with the member that runs the chain, until whoever started this process ends it."""
    chain = built(spec, store, dataset)
    bench = bench_of(chain, group)
    advance = stepper(bench)
    while True:
        with settings(spec.recipe.precision, bench.cursor.device, spec.threads):
            follow_level(chain, bench, advance)


def follow_level(chain: Chain, bench: Trainer, advance: Callable[[], None]) -> None:
    """One level: the same stretches, the same ends, the same evaluations as `train_level`."""
    first, last = share_level(bench)
    for begin, end in stretches(chain.times, first, last):
        if not math.isfinite(train(bench, advance, begin, end)):
            return
    examine(chain, bench, float)
