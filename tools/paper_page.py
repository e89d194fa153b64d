"""The table of docs/paper.md: every item of the paper with ours, and the width-1 curve beside the published one.

`python tools/paper_page.py` prints the parts; `--renew` writes them into the page, after the table has grown.
"""

from collections import Counter

from page_parts import DOCS, command, table
from paper_items import DRAWS, QUARTER, SCRIPT, TABLE, Evidence, Item, Verdict, items
from published import CurvePoint, compare_curve, compared_points

from prunecast.studies.optimality import SmallestNetwork
from prunecast.table import Table, read

PAGE = DOCS / "paper.md"


def sections() -> dict[str, str]:
    """Every generated part of the page by name."""
    own = Evidence(read(TABLE))
    found = items(own)
    return {
        "count": count_line(found),
        "items": item_lines(found),
        "misses": "\n".join([smallest_line(own), noise_line(own), extrapolation_line(own)]),
        "curve": curve_lines(own.table),
        "agreement": agreement_line(own),
    }


def count_line(found: list[Item]) -> str:
    """How many items have each verdict."""
    counts = Counter(item.verdict for item in found)
    listed = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    return f"Of {len(found)} items: {listed}."


def item_lines(found: list[Item]) -> str:
    """One line per item."""
    rows = [[one.place, one.claim, one.paper, one.ours, one.verdict, f"`{one.command}`"] for one in found]
    return table(["where", "claim", "paper", "ours", "verdict", "repeat with"], rows)


def smallest_line(own: Evidence) -> str:
    """Why the size of the smallest network misses."""
    found, alone = own.optimality, own.largest_dataset
    largest, share = own.missed_by_noise
    missed = [one for one in found.frontier if miss(one) > QUARTER]
    worst, widest = max(found.frontier, key=miss), max(one.measured_width for one in found.frontier)
    from_widest = sum(one.measured_width == one.predicted_width == widest for one in missed)
    rows = own.fit.residuals
    chain = rows[
        (rows["width"] == widest) & (rows["num_examples"] == found.num_examples) & (rows["depth"] == 20)
    ]
    excess = 1 - 1 / (1 + chain["residual"].max())
    return (
        f"- **The smallest network.** The largest miss, {found.largest_miss:.0%}, is at an error of {worst.error:.3f}, "
        f"{worst.measured_rise:.2f} times the unpruned one, where a flat curve crosses an error at almost any density. "
        f"Sizes are within 25% at {found.within_quarter:.0%} of the errors. Noise alone would leave {share:.0%} within "
        f"25% and a largest miss of {largest:.0%} (medians of {DRAWS} drawn tables, if Eq. 2 were exact and "
        f"{found.num_examples:,.0f} images as noisy as those that have replicates). {from_widest} of the {len(missed)} "
        f"misses belong to width {widest:g}, a single chain, whose errors are up to {excess:.0%} below the joint fit. "
        f"One replicate cannot show whether this is noise or a fault of the law. Fitted to {found.num_examples:,.0f} "
        f"images alone, Eq. 2 is within 25% at {alone.within_quarter:.0%} of the errors."
    )


def noise_line(own: Evidence) -> str:
    """Where replicates differ more, and where less."""
    found = {name: own.replicate_noise(width=width) for name, width in (("1", 1.0), ("1/4", 0.25))}
    by_width = " and ".join(f"{noise:.1%} at width {name}" for name, noise in found.items() if noise)
    return (
        f"- **Noise.** Replicates differ by {own.noise.overall.replicates:.1%}: {by_width}. Only depths 14 and 20 with "
        "at most 3,125 images have several replicates, and each replicate draws its own images. The noise with 50,000 "
        "images is not measured."
    )


def extrapolation_line(own: Evidence) -> str:
    """What four networks leave open."""
    name = own.fit.exponents["width"]
    four, every = (
        " to ".join(f"{end:.2f}" for end in one.interval(name)) for one in (own.four_networks, own.fit)
    )
    return (
        f"- **Extrapolation** is just within the paper's bounds. Four networks do not determine ψ well ({four}; all "
        f"networks give {every}), so the result depends on their noise: on a [JPEG copy of the "
        "images](research/paper.md) σ was 7.5%."
    )


def agreement_line(own: Evidence) -> str:
    """How far the two curves agree."""
    known = compared_points(compare_curve(own.table))
    off = [point.off for point in known]
    visible = [point.off for point in known if point.visibility == "visible"]
    close = sum(abs(one) <= 0.05 for one in off)
    return (
        f"{close} of {len(off)} points are within 5%, and every visible one is within {max(map(abs, visible)):.1%}. "
        f"Our curve is {sum(off) / len(off):.1%} higher on average. Noise may explain this: ours is one chain, "
        f"theirs a mean of three. Replicates of width 1 differ by {own.replicate_noise(width=1.0):.1%}, levels of a "
        "chain deviate together, and the points were read to 2 to 4%. More replicates would show whether it does."
    )


def miss(one: SmallestNetwork) -> float:
    """How far the predicted size is from the measured one, as a share."""
    return abs(one.predicted_nonzero / one.measured_nonzero - 1)


def curve_lines(measured: Table) -> str:
    """The published curve beside the table's, at levels that can be read in the paper."""
    rows = [_point(point) for point in compared_points(compare_curve(measured))]
    return table(["level", "density", "published", "ours", "difference"], rows)


def _point(point: CurvePoint) -> list[object]:
    mark = "" if point.visibility == "visible" else "~"
    published, here = f"{mark}{point.published:.3f}", f"{point.here:.3f}"
    return [point.level, f"{point.density:.2g}", published, here, f"{point.off:+.1%}"]


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
