"""Whether answers keep what they promise, on measured tables: `python benchmarks/promises.py [TABLE ...] [--quick]`.

For every shipped table (those with enough configurations, if none is named) it reports

- promised against met: fit one replicate of each configuration, ask `choose` for many targets at confidences of 50, 80
  and 95%, and look up the error of another replicate at the density of the answer; the same for configurations left out
  of the fit, asked by their depth and width;
- coverage: the share of new replicates and of left-out configurations inside the 95% interval of `predict`, the
  unpruned error of the latter being given or left to the dense law;
- extrapolation: the same coverage where larger depths, widths or datasets are predicted from smaller ones;
- refuted: the share of default answers at measured sizes whose measured neighbours in density all miss the target.

The error of a replicate at the density of an answer is that of its nearest measured level, moved along the fitted law.
Interpolating between two levels would average their noise, which a training run at that density has in full. An answer
below a replicate's lowest density cannot be judged and is not counted. The binomial 95% interval (Wilson) takes all
answers as independent.
Answers that rest on the same chains are not, so a second 95% interval resamples whole groups of them (a cluster
bootstrap): all answers about one configuration; and where the best size is asked for, all answers from one replicate of
one number of examples, as the chains of all sizes decide together which one is chosen. Where this interval is wide, the
table has too few chains to say whether promises are kept.
Each result reads "promised → met (binomial interval; answers; interval by groups of chains; groups)", intervals in %.
"""

import argparse
import contextlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

import numpy as np
import pandas as pd

from prunecast.choice import DEFAULT_CONFIDENCE, Choice, Network, SizeRange, choose_each
from prunecast.errors import PrunecastError
from prunecast.laws import AUTO, COVERAGE, Fit, Floats, fit
from prunecast.table import CONFIGURATION, Table, read, shipped

CONFIDENCES = (0.5, 0.8, 0.95)
LAW_ANSWER = ("law", "measured")
"""The law answers, for a size whose unpruned network was measured."""
KINDS = (
    "new replicate, all questions",
    "new replicate, best size",
    "new replicate, given size",
    "left-out",
    "refuted",
    "in the 95% interval",
)
"""How checks begin, in the order in which they are shown."""
GROUPS = 10
"""Configurations are left out in this many groups in turn."""
HIGHEST_TARGET = 0.75
"""Targets go up to this share of the high plateau."""
LEAST_CONFIGURATIONS = 9
SPLITS = (("depth", 14, 20), ("depth", 26, 50), ("num_examples", 12_500, 50_000), ("width", 0.25, 1))
"""An axis, the largest value that is fitted, and the largest that is predicted."""
Z, RESAMPLES = 1.96, 4000

Key = tuple[float, float, float]
"""depth, width and number of examples"""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured."""

    targets: int
    """per number of examples, where the best size is asked for"""
    named_targets: int
    """per configuration, where the size is given, and more where there are few of them"""
    questions: int
    """about a given size at each confidence, over all configurations; not every answer can be judged"""
    fits: int
    """how many replicates are fitted, and groups left out, in turn"""

    def targets_per_size(self, chains: int) -> int:
        """How many targets to ask for at each size, so that the answers about all chains are enough to pool."""
        return max(self.named_targets, -(-self.questions // max(chains, 1)))


FULL = Effort(targets=40, named_targets=6, questions=400, fits=10)
QUICK = Effort(targets=6, named_targets=2, questions=0, fits=1)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One promise, and whether it was met."""

    check: str
    confidence: float
    """what was asked for"""
    promised: float
    """what was promised; no less than was asked for"""
    met: bool
    group: tuple[float, ...]
    """answers of one group rest on the same chains"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Promises of one kind, pooled."""

    check: str
    confidence: float
    promised: float
    """the mean of the promised probabilities"""
    met: float
    lower: float
    upper: float
    """the binomial 95% interval of `met`"""
    count: int
    group_lower: float
    group_upper: float
    """the 95% interval of `met` with groups of chains resampled"""
    groups: int


def wilson(met: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share that was observed as `met` of `count`."""
    share, extra = met / count, Z**2 / count
    centre = (share + extra / 2) / (1 + extra)
    half = Z * np.sqrt(share * (1 - share) / count + extra / (4 * count)) / (1 + extra)
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def pooled(check: str, confidence: float, outcomes: Iterable[Outcome]) -> Row:
    """The share of promises that were met."""
    frame = pd.DataFrame([vars(one) for one in outcomes])
    count, share = len(frame), float(frame["met"].mean())
    lower, upper = wilson(int(frame["met"].sum()), count)
    group_lower, group_upper = resampled(
        frame["met"].groupby(frame["group"]).agg(["sum", "count"]).to_numpy(float)
    )
    return Row(
        check=check,
        confidence=confidence,
        promised=float(frame["promised"].mean()),
        met=share,
        lower=lower,
        upper=upper,
        count=count,
        group_lower=group_lower,
        group_upper=group_upper,
        groups=int(frame["group"].nunique()),
    )


def resampled(groups: Floats) -> tuple[float, float]:
    """The 95% interval of a share where groups, each with what was met and how many, are drawn again and again."""
    weight = np.random.default_rng(0).multinomial(
        len(groups), np.full(len(groups), 1 / len(groups)), RESAMPLES
    )
    met, count = (weight @ groups).T
    lower, upper = np.quantile(met / count, [0.025, 0.975])
    return float(lower), float(upper)


def key_of(one: object) -> Key:
    """The configuration of anything with a depth, a width and a number of examples."""
    depth, width, examples = (float(getattr(one, name)) for name in CONFIGURATION)
    return depth, width, examples


def table_of(parts: Iterable[pd.DataFrame]) -> Table:
    """Rows of a table as a table of their own, whose unpruned errors come from these rows."""
    return read(pd.concat(parts).drop(columns="unpruned_error"))


def error_at(rows: pd.DataFrame, answer: Network, law: Fit) -> float | None:
    """The error of one chain at the density of an answer; None below its lowest density."""
    known = rows["density"].to_numpy(dtype=float)
    if answer.density < known.min() * (1 - 1e-9):
        return None
    nearest = np.abs(np.log(known / answer.density)).argmin()
    places = {name: getattr(answer, name) for name in CONFIGURATION}
    here, there = law.predict([answer.density, known[nearest]], **places).error
    return float(rows["error"].iloc[nearest] * here / there)


def chains(frame: pd.DataFrame) -> dict[Key, list[pd.DataFrame]]:
    """The rows of each replicate of each configuration."""
    found: dict[Key, list[pd.DataFrame]] = defaultdict(list)
    for _, rows in frame.groupby([*CONFIGURATION, "replicate"], sort=True):
        found[key_of(rows.iloc[0])].append(rows)
    return dict(found)


def judged(
    what: str,
    law: Fit,
    choice: Choice,
    others: Iterable[pd.DataFrame],
    group: tuple[float, ...] | None = None,
) -> Iterator[Outcome]:
    """Whether other training runs of the network that was chosen meet the target; its group is its configuration.

    Of `KIND, QUESTION` the answers to all questions of the kind are pooled, too.
    """
    kind, question, _ = what.partition(", ")
    answer, target = choice.answer, choice.question.target_error
    if not choice.met or target is None or answer.probability is None:
        return
    for error in (error_at(rows, answer, law) for rows in others):
        if error is not None:
            one = Outcome(
                check=f"{what}, {answer.source} answers",
                confidence=choice.question.confidence,
                promised=answer.probability,
                met=error <= target,
                group=group or key_of(answer),
            )
            yield from (one, replace(one, check=f"{what}, all answers"))
            if question:
                yield replace(one, check=f"{kind}, all questions")


def inside(
    check: str, law: Fit, rows: pd.DataFrame, unpruned_error: float | None = None
) -> Iterator[Outcome]:
    """Whether each pruned row of one chain lies inside its prediction interval."""
    chance = law.origin.chance or np.inf
    rows = rows[(rows["density"] < 1) & (rows["error"] < chance)]
    if rows.empty:
        return
    places = {name: float(rows[name].iloc[0]) for name in CONFIGURATION}
    found = law.predict(rows["density"].to_numpy(dtype=float), unpruned_error=unpruned_error, **places)
    error = rows["error"].to_numpy(dtype=float)
    for met in ((found.lower <= error) & (error <= found.upper)).tolist():
        yield Outcome(
            check=check,
            confidence=COVERAGE,
            promised=COVERAGE,
            met=met,
            group=key_of(rows.iloc[0]),
        )


def new_replicates(table: Table, law: str, effort: Effort) -> Iterator[Outcome]:
    """Fit one replicate of each configuration, and judge by the others."""
    every = chains(table.frame)
    repeated = {key: replicates for key, replicates in every.items() if len(replicates) > 1}
    most = max(map(len, repeated.values()), default=0)
    count = effort.targets_per_size(sum(len(own) * (len(own) - 1) for own in repeated.values()))
    for turn in range(min(most, effort.fits)):
        progress(f"replicate {turn + 1} of {most}")
        own = {key: turn % len(replicates) for key, replicates in every.items()}
        fitted = fit(table_of([every[key][index] for key, index in own.items()]), law=law)
        others = {
            key: [rows for index, rows in enumerate(replicates) if index != own[key]]
            for key, replicates in repeated.items()
        }
        for rows in (rows for some in others.values() for rows in some):
            yield from inside("in the 95% interval: new replicate", fitted, rows)
        for choice in best_of_all(fitted, {key[2] for key in repeated}, effort.targets, CONFIDENCES):
            group = turn, choice.answer.num_examples
            yield from judged(
                "new replicate, best size", fitted, choice, others.get(key_of(choice.answer), []), group
            )
        for known in (c for c in fitted.configurations if key_of(c) in others):
            aims = targets(fitted, known.lowest_error, count)
            for choice in of_one_size(fitted, key_of(known), aims):
                yield from judged("new replicate, given size", fitted, choice, others[key_of(known)])


def left_out(table: Table, law: str, effort: Effort) -> Iterator[Outcome]:
    """Leave configurations out of the fit, and judge by them."""
    every = chains(table.frame)
    keys = sorted(every)
    count = effort.targets_per_size(sum(map(len, every.values())))
    groups = np.array_split(np.random.default_rng(0).permutation(len(keys)), min(GROUPS, len(keys)))
    for turn, group in enumerate(groups[: effort.fits]):
        progress(f"left-out group {turn + 1} of {len(groups)}")
        out = {keys[index] for index in group}
        fitted = fit(table_of([rows for key in keys if key not in out for rows in every[key]]), law=law)
        for key in sorted(out):
            yield from covered("in the 95% interval: left-out configuration", fitted, every[key][0])
            if fitted.dense is None:
                continue
            depth, width, examples = key
            unpruned = fitted.predict(1.0, depth=depth, width=width, num_examples=examples).error
            for choice in of_one_size(fitted, key, targets(fitted, float(unpruned), count)):
                yield from judged("left-out configuration", fitted, choice, every[key])


def extrapolated(table: Table, law: str) -> Iterator[Outcome]:
    """Fit smaller depths, widths or datasets, and predict larger ones."""
    for axis, largest_fitted, largest in SPLITS:
        values = table.frame[axis]
        fitted, predicted = values <= largest_fitted, (values > largest_fitted) & (values <= largest)
        if not predicted.any() or values[fitted].nunique() < 2 or not (values == largest_fitted).any():
            continue
        progress(f"{axis} up to {largest_fitted:g} predicts up to {largest:g}")
        result = fit(table_of([table.frame[fitted]]), law=law)
        for replicates in chains(table.frame[predicted]).values():
            check = f"in the 95% interval: {axis} > {largest_fitted:g}"
            yield from covered(check, result, replicates[0])


def covered(check: str, law: Fit, rows: pd.DataFrame) -> Iterator[Outcome]:
    """Coverage of one chain with its unpruned error given, and predicted by the dense law."""
    unpruned = rows.loc[rows["density"] == 1, "error"]
    if len(unpruned) and float(unpruned.iloc[0]) < (law.origin.chance or np.inf):
        yield from inside(f"{check}, ε_np given", law, rows, float(unpruned.iloc[0]))
    if law.dense is not None:
        yield from inside(f"{check}, ε_np predicted", law, rows)


def refuted(table: Table, law: str, effort: Effort) -> Iterator[Outcome]:
    """Whether the measured neighbours of answers at measured sizes all miss the target."""
    progress("default answers")
    fitted = fit(table, law=law)
    known = {key_of(c): sorted(c.curve) for c in fitted.configurations}
    for sizes in SizeRange.WITHIN, SizeRange.MEASURED:
        for choice in best_of_all(fitted, {key[2] for key in known}, effort.targets, sizes=sizes):
            answer, target = choice.answer, choice.question.target_error
            if not choice.met or target is None or (answer.source, answer.unpruned_source) != LAW_ANSWER:
                continue
            curve = known[key_of(answer)]
            below = [error for density, error, _ in curve if density <= answer.density][-1:]
            above = [error for density, error, _ in curve if density >= answer.density][:1]
            yield Outcome(
                check=f"refuted by measured neighbours, sizes {sizes}",
                confidence=choice.question.confidence,
                promised=0.0,
                met=all(error > target for error in below + above),
                group=key_of(answer),
            )


def best_of_all(
    law: Fit,
    examples: Iterable[float],
    count: int,
    confidences: Iterable[float] = (DEFAULT_CONFIDENCE,),
    sizes: str = SizeRange.MEASURED,
) -> Iterator[Choice]:
    """The best network of these sizes for many targets at each number of examples."""
    for number, confidence in product(sorted(examples), confidences):
        least = min(c.lowest_error for c in law.configurations if c.num_examples == number)
        with contextlib.suppress(PrunecastError):  # nothing of this number of examples is better than chance
            yield from choose_each(
                law, targets(law, least, count), confidence=confidence, num_examples=number, sizes=sizes
            )


def of_one_size(law: Fit, key: Key, aims: Floats) -> Iterator[Choice]:
    """One network pruned as far as each target allows."""
    depth, width, examples = key
    for confidence in CONFIDENCES:
        with contextlib.suppress(PrunecastError):
            yield from choose_each(
                law, aims, confidence=confidence, depth=depth, width=width, num_examples=examples
            )


def targets(law: Fit, least: float, count: int) -> Floats:
    """Targets from the least error on, up to near the high plateau."""
    return np.geomspace(least, max(HIGHEST_TARGET * law.high_error, 1.2 * least), count)


def measure(table: Table, law: str, effort: Effort) -> list[Row]:
    """All checks of one table."""
    found: dict[tuple[str, float], list[Outcome]] = defaultdict(list)
    checks = new_replicates(table, law, effort), left_out(table, law, effort)
    for one in chain(*checks, extrapolated(table, law), refuted(table, law, effort)):
        found[one.check, one.confidence].append(one)
    return [pooled(*check, outcomes) for check, outcomes in found.items()]


def progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """A table of results: one line per check, with a column per confidence where several were asked for."""
    checks: dict[str, dict[float, Row]] = defaultdict(dict)
    for row in rows:
        checks[row.check][row.confidence] = row
    yield f"  {'':60}" + "".join(f"{f'{confidence:.0%} asked':>38}" for confidence in CONFIDENCES)
    for check in sorted(checks, key=lambda check: [check.startswith(kind) for kind in KINDS], reverse=True):
        cells = (checks[check].get(confidence) for confidence in CONFIDENCES)
        yield (f"  {check:60}" + "".join(f"{cell(row):>38}" for row in cells)).rstrip()


def cell(row: Row | None) -> str:
    if row is None:
        return ""
    ends = f"{100 * row.lower:.0f}–{100 * row.upper:.0f}"
    groups = f"{100 * row.group_lower:.0f}–{100 * row.group_upper:.0f}; {row.groups}"
    return f"{100 * row.promised:.0f} → {100 * row.met:.0f} ({ends}; {row.count}; {groups})"


def suitable() -> list[str]:
    """The shipped tables with enough configurations."""
    counted = {name: len(read(name).frame.drop_duplicates(list(CONFIGURATION))) for name in shipped.names()}
    return [name for name, count in counted.items() if count >= LEAST_CONFIGURATIONS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--law", default=AUTO, help="eq2, dip, … (default: the law that each fit prefers)")
    parser.add_argument("--quick", action="store_true", help="fewer targets, fits and groups: under a minute")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    results = {}
    for name in arguments.tables or suitable():
        table = read(name)
        print(name, file=sys.stderr, flush=True)
        results[name] = measure(table, arguments.law, effort)
        if not arguments.json:
            print("\n".join([f"{name}, law {arguments.law}", *lines(results[name])]), flush=True)
    if arguments.json:
        print(json.dumps({name: [vars(row) for row in rows] for name, rows in results.items()}, indent=1))


if __name__ == "__main__":
    main()
