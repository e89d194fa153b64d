"""Whether the law holds for whole channels as it does for single weights, on the digits.

    python benchmarks/structured_law.py FOLDER

prunes the same twelve networks by channels and by single weights (about 20 minutes on one idle core; the same command
continues after a stop) and prints, for each of the two tables, how far every law is off in sample, on configurations
left out, and from the smaller half of the networks to the larger half. benchmarks/tables holds what it measured, and

    python benchmarks/structured_law.py benchmarks/tables --fit

only fits these.
"""

import argparse
from pathlib import Path

from prunecast.laws import compare, fit
from prunecast.sweep import event_line, export, read_plan, run_plan
from prunecast.table import read

PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = [3, 4, 5, 6]
width = [0.5, 1, 2]
num_examples = 600
recipe = {preset = "digits", name = "short", epochs = 12, drops = [8], rewind = 1}
replicates = 2
"""
METHODS = {
    "digits-channels": 'method = {name = "imp-channels", structure = "channels", fraction = 0.15}\nlevel_cap = 20\n',
    "digits-weights": 'method = "imp"\nlevel_cap = 14\n',
}


def trained(folder: Path, name: str) -> None:
    """Train one of the plans and write its table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(PLAN + METHODS[name], encoding="utf-8")
    plan = read_plan(folder / f"{name}.toml")
    for event in run_plan(plan, folder / "store"):
        print(event_line(plan, event), flush=True)
    export(plan, folder / "store", folder / f"{name}.csv")


def main() -> None:
    """Train, fit and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit the tables in the folder, and train nothing")
    arguments = parser.parse_args()
    for name in METHODS:
        if not arguments.fit:
            trained(arguments.folder, name)
        table = read(arguments.folder / f"{name}.csv")
        print(f"\n{name}\n{fit(table, law='eq2').summary()}\n\n{compare(table).summary()}", flush=True)


if __name__ == "__main__":
    main()
