"""One ResNet-20 of width 1 with the paper's recipe on a GPU: seconds an epoch, and the error it ends with.

python benchmarks/chain_gpu.py IMAGES --out RESULTS, where IMAGES is a folder or an archive of class folders.
"""

import argparse
import time
from pathlib import Path

import torch

from prunecast import spec
from prunecast.data import Dataset, load
from prunecast.pruning import StopRules, chain_trainer, open_chain, run_chain
from prunecast.sweep.table import as_csv, row
from prunecast.training import settings, stepper, train


def planned(arguments: argparse.Namespace, num_examples: int) -> spec.ChainSpec:
    recipe = spec.recipe("cifar10").changed({"epochs": arguments.epochs, "precision": arguments.precision})
    return spec.ChainSpec(
        family="cifar_resnet",
        dataset="cifar10-images",
        loader="folder",
        recipe=recipe,
        method=spec.method("imp"),
        depth=20,
        width=1.0,
        num_examples=num_examples,
    )


def seconds_an_epoch(chain: spec.ChainSpec, store: Path, dataset: Dataset, *, graph: bool) -> float:
    """Time two epochs after one that warms up (and captures the graph)."""
    bench = chain_trainer(open_chain(chain, store, dataset))
    advance = stepper(bench, graph=graph)
    epoch = bench.times.epoch
    with settings(chain.recipe.precision, bench.cursor.device, chain.threads):
        train(bench, advance, 0, epoch)
        began = time.perf_counter()
        train(bench, advance, epoch, 3 * epoch)
        return (time.perf_counter() - began) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=160)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--level-cap", type=int, default=0, help="levels to prune after the unpruned network")
    parser.add_argument("--examples", type=int, help="subsample size; all by default")
    arguments = parser.parse_args()

    began = time.perf_counter()
    dataset = load("folder", root=arguments.images, device=torch.device(arguments.device))
    chain = planned(arguments, arguments.examples or len(dataset.train))
    print(
        f"{len(dataset.train)} + {len(dataset.test)} images in {time.perf_counter() - began:.1f} s",
        flush=True,
    )
    for name, graph in (("eager", False), ("graph", True)):
        seconds = seconds_an_epoch(chain, arguments.out, dataset, graph=graph)
        print(f"{name}: {seconds:.3f} s an epoch ({arguments.precision})", flush=True)
    rules = StopRules(level_cap=arguments.level_cap)
    records = []
    for record in run_chain(chain, arguments.out, lambda: dataset, rules=rules):
        records.append(record)
        print(
            f"level {record.level}: density {record.density:.4f}, test error {record.error:.4f}, train error "
            f"{record.train_error}, {record.seconds:.1f} s, {record.status}",
            flush=True,
        )
    (arguments.out / "results.csv").write_text(as_csv(row(chain, record) for record in records))


if __name__ == "__main__":
    main()
