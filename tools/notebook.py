"""Run the notebooks of the docs and write what their cells show: `python tools/notebook.py`.

A notebook is JSON. Its code cells are run in order in one namespace, without a kernel; what a cell prints and the value
of its last line are its outputs, as text and in the richest form that the value offers. So the notebooks are renewed
and tested without Jupyter.
"""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
RICH = {"_repr_svg_": "image/svg+xml", "_repr_html_": "text/html"}


def read(path: Path) -> dict[str, Any]:
    """A notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells made anew."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        count += 1
        outputs = _outputs("".join(cell["source"]), scope, count)
        cells.append({**cell, "execution_count": count, "outputs": outputs})
    return {**notebook, "cells": cells}


def _outputs(code: str, scope: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {kind: _lines(getattr(value, name)()) for name, kind in RICH.items() if hasattr(value, name)}
        data = {"text/plain": _lines(repr(value)), **shown}
        found.append(
            {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
        )
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """What each code cell shows as plain text, without plots, whose objects have no words."""
    return [
        [
            "".join(own.get("text", own.get("data", {}).get("text/plain", "")))
            for own in cell["outputs"]
            if "image/svg+xml" not in own.get("data", {})
        ]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook as Jupyter does."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        write(path, run(read(path)))
        print(f"{path.name} is renewed.", flush=True)


if __name__ == "__main__":
    main()
