"""Plans as text for people: what they would do, and how long it takes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from prunecast.cli.show import grid, render
from prunecast.cli.show_sweep import duration
from prunecast.text import plural

if TYPE_CHECKING:
    from prunecast.sweep.estimate import Estimate
    from prunecast.sweep.overview import Network, Overview


def plans(told: Mapping[str, tuple[str, Sequence[str]]]) -> str:
    """The plans that ship, one line each: name, summary, scales."""
    widest = max(map(len, told))
    lines = [
        f"{name:<{widest}}  {text}" + (f" [{', '.join(scales)}]" if len(scales) > 1 else "")
        for name, (text, scales) in told.items()
    ]
    closing = [
        "prunecast plan NAME shows one of them, prunecast run NAME runs it; --scale takes a word in brackets.",
    ]
    return "\n".join([*lines, "", *closing])


def plan(seen: "Overview", measured: "Estimate | None", jobs: int) -> str:
    """A plan on one screen."""
    most = "at most " if any(seen.level_caps) else ""
    caps = " or ".join(map(str, seen.level_caps))
    counts = f"{plural(seen.chains, 'chain')}, {most}{plural(seen.trainings, 'training')} (level cap {caps})"
    counts += f", {seen.epochs:,.0f} network-epochs"
    parts: list[object] = [Text(f"{seen.name}: {counts}"), "", _axes(seen), "", _networks(seen.networks)]
    if seen.selecting:
        which = "all" if seen.selecting == seen.chains else f"{seen.selecting:,}"
        parts += [
            "",
            Text(f"Selection: unpruned networks of {which} chains are trained first; those beyond the point"),
            Text("where growing deeper or wider raises the unpruned error are left out."),
        ]
    if measured is not None:
        parts += ["", *_time(measured, jobs)]
    return render(parts)


def _axes(seen: "Overview") -> object:
    def words(values: Sequence[object]) -> str:
        shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        return ", ".join(shown[:12]) + (f" ... ({len(shown)} values)" if len(shown) > 12 else "")

    return grid(["axis", "values"], [(axis, words(values)) for axis, values in seen.axes.items()], left=2)


def _networks(networks: "Sequence[Network]") -> object:
    several = len({network.family for network in networks}) > 1
    rows = [
        [
            *([network.family] if several else []),
            str(network.depth),
            f"{network.width:g}",
            "–" if network.parameters is None else f"{network.parameters:,}",
            "–" if network.weights is None else f"{network.weights:,}",
            f"{network.chains:,}",
            f"{network.trainings:,}",
        ]
        for network in networks
    ]
    header = ["depth", "width", "parameters", "prunable", "chains", "trainings, at most"]
    return grid([*(["family"] if several else []), *header], rows, left=int(several))


def _time(measured: "Estimate", jobs: int) -> list[object]:
    """What was timed, the time of everything, in which way it was reckoned, and what could make it less."""
    ways = [
        (measured.fleet, "as a fleet of packs", measured.fleet.seconds),
        (
            measured.alone,
            f"{jobs} at a time" if jobs > 1 else "one after the other",
            measured.alone.seconds / jobs,
        ),
    ]
    used = [(share, way, seconds) for share, way, seconds in ways if share.chains]
    told = [
        f"{plural(share.chains, 'chain')}, at most {plural(share.trainings, 'training')}, {way}"
        + (f" ({duration(seconds)})" if len(used) > 1 else "")
        for share, way, seconds in used
    ]
    scaled = "about " if any(one.compiled for one in measured.packs) else ""
    total = f"At most {scaled}{duration(sum(seconds for *_, seconds in used))} on {measured.device}"
    tables = [*_timed_packs(measured), *_timed_networks(measured)]
    return [*tables, Text(f"{total}: {'; '.join(told)}. {' '.join(_less(measured))}")]


def _timed_networks(measured: "Estimate") -> list[object]:
    rows = [
        [
            one.spec.family,
            str(one.spec.depth),
            f"{one.spec.width:g}",
            str(one.batch),
            f"{1000 * one.step:.2f}",
            f"{1e6 * one.look:.1f}",
        ]
        for one in measured.timings
    ]
    header = ["timed here", "depth", "width", "batch", "ms a step", "µs an image of a test"]
    return [grid(header, rows), ""] if rows else []


def _timed_packs(measured: "Estimate") -> list[object]:
    rows = [
        [
            one.crew.kind.family,
            str(one.crew.kind.depth),
            str(len(one.crew.shapes)),
            str(sum(map(len, one.crew.shapes))),
            f"{one.crew.width:g}",
            str(one.crew.kind.batch),
            "yes" if one.compiled else "no",
            f"{1000 * one.step:.2f}",
            f"{1e6 * one.look:.1f}",
        ]
        for one in measured.packs
    ]
    sizes = ["timed here", "depth", "packs", "networks", "widths", "batch"]
    return [grid([*sizes, "compiled", "ms a step", "µs an image of a test"], rows), ""] if rows else []


def _less(measured: "Estimate") -> list[str]:
    """Why it is the most."""
    texts = ["Chains that end before their level cap take less."]
    if measured.packs:
        texts += [*_compiling(measured), "Other packs are put between those timed by depth and width."]
    if measured.timings:
        texts.append("Other sizes of networks are put between those timed by multiply-adds.")
    return texts


def _compiling(measured: "Estimate") -> list[str]:
    """Which packs were timed compiled, and what that says about the others."""
    told = ["Packs were timed side by side."]
    if any(one.compiled for one in measured.packs):
        told.append("Those a fleet compiles are scaled by what compiling gained where that was timed.")
        rest = "In families where it was not, they count uncompiled, which is slower."
    else:
        told.append("Nothing was compiled.")
        rest = "A fleet compiles packs with so many steps, to be faster."
    return [*told, rest] if measured.overstated else told
