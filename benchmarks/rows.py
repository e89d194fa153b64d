"""How often a measured row that answers meets the target in other replicates, too.

`python benchmarks/rows.py` prints the numbers of docs/choose.md. The law is fitted to one replicate at a time of the
depth that `cifar10-resnet` has several replicates of. Where a measured row is the answer, the same row of the other
replicates is compared with the target, separately for rows that were measured above it and below it.
"""

import numpy as np
import pandas as pd

from prunecast.choice import choose_each
from prunecast.laws import fit
from prunecast.table import read

TABLE, DEPTH, MOST_EXAMPLES, TARGETS = "cifar10-resnet", 20, 6_250, 80
ROW = ["width", "num_examples", "level"]


def compared(frame: pd.DataFrame, law: str, replicate: int) -> list[tuple[str, bool, bool, float]]:
    """Law, whether the row was above the target, whether another replicate meets it, and by how much it misses."""
    own, others = frame[frame["replicate"] == replicate], frame[frame["replicate"] != replicate]
    fitted, found = fit(read(own), law=law), []
    for examples in own["num_examples"].unique():
        rows = own[own["num_examples"] == examples]
        targets = np.geomspace(0.97 * rows["error"].min(), 0.6, TARGETS)
        for choice in choose_each(fitted, targets, num_examples=float(examples)):
            best, target = choice.answer, choice.question.target_error
            if not choice.met or best.source != "measured" or target is None:
                continue
            same = rows[np.isclose(rows["width"], best.width) & np.isclose(rows["density"], best.density)]
            again = others.merge(same[ROW], on=ROW)["error"]
            found += [(law, best.error > target, e <= target, float(np.log(e / target))) for e in again]
    return found


def main() -> None:
    frame = read(TABLE, where={"depth": DEPTH}).frame
    frame = frame[frame["num_examples"] <= MOST_EXAMPLES]
    found = [
        one
        for law in ("eq2", "dip")
        for replicate in sorted(frame["replicate"].unique())
        for one in compared(frame, law, int(replicate))
    ]
    table = pd.DataFrame(found, columns=["law", "measured above", "meets", "off"])
    print(table.groupby(["law", "measured above"]).agg({"meets": ["mean", "count"], "off": "mean"}))


if __name__ == "__main__":
    main()
