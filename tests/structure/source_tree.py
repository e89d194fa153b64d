"""The source as a tree of modules and their imports, read without running anything."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import prunecast

SOURCE = Path(prunecast.__file__).parent
ROOT = "prunecast"


@dataclass(frozen=True, kw_only=True)
class Import:
    """One imported name: who imports what, and where."""

    importer: str
    imported: str
    """the module that the name lives in, as far as the statement shows"""
    line: int
    door: str
    """the module that the statement names"""

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.imported}"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join([ROOT, *(part for part in parts if part != "__init__")])
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def package(module: str) -> str:
    """The first part of a module's name below the root: a package, or a module of the root itself."""
    return module.split(".")[1] if "." in module else ""


@cache
def imports() -> tuple[Import, ...]:
    """Every import inside the package, also inside functions and for type checking."""
    return tuple(
        Import(importer=name, imported=imported, door=door, line=line)
        for name, tree in modules().items()
        for imported, door, line in _imported(tree)
    )


def _imported(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    known = modules()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (own.name, own.name, node.lineno) for own in node.names if own.name.split(".")[0] == ROOT
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == ROOT:
            for own in node.names:
                inner = f"{node.module}.{own.name}"
                yield (inner if inner in known else str(node.module)), str(node.module), node.lineno
