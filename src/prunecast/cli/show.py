"""Plans and sweeps as text: what a plan would do, how long it takes, and the state of its chains."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prunecast.report import Grid, Section, terminal
from prunecast.text import duration, plural

if TYPE_CHECKING:
    from prunecast.sweep import ChainStatus, Network, Overview, Session, estimation

MOST_LISTED = 30
MOST_NAMED = 8
CHAINS = ("chain", "state", "depth", "width", "examples", "replicate", "levels", "density", "error")


def plans(shipped: Mapping[str, tuple[str, Sequence[str]]]) -> str:
    """The plans that ship, one line each: name, summary, scales."""
    widest = max(map(len, shipped))
    lines = [
        f"{name:<{widest}}  {summary}" + (f" [{', '.join(scales)}]" if len(scales) > 1 else "")
        for name, (summary, scales) in shipped.items()
    ]
    hint = "prunecast plan NAME shows a plan, prunecast run NAME runs it; --scale takes one of the words in brackets."
    return "\n".join([*lines, "", hint])


def plans_as_json(shipped: Mapping[str, tuple[str, Sequence[str]]]) -> dict[str, Any]:
    """The plans that ship, as JSON."""
    return {name: {"summary": summary, "scales": list(scales)} for name, (summary, scales) in shipped.items()}


def plan_as_json(
    seen: "Overview",
    measured: "estimation.Estimate | None",
    jobs: int,
    threads: "estimation.Threads | None" = None,
) -> dict[str, Any]:
    """A plan as JSON: its axes and networks and, if it was timed, the most seconds it takes."""
    from prunecast.sweep import wording

    body: dict[str, Any] = {
        "plan": seen.name,
        "chains": seen.chains,
        "training_runs": seen.training_runs,
        "network_epochs": seen.epochs,
        "axes": {axis: list(values) for axis, values in seen.axes.items()},
        "networks": [asdict(network) for network in seen.networks],
        "never_pruned": list(wording.never_pruned_lines(seen.plan)),
    }
    if measured is not None:
        seconds = measured.packed.seconds + measured.alone.elapsed(jobs)
        more = None if threads is None else asdict(threads)
        body["estimate"] = {"seconds": seconds, "jobs": jobs, **asdict(measured), "more_threads": more}
    return body


def run_as_json(session: "Session", store: Path, output: Path | None) -> dict[str, Any]:
    """The outcome of a run as JSON."""
    progress = session.progress
    return {
        "plan": session.plan.name,
        "stopped": session.stopped,
        "chains": progress.chains,
        "chains_done": progress.chains_done,
        "levels_done": progress.levels_done,
        "left_out": len(progress.left_out),
        "failed": [{"chain": failure.number, "error": failure.error} for failure in progress.failed],
        "store": str(store),
        "output": None if output is None else str(output),
    }


def status_as_json(name: str, statuses: "Sequence[ChainStatus]") -> dict[str, Any]:
    """The state of every chain as JSON."""
    return {"plan": name, "chains": [_chain_as_json(status) for status in statuses]}


def _chain_as_json(status: "ChainStatus") -> dict[str, Any]:
    spec, last = status.chain.spec, status.records[-1] if status.records else None
    return {
        "chain": status.number,
        "state": status.state,
        "ended": status.ended or None,
        "depth": spec.depth,
        "width": spec.width,
        "num_examples": spec.num_examples,
        "replicate": spec.replicate,
        "levels": len(status.records),
        "density": None if last is None else last.density,
        "error": None if last is None else last.error,
        "failure": None if status.failure is None else status.failure.error,
        "problem": status.problem or None,
    }


def plan(
    seen: "Overview",
    measured: "estimation.Estimate | None",
    jobs: int,
    threads: "estimation.Threads | None" = None,
) -> str:
    """A plan on one screen."""
    from prunecast.sweep import wording

    most = "at most " if any(seen.level_caps) else ""
    caps = " or ".join(map(str, seen.level_caps))
    counts = f"{plural(seen.chains, 'chain')}, {most}{plural(seen.training_runs, 'training run')} (level cap {caps})"
    text = []
    if seen.selecting:
        which = "all" if seen.selecting == seen.chains else f"{seen.selecting:,}"
        text = [
            f"Selection: the unpruned networks of {which} chains are trained first. Those whose unpruned error rises "
            "as they grow deeper or wider are left out."
        ]
    text += [wording.split_words(data) for data in seen.data if data.split]
    text += [*wording.absent_words(seen.absent), *wording.network_lines(seen.plan)]
    timed = [*_timed_packs(measured), *_timed_networks(measured)] if measured else []
    return terminal.text(
        Section(
            title=f"{seen.name}: {counts}, {seen.epochs:,.0f} network-epochs",
            text=text,
            grids=[_axes(seen), _networks(seen.networks), *timed],
            notes=[_time(measured, jobs), *_assumptions(measured), *_more_threads(threads)]
            if measured
            else [],
        )
    )


def _axes(seen: "Overview") -> Grid:
    def listed(values: Sequence[object]) -> str:
        shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        return ", ".join(shown[:12]) + (f" ... ({len(shown)} values)" if len(shown) > 12 else "")

    rows = [(axis, listed(values)) for axis, values in seen.axes.items()]
    return Grid(header=["axis", "values"], rows=rows, left=2)


def _networks(networks: "Sequence[Network]") -> Grid:
    several = len({network.family for network in networks}) > 1
    rows = [
        [
            *([network.family] if several else []),
            str(network.depth),
            f"{network.width:g}",
            f"{network.parameters:,}",
            f"{network.weights:,}",
            f"{network.chains:,}",
            f"{network.training_runs:,}",
        ]
        for network in networks
    ]
    header = ["depth", "width", "parameters", "prunable", "chains", "training runs, at most"]
    return Grid(header=[*(["family"] if several else []), *header], rows=rows, left=int(several))


def _time(measured: "estimation.Estimate", jobs: int) -> str:
    """The total time, and the time for each way of training chains."""
    ways = [
        (measured.packed, "packed as a fleet", measured.packed.seconds),
        (
            measured.alone,
            f"{jobs} at a time" if jobs > 1 else "one after the other",
            measured.alone.elapsed(jobs),
        ),
    ]
    used = [(share, way, seconds) for share, way, seconds in ways if share.chains]
    parts = [
        f"{plural(share.chains, 'chain')}, at most {plural(share.training_runs, 'training run')}, {way}"
        + (f" ({duration(seconds)})" if len(used) > 1 else "")
        for share, way, seconds in used
    ]
    about = "about " if measured.packs else ""
    total = f"At most {about}{duration(sum(seconds for *_, seconds in used))} on {measured.device}"
    return f"{total}: {'; '.join(parts)}."


def _more_threads(threads: "estimation.Threads | None") -> Iterator[str]:
    """What to write into the plan if some cores have nothing to do."""
    if threads is not None:
        yield (
            f"Some cores have nothing to do. With `threads = {threads.count}` in the plan, the largest network trains "
            f"{threads.speedup:.1f} times as fast. Chains that have begun then start again, because the number of "
            "threads changes rounding."
        )


def _timed_networks(measured: "estimation.Estimate") -> Iterator[Grid]:
    rows = [
        [timing.family, str(timing.depth), f"{timing.widths[0]:g}", str(timing.batch), *_speed(timing)]
        for timing in measured.networks
    ]
    if rows:
        header = ["timed here", "depth", "width", "batch", "ms per step", "µs per test image"]
        yield Grid(header=header, rows=rows)


def _timed_packs(measured: "estimation.Estimate") -> Iterator[Grid]:
    rows = [
        [
            *(
                timing.family,
                str(timing.depth),
                str(len(timing.widths)),
                f"{sum(timing.widths):g}",
                str(timing.batch),
            ),
            timing.mode,
            *_speed(timing),
        ]
        for timing in measured.packs
    ]
    if rows:
        sizes = ["pack timed here", "depth", "networks", "total width", "batch"]
        yield Grid(header=[*sizes, "steps", "ms per step", "µs per test image"], rows=rows)


def _speed(timing: "estimation.TrainingSpeed") -> list[str]:
    return [f"{1000 * timing.step_seconds:.2f}", f"{1e6 * timing.image_seconds:.1f}"]


def _assumptions(measured: "estimation.Estimate") -> Iterator[str]:
    """Why the time is an upper limit, and how it was computed."""
    yield "Chains that end before their level cap take less."
    if measured.packs:
        yield "Other packs are interpolated by multiply-adds and total width."
        yield "Packs were timed one at a time. A fleet trains several at once, which may take less or somewhat more."
        if any(timing.uncompiled for timing in measured.packs):
            yield "Some packs were timed uncompiled. A fleet compiles them, which makes them faster."
    if measured.networks:
        yield "Other network sizes are interpolated by multiply-adds."


def status(name: str, statuses: "Sequence[ChainStatus]", *, everything: bool = False) -> str:
    """The state of a sweep: its chains (only the unfinished ones if there are many), workers and problems."""
    counts = Counter(status.state for status in statuses)
    levels = sum(len(status.records) for status in statuses)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    title = f"{name}: {plural(len(statuses), 'chain')} ({states}), {plural(levels, 'training run')} done"
    listed = list(statuses)
    if len(statuses) > MOST_LISTED and not everything:
        listed = [status for status in statuses if status.state in ("running", "begun")][:MOST_LISTED]
    hidden, most = len(statuses) - len(listed), len(statuses) if everything else MOST_LISTED
    rows = [_row(status) for status in listed]
    return terminal.text(
        Section(
            title=title,
            text=[f"({plural(hidden, 'chain', 'is', 'are')} not listed; --all lists all of them)"]
            if hidden
            else [],
            grids=[*([Grid(header=CHAINS, rows=rows, left=2)] if rows else []), *_workers(statuses, most)],
            notes=list(_problems(statuses)),
        )
    )


def nothing_begun(store: Path) -> str:
    """Why a plan may have no training run in a store: it is another store, or the plan was changed."""
    others = sum(1 for _ in (store / "chains").glob("*"))
    if not others:
        return f"{store} has no training runs yet."
    return f"{store} has {plural(others, 'chain')} of other plans, or of this plan before it was changed."


def _row(status: "ChainStatus") -> list[str]:
    spec, records = status.chain.spec, status.records
    last = [f"{records[-1].density:.4f}", f"{records[-1].error:.4f}"] if records else ["", ""]
    state = f"ended: {status.ended}" if status.state == "ended" else status.state
    sizes = [str(spec.depth), f"{spec.width:g}", str(spec.num_examples), str(spec.replicate)]
    return [str(status.number), state, *sizes, str(len(records)), *last]


def _workers(statuses: "Sequence[ChainStatus]", most: int) -> Iterator[Grid]:
    """The process that trains each running chain: host, process number and start."""
    rows = [
        [
            str(status.number),
            status.holder.host,
            str(status.holder.pid),
            _utc(status.holder.since),
            str(status.holder.tries),
        ]
        for status in statuses
        if status.state == "running" and status.holder
    ]
    if rows:
        caption = f"The first {most:,} of {len(rows):,} workers" if len(rows) > most else ""
        header = ["running", "host", "process", "since (UTC)", "try"]
        yield Grid(header=header, rows=rows[:most], left=2, caption=caption)


def _utc(since: str) -> str:
    return since[:19].replace("T", " ")


def _problems(statuses: "Sequence[ChainStatus]") -> Iterator[str]:
    """Restarts, failures, damaged records, chains left out with the reasons, and layers without a weight left."""
    from prunecast.sweep import wording

    yield from _restarted(statuses)
    texts = []
    for status in statuses:
        if status.state == "failed" and status.failure:
            often = f" (in {status.failure.times} runs)" if status.failure.times > 1 else ""
            texts.append(f"chain {status.number} failed{often}: {status.failure.error}")
        elif status.problem:
            texts.append(f"chain {status.number}: {status.problem}")
    for reason, count in Counter(status.left_out for status in statuses if status.left_out).items():
        numbers = [str(status.number) for status in statuses if status.left_out == reason]
        some = ", ".join(numbers[:MOST_NAMED]) + " ..." * (count > MOST_NAMED)
        texts.append(f"left out, chain{'s' * (count > 1)} {some}: {wording.error_rise_words(reason)}")
    dead = ((status.number, wording.deaths_words(status.records)) for status in statuses)
    texts.extend(f"chain {number}: {words}" for number, words in dead if words)
    yield from texts[:MOST_LISTED]
    if len(texts) > MOST_LISTED:
        yield f"and {len(texts) - MOST_LISTED} more"


def _restarted(statuses: "Sequence[ChainStatus]") -> Iterator[str]:
    """Chains whose worker died, in one line, the most restarted first."""
    tried = [
        (status.holder.tries, status.number)
        for status in statuses
        if status.holder and status.holder.tries > 1
    ]
    tried.sort(key=lambda pair: (-pair[0], pair[1]))
    if tried:
        named = ", ".join(f"chain {number} (try {tries})" for tries, number in tried[:MOST_NAMED])
        more = f" and {len(tried) - MOST_NAMED:,} more" if len(tried) > MOST_NAMED else ""
        yield f"restarted after a worker was killed or stopped: {named}{more}"
