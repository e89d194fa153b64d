"""What the law is on the shipped table of the paper's recipe, for docs/explanation/law.md.

`python tools/law_page.py` prints the parts of the page; `--renew` writes them into it.
"""

from page_parts import DOCS, command, deviation

import prunecast
from prunecast.laws import DEFAULT_LAW, get_law, selectable_laws
from prunecast.laws.findings import LawsAveraged
from prunecast.wording import numbers

PAGE, SCRIPT = DOCS / "explanation" / "law.md", "tools/law_page.py"
TABLE = "cifar10-resnet"


def sections() -> dict[str, str]:
    """Every generated part of the page by name."""
    return {"parameters": parameter_lines(), "weights": weight_lines(), "forms": form_lines()}


def parameter_lines() -> str:
    """The paper's law fitted to the table."""
    law = prunecast.fit(TABLE, law=DEFAULT_LAW)
    lines = [f"| {' | '.join(one.symbol for one in law.form().parameters)} | μ ± σ |"]
    lines.append("|---" * (len(law.parameters) + 1) + "|")
    cells = []
    for name, value in law.parameters.items():
        low, high = law.interval(name)
        cells.append(f"{value:.3g} ({low:.3g} to {high:.3g})")
    lines.append(f"| {' | '.join(cells)} | {deviation(law.deviation)} |")
    return "\n".join(lines)


def weight_lines() -> str:
    """Every law's deviation on configurations left out, and its weight in predictions."""
    law = prunecast.fit(TABLE)
    averaged = next(one for one in law.findings if isinstance(one, LawsAveraged))
    weights = dict(zip(averaged.titles, averaged.weights, strict=True))
    lines = ["| law | deviation on configurations left out (rms) | weight |", "|---|---|---|"]
    for name in selectable_laws():
        rms, title = law.held_out[name], get_law(name).title
        lines.append(f"| `{name}` | {numbers.percent(rms)} | {weights.get(title, 0):.0%} |")
    return "\n".join(lines)


def form_lines() -> str:
    """Every form on configurations left out, and from smaller networks to larger ones."""
    frame = prunecast.compare(TABLE).frame
    lines = [
        "| form | is given ε_np | parameters | configurations left out | larger half from smaller half |",
        "|---|---|---|---|---|",
    ]
    for one in frame.to_dict("records"):
        cells = [
            f"{100 * one[f'{part}_mean']:+.1f} ± {100 * one[f'{part}_std']:.1f}%"
            for part in ("configurations_out", "large_out")
        ]
        given = "yes" if one["given_unpruned"] else "no"
        lines.append(f"| {one['title']} | {given} | {one['parameters']} | {' | '.join(cells)} |")
    return "\n".join(lines).replace("| -", "| −")


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
