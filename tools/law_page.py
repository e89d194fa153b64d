"""What the law is on the shipped table of the paper's recipe, for docs/explanation/law.md.

`python tools/law_page.py` prints the parts of the page; `--renew` writes them into it.
"""

from page_parts import DOCS, command, deviation, table

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
    cells = []
    for name, value in law.parameters.items():
        low, high = law.interval(name)
        cells.append(f"{value:.3g} ({low:.3g} to {high:.3g})")
    symbols = [one.symbol for one in law.form().parameters]
    return table([*symbols, "μ ± σ"], [[*cells, deviation(law.deviation)]])


def weight_lines() -> str:
    """Every law's deviation on configurations left out, and its weight in predictions."""
    law = prunecast.fit(TABLE)
    averaged = next(one for one in law.findings if isinstance(one, LawsAveraged))
    weights = dict(zip(averaged.titles, averaged.weights, strict=True))
    rows = [
        [f"`{name}`", numbers.percent(law.held_out[name]), f"{weights.get(get_law(name).title, 0):.0%}"]
        for name in selectable_laws()
    ]
    return table(["law", "deviation on configurations left out (rms)", "weight"], rows)


def form_lines() -> str:
    """Every form on configurations left out, and from smaller networks to larger ones."""
    left_out = "configurations left out", "larger half from smaller half"
    rows = [
        [
            *(one.title, "yes" if one.given_unpruned else "no", one.parameters),
            *map(deviation, (one.configurations_out, one.large_out)),
        ]
        for one in prunecast.compare(TABLE)
    ]
    return table(["form", "is given ε_np", "parameters", *left_out], rows)


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
