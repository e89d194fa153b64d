"""Draw the pictures of the README and the docs from measured tables: `python tools/pictures.py [NAME ...]`."""

import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import research_tables
from PIL import Image
from published import compare_curve, published_curve
from scipy import stats

import prunecast
from prunecast.choice import Network
from prunecast.laws import DEFAULT_LAW
from prunecast.report import page
from prunecast.report.charts import FittedTable
from prunecast.report.figures import error_against_invariant, frontier, regions_and_roles
from prunecast.report.vega import (
    FIGURE,
    SMALL,
    WIDE,
    Row,
    Spec,
    at,
    axis,
    colour,
    dots,
    figure,
    fixed,
    layer,
    log_axis,
    panel,
    rendered,
    rows,
)

TABLE = "cifar10-resnet"
FOUND = Path("found/report.html")
HERE = Path(__file__).parents[1] / "docs" / "pictures"
TARGET = {"color": FIGURE.accent, "strokeDash": [5, 4]}
LAST_LEVEL = 16
"""The picture of the dip ends here."""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def published_picture(measured: dict[str, prunecast.Table], path: Path) -> None:
    """The paper's first curve, as well as it can be read, and the same network's in each table."""
    own = {name: [one for one in compare_curve(table) if one.here] for name, table in measured.items()}
    published = [
        (float(one["density"]), float(one["error_low"]), float(one["error_high"]))
        for one in published_curve()
    ]
    density, low, high = np.array(published).T
    first = float(published_curve()[0]["error"])
    hues = colour("hue", "", ["the paper", *own], FIGURE)
    hues["scale"]["range"] = [FIGURE.faint, *FIGURE.colours(len(own))]
    x = log_axis("density", "density", density)
    panels = []
    for title, words, unit, lowest, field in (
        ("ResNet-20 of width 1 on CIFAR-10", "test error", 1.0, min(low), "here"),
        ("The same, relative to the unpruned network", "error / unpruned error", first, 0.85, "here_rise"),
    ):
        y = log_axis("error", words, [lowest, *(high / unit)])
        paper = rows(density=density, error=low / unit, high=high / unit, hue="the paper")
        here = [
            row
            for name, points in own.items()
            for row in rows(
                density=[one.density for one in points],
                error=[float(getattr(one, field)) for one in points],
                hue=name,
            )
        ]
        encoding = {"x": x, "y": y, "color": hues}
        layers = [
            layer(paper, "area", {**encoding, "y2": {"field": "high"}}, opacity=1),
            layer(here, "line", encoding, strokeWidth=1.2),
            dots(here, encoding),
        ]
        panels.append(panel(title, layers, size=WIDE))
    save(figure(panels, one_legend=True), path)


def faded(picture: Image.Image, height: int = 60) -> Image.Image:
    """The picture with its lower edge faded to white, which shows that the page goes on."""
    fade = Image.linear_gradient("L").resize((picture.width, height))
    edge = Image.new("RGB", (picture.width, height), "white")
    picture.paste(edge, (0, picture.height - height), fade)
    return picture


def screenshot(file: Path, path: Path) -> None:
    """The top of a page as a browser shows it."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        print(f"No chromium here: {path.name} stays as it is.")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1180, "height": 1080}, color_scheme="light")
        tab.goto(file.resolve().as_uri())
        tab.wait_for_selector("body[data-ready=yes]")
        shot = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
        browser.close()
    faded(shot).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def save(spec: Spec, path: Path) -> None:
    """A figure as a PNG file of at most 256 colours, which has a third of the bytes and looks the same."""
    picture = Image.open(io.BytesIO(rendered(spec)["png"])).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def regions_picture(path: Path) -> None:
    """One measured curve with Eq. 1, its three regions and its parameters."""
    shown = {"depth": 20, "width": 1, "num_examples": 12500}
    table = prunecast.read(TABLE, where=shown)
    law = prunecast.fit(table, law=DEFAULT_LAW)
    unpruned, high = law.configurations[0].unpruned_error, law.high_error
    start, own = law.parameters["p"], law.residuals
    end = start * (high / unpruned) ** (1 / law.parameters["gamma"])
    density = np.geomspace(2e-4, 1, 300)
    error = law.predict(density, unpruned_error=unpruned).error
    x = log_axis("density", "density: the share of weights kept", density, margin=1.0)
    y = log_axis("error", "test error", (0.11, 1.05), margin=1.0)
    dashed = {"color": FIGURE.muted, "strokeDash": [4, 3]}

    def text(words: str | list[str], across: float, up: Spec, **options: object) -> Spec:
        return fixed("text", {"x": at(x, across), "y": up}, text=words, color=FIGURE.muted, **options)

    top = {"value": 8}
    middle = float(np.sqrt(start * end))
    layers = [
        fixed("rect", {"x": at(x, start), "x2": {"datum": end}}, color=FIGURE.grid, opacity=0.6),
        fixed("rule", {"y": at(y, unpruned)}, **dashed),
        fixed("rule", {"y": at(y, high)}, **dashed),
        fixed("rule", {"x": at(x, start)}, **dashed),
        fixed("rule", {"x": at(x, end)}, **dashed),
        layer(rows(density=density, error=error), "line", {"x": x, "y": y}, color=FIGURE.series[0]),
        dots(rows(density=own["density"], error=own["error"]), {"x": x, "y": y}, color=FIGURE.ink),
        text("high plateau", float(np.sqrt(density[0] * start)), top, baseline="top"),
        text("power-law region", middle, top, baseline="top"),
        text("low plateau", float(np.sqrt(end)), top, baseline="top"),
        text("ε↑", 0.8, at(y, high), dy=12),
        text("ε_np, the unpruned error", start, at(y, unpruned), align="left", dx=6, dy=12),
        text("slope −γ", middle, at(y, float(np.interp(middle, density, error))), align="left", dx=34),
        text("p", start, {"value": 338}, align="left", dx=5),
        text("p · (ε↑/ε_np)^(1/γ)", end, {"value": 338}, align="right", dx=-5),
    ]
    title = "Measured (dots) and Eq. 1 (line)"
    subtitle = "ResNet-20 of width 1, 12,500 images of CIFAR-10, one replicate"
    save(figure([panel(title, layers, subtitle, size=(600, 350))]), path)


def parameters_picture(path: Path) -> None:
    """The curve of one network with one parameter varied at a time."""
    table = prunecast.read(TABLE)
    spec = regions_and_roles(FittedTable(table=table, fit=prunecast.fit(table, law=DEFAULT_LAW)))
    save({**spec, "concat": spec["concat"][1:], "columns": 2}, path)


def invariant_picture(path: Path, name: str = TABLE, **where: float) -> None:
    """All configurations of a table, or those selected, against density and against the invariant."""
    table = prunecast.read(name, where=where)
    save(error_against_invariant(FittedTable(table=table, fit=prunecast.fit(table, law=DEFAULT_LAW))), path)


def frontier_picture(path: Path) -> None:
    """The curves of all sizes, and the smallest network for each error."""
    table = prunecast.read(TABLE)
    save(frontier(FittedTable(table=table, fit=prunecast.fit(table))), path)


def distribution_picture(path: Path, target: float = 0.12) -> None:
    """The errors to expect of the network that answers a question: at every density, and at the recommended one."""
    law = prunecast.fit(prunecast.read(TABLE))
    answer = prunecast.choose(law, target_error=target).answer
    place = {"depth": answer.depth, "width": answer.width, "num_examples": answer.num_examples}
    own = law.residuals
    own = own[np.logical_and.reduce([own[name] == value for name, value in place.items()])]
    density = np.geomspace(0.01, 1, 200)
    found = law.predict(density, **place)
    x = log_axis("density", "density", density, margin=1.0)
    y = log_axis("error", "test error", (0.065, 0.3), margin=1.0)
    band = rows(density=density, error=found.lower, high=found.upper)
    over = [
        layer(band, "area", {"x": x, "y": y, "y2": {"field": "high"}}, color=FIGURE.series[5], opacity=0.35),
        layer(rows(density=density, error=found.error), "line", {"x": x, "y": y}, color=FIGURE.series[0]),
        dots(rows(density=own["density"], error=own["error"]), {"x": x, "y": y}, color=FIGURE.ink),
        fixed("rule", {"y": at(y, target)}, **TARGET),
        fixed("rule", {"x": at(x, answer.density)}, **TARGET),
        fixed("text", {"x": at(x, 1), "y": at(y, target)}, text="target", align="right", dy=-8, dx=-4),
    ]
    panels = [
        panel("At every density: measured, median, 95% of new runs", over, size=WIDE),
        panel(
            f"At density {answer.density:.3f}: 80% of new runs meet the target",
            _runs(law, answer, target),
            size=WIDE,
        ),
    ]
    save(figure(panels), path)


def _runs(law: prunecast.Fit, answer: Network, target: float) -> list[Spec]:
    """How the errors of new training runs spread, coloured where they meet the target."""
    degrees, (lower, upper) = law.spread.degrees, answer.interval
    scale = float(np.log(upper / lower) / 2 / stats.t.ppf(0.975, degrees))
    error = np.linspace(0.095, 0.14, 451)
    height = stats.t.pdf(np.log(error / answer.expected_error) / scale, degrees) / error
    x = axis("error", "test error of a new training run", (error[0], error[-1]))
    y = axis("height", "", (0, 1.2 * height.max()))
    y["axis"] = {"grid": False, "labels": False, "ticks": False, "domain": False}
    parts = [
        layer(
            rows(error=error[own], height=height[own], base=0),
            "area",
            {"x": x, "y": y, "y2": {"field": "base"}},
            color=hue,
            opacity=1,
        )
        for own, hue in ((error <= target, FIGURE.series[5]), (error >= target, FIGURE.faint))
    ]
    ends = rows(error=[lower], end=[upper], height=[1.1 * float(height.max())])
    return [
        *parts,
        fixed("rule", {"x": at(x, target)}, **TARGET),
        layer(ends, "rule", {"x": x, "x2": {"field": "end"}, "y": y}, color=FIGURE.ink, strokeWidth=2),
        fixed(
            "text",
            {"x": at(x, lower), "y": at(y, 1.1 * float(height.max()))},
            text="95%",
            dx=-18,
        ),
        fixed(
            "text",
            {"x": at(x, target), "y": at(y, 0.8 * float(height.max()))},
            text="target",
            align="left",
            dx=6,
        ),
    ]


def dip_picture(path: Path) -> None:
    """Errors relative to the unpruned one, after short and long training, and of repeated training without pruning."""
    shown: dict[str, str | Path] = {
        "24 epochs, pruned": "cifar10-resnet-24ep",
        "24 epochs, not pruned": research_tables.path("cifar10-resnet20-24ep-none-rate-rewinding"),
        "160 epochs, pruned": research_tables.path("cifar10-resnet-160ep"),
    }
    panels = []
    for examples in (3125, 50000):
        data = list[Row]()
        for words, name in shown.items():
            own = prunecast.read(name, where={"depth": 20, "width": 1, "num_examples": examples}).frame
            means = own.groupby("level")["error"].mean()
            means = means[means.index <= LAST_LEVEL]
            data += rows(level=means.index, error=means / means[0], hue=words)
        encoding = {
            "x": axis("level", "level", (0, LAST_LEVEL)),
            "y": axis("error", "error / unpruned error", (0.65, 1.35)),
            "color": colour("hue", "", list(shown), FIGURE),
        }
        layers = [layer(data, "line", encoding), dots(data, encoding)]
        panels.append(panel(f"ResNet-20 of width 1, {examples:,} images", layers, size=SMALL))
    save(figure(panels, one_legend=True), path)


def law(path: Path) -> None:
    """The law at the largest dataset."""
    invariant_picture(path, num_examples=50000)


def transformers(path: Path) -> None:
    """The law on vision transformers."""
    invariant_picture(path, "cifar10-vit")


def channels_law(path: Path) -> None:
    """The law on networks that lost whole channels."""
    invariant_picture(path, "cifar10-resnet-channels")


def published(path: Path) -> None:
    """The published curve beside three tables."""
    shown: dict[str, str | Path] = {
        "here": TABLE,
        "here, JPEG": research_tables.path("cifar10-resnet-160ep"),
        "here, JPEG, 24 epochs": research_tables.path("cifar10-resnet20-24ep"),
    }
    published_picture({words: prunecast.read(name) for words, name in shown.items()}, path)


def browser_page(path: Path) -> None:
    """The page of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page(prunecast.read(TABLE), target_error=0.1, studies=False).html, encoding="utf-8")
        screenshot(file, path)


def tutorial(path: Path) -> None:
    """The page that the tutorial's search wrote, where its folder is the current one."""
    if FOUND.exists():
        screenshot(FOUND, path)
    else:
        print(
            f"No {FOUND} here: {path.name} stays as it is. Follow docs/tutorial.md, then draw it in that folder."
        )


PICTURES: dict[str, Callable[[Path], None]] = {
    "law": law,
    "transformers": transformers,
    "channels-law": channels_law,
    "published": published,
    "regions": regions_picture,
    "parameters": parameters_picture,
    "invariant": invariant_picture,
    "frontier": frontier_picture,
    "distribution": distribution_picture,
    "dip": dip_picture,
    "page": browser_page,
    "tutorial": tutorial,
}


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](HERE / f"{name}.png")
