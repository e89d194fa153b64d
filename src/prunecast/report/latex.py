"""Tables as LaTeX: `table` environments with the rules of booktabs, Greek letters and signs as mathematics."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from prunecast.report.document import Grid, Section, facts_grid

SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "\u00a0": "~",
}
"""Characters that LaTeX would not print as they are."""
MATHEMATICS = {
    "ε": r"\varepsilon",
    "γ": r"\gamma ",
    "φ": r"\varphi ",
    "ψ": r"\psi ",
    "μ": r"\mu ",
    "σ": r"\sigma ",
    "ν": r"\nu ",
    "ρ": r"\rho ",
    "δ": r"\delta ",
    "α": r"\alpha ",
    "β": r"\beta ",
    "η": r"\eta ",
    "κ": r"\kappa ",
    "λ": r"\lambda ",
    "τ": r"\tau ",
    "↑": r"_\uparrow ",
    "′": "'",
    "₀": "_0",
    "∞": r"\infty ",
    "²": "^2",
    "−": "-",
    "±": r"\pm ",
    "·": r"\cdot ",
    "×": r"\times ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "<": "<",
    ">": ">",
    "…": r"\ldots ",
    "→": r"\to ",
    "µ": r"\mu ",
}
"""Characters that are mathematics."""


def latex_tables(*sections: Section) -> str:
    """Every table and every list of facts of some sections, one `table` environment each."""
    return "\n\n".join(one for section in sections for one in _tables(section)) + "\n"


def escaped(text: str) -> str:
    """A text as LaTeX prints it."""
    parts = []
    for mathematics, run in groupby(text, MATHEMATICS.__contains__):
        if mathematics:
            parts.append("$" + "".join(MATHEMATICS[character] for character in run).rstrip() + "$")
        else:
            parts.append("".join(SPECIAL.get(character, character) for character in run))
    return "".join(parts)


def latex_figure(name: str, caption: str) -> str:
    """A `figure` environment that includes the PDF of a drawn figure."""
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            rf"  \includegraphics[width=\linewidth]{{{name}.pdf}}",
            rf"  \caption{{{escaped(caption)}}}",
            rf"  \label{{fig:{name}}}",
            r"\end{figure}",
            "",
        ]
    )


def _tables(section: Section) -> Iterator[str]:
    if section.facts:
        yield _table(facts_grid(section.facts), section.title)
    for grid in section.grids:
        yield _table(grid, grid.caption or section.title)
    for one in section.subsections:
        yield from _tables(one)


def _table(grid: Grid, caption: str) -> str:
    columns = "".join("l" if index < grid.left else "r" for index in range(len(grid.header)))
    header = [_row(grid.header), r"    \midrule"] if any(grid.header) else []
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            *([rf"  \caption{{{escaped(caption)}}}"] if caption else []),
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            *header,
            *map(_row, grid.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _row(cells: Sequence[str]) -> str:
    return "    " + " & ".join(map(escaped, cells)) + r" \\"
