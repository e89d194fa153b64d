"""Where sweeps stand as text for people; numbers come in, strings go out."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from prunecast.cli.show import bullets, grid, render
from prunecast.text import plural

if TYPE_CHECKING:
    from prunecast.sweep.look import Standing

MOST_LISTED = 30


def duration(seconds: float) -> str:
    """A time in the largest unit that fits and the next smaller one."""
    units = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    for (size, unit), (smaller, name) in itertools.pairwise(units):
        if seconds >= size:
            whole, rest = divmod(round(seconds / smaller), size // smaller)
            return f"{whole} {unit} {rest} {name}" if rest else f"{whole} {unit}"
    return f"{seconds:.0f} s"


def status(name: str, standings: "Sequence[Standing]") -> str:
    """Where a sweep stands."""
    counts = Counter(standing.state for standing in standings)
    levels = sum(len(standing.records) for standing in standings)
    words = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    rows, counted = [_row(standing) for standing in standings], plural(len(standings), "chain")
    parts: list[object] = [Text(f"{name}: {counted} ({words}), {plural(levels, 'training')} done")]
    header = ["chain", "state", "depth", "width", "examples", "replicate", "levels", "density", "error"]
    if len(rows) > MOST_LISTED:
        lively = [row for row, own in zip(rows, standings, strict=True) if own.state in ("running", "begun")]
        rows, hidden = lively[:MOST_LISTED], len(rows) - len(lively[:MOST_LISTED])
        parts += ["", grid(header, rows, left=2)] if rows else []
        parts.append(Text(f"({plural(hidden, 'chain', 'is', 'are')} not listed; --all lists every one)"))
    else:
        parts += ["", grid(header, rows, left=2)]
    return render([*parts, *_workers(standings, MOST_LISTED), *problems(standings)])


def full_status(name: str, standings: "Sequence[Standing]") -> str:
    """Where every chain stands, a line each."""
    header = ["chain", "state", "depth", "width", "examples", "replicate", "levels", "density", "error"]
    rows = [_row(own) for own in standings]
    others = [*_workers(standings, len(standings)), *problems(standings)]
    return render([Text(name), grid(header, rows, left=2), *others])


def _row(standing: "Standing") -> list[str]:
    spec, records = standing.chain.spec, standing.records
    last = [f"{records[-1].density:.4f}", f"{records[-1].error:.4f}"] if records else ["", ""]
    state = f"ended: {standing.ended}" if standing.state == "ended" else standing.state
    sizes = [str(spec.depth), f"{spec.width:g}", str(spec.num_examples), str(spec.replicate)]
    return [str(standing.number), state, *sizes, str(len(records)), *last]


def _workers(standings: "Sequence[Standing]", most: int) -> list[object]:
    """Which process works on what, on which host, and since when."""
    rows = [
        [str(own.number), own.holder.host, str(own.holder.pid), _utc(own.holder.since), str(own.holder.tries)]
        for own in standings
        if own.state == "running" and own.holder
    ]
    more = [Text(f"(and {len(rows) - most:,} more)")] if len(rows) > most else []
    header = ["running", "host", "process", "since (UTC)", "try"]
    return ["", grid(header, rows[:most], left=2), *more] if rows else []


def _utc(since: str) -> str:
    return since[:19].replace("T", " ")


def _again(standings: "Sequence[Standing]") -> list[str]:
    """Chains whose worker died, in one line; the most often tried ones first."""
    tried = [(own.holder.tries, own.number) for own in standings if own.holder and own.holder.tries > 1]
    tried.sort(key=lambda pair: (-pair[0], pair[1]))
    named = ", ".join(f"chain {number} (try {tries})" for tries, number in tried[:8])
    more = f" and {len(tried) - 8:,} more" if len(tried) > 8 else ""
    return [f"taken up again after a worker was killed or stopped: {named}{more}"] if tried else []


def problems(standings: "Sequence[Standing]") -> list[object]:
    """Failures, damage and what was left out, with the reasons."""
    texts = []
    for own in standings:
        if own.state == "failed" and own.failure:
            often = f" (in {own.failure.times} runs)" if own.failure.times > 1 else ""
            texts.append(f"chain {own.number} failed{often}: {own.failure.error}")
        elif own.problem:
            texts.append(f"chain {own.number}: {own.problem}")
    reasons = Counter(own.out for own in standings if own.out)
    for reason, count in reasons.items():
        numbers = [str(own.number) for own in standings if own.out == reason]
        which = f"chain{'s' * (count > 1)} {', '.join(numbers[:8])}{' ...' * (count > 8)}"
        texts.append(f"left out, {which}: {reason}")
    shown = [*_again(standings), *texts[:MOST_LISTED]]
    if len(texts) > MOST_LISTED:
        shown.append(f"and {len(texts) - MOST_LISTED} more")
    return ["", *bullets(shown)] if shown else []
