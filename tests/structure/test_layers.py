"""Imports go one way, without cycles, and through the front door of each package."""

from graphlib import CycleError, TopologicalSorter

import pytest
from source_tree import Import, imports, modules, package

VOCABULARY = ("text", "errors", "files", "metric", "findings", "display", "plugins", "catalog", "spec")
LAW_HALF = ("table", "tables", "laws", "choice", "studies", "wording", "report")
ENGINE_HALF = ("families", "data", "training", "pruning", "distributed", "fleet", "sweep", "clusters")
BOTH = ("export", "find", "cli", "__main__")
ORDER = {name: rank for rank, name in enumerate((*VOCABULARY, *LAW_HALF, *ENGINE_HALF, *BOTH))}
"""A package may import those that come before it in its own half, and the vocabulary."""


def between_packages() -> list[Import]:
    return [
        own
        for own in imports()
        if package(own.importer) and package(own.imported) and package(own.importer) != package(own.imported)
    ]


def allowed(own: Import) -> bool:
    importer, imported = package(own.importer), package(own.imported)
    if importer in ENGINE_HALF and imported in LAW_HALF:
        return False
    if importer in LAW_HALF and imported in ENGINE_HALF:
        return False
    return ORDER[imported] < ORDER[importer]


def test_every_package_has_its_place():
    assert {package(name) for name in modules() if package(name)} == set(ORDER)


def test_no_package_imports_upwards():
    assert [str(own) for own in between_packages() if not allowed(own)] == []


def test_other_packages_are_used_through_their_front_door():
    def inside(own: Import) -> bool:
        return len(own.door.split(".")) > 2

    assert [str(own) for own in between_packages() if inside(own)] == []


def test_no_module_imports_itself_by_a_detour():
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for own in imports():
        # A package's front door imports its modules; a module that asks the front door for a sibling would be a cycle.
        if own.imported in graph and own.importer != own.imported and own.importer != "prunecast":
            graph[own.importer].add(own.imported)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as cycle:
        pytest.fail(f"modules import each other: {' <- '.join(cycle.args[1])}")


def test_the_half_that_needs_no_torch_never_names_it():
    import ast

    named = [
        (name, node.lineno)
        for name, tree in modules().items()
        if package(name) in (*VOCABULARY, *LAW_HALF)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in (
            [own.name for own in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if module.split(".")[0] in ("torch", "safetensors")
    ]
    assert named == []
