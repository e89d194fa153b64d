"""Sentences are written at the edge and never read by code: nothing searches, splits or substitutes them."""

import ast
import contextlib
import sys
from collections.abc import Iterator

import pytest
import research_tables
from source_tree import modules, package

from prunecast import wording
from prunecast.cli import main
from prunecast.wording import core

LOOKING = ("count", "endswith", "find", "index", "rfind", "rindex", "startswith")
CUTTING = (
    "partition",
    "removeprefix",
    "removesuffix",
    "rpartition",
    "rsplit",
    "split",
    "splitlines",
    "strip",
)
CHANGING = ("lower", "lstrip", "replace", "rstrip", "translate", "upper")
READERS = (*LOOKING, *CUTTING, *CHANGING)
"""Methods of a string that look into it or change it."""
LAW_HALF = ("table", "laws", "choice", "studies", "wording", "report", "cli", "export", "spec", "catalog")
MAY_MATCH = {
    "prunecast.text",
    "prunecast.sweep.plan",
    "prunecast.report.vega",
    "prunecast.fleet.kernels.nvrtc",
}
"""Modules that may use regular expressions: names that people type, keys of plans, files of figures, the source of
kernels."""
RENDERERS = ("prunecast.report.html",)
"""Modules that may cut a sentence at its backticks, which mark inline code."""


def is_prose(node: ast.expr) -> bool:
    """A literal that reads like words, not like a name, a path or a separator."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and len([word for word in node.value.split() if word.isalpha()]) > 1
    )


def readings(tree: ast.Module) -> Iterator[int]:
    """Lines where code looks for words in a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            if is_prose(node.left):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looks = node.func.attr in READERS
            yield from [node.lineno] * (looks and any(is_prose(own) for own in node.args))


def test_no_code_looks_for_words():
    found = [
        f"{name}, line {line}"
        for name, tree in modules().items()
        if package(name) in LAW_HALF
        for line in readings(tree)
    ]
    assert found == []


def test_no_regular_expressions_but_for_names():
    using = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) and any(own.name == "re" for own in node.names)
    }
    assert using <= MAY_MATCH


class Sealed(str):
    """A sentence that the package itself may print and join, but not look into; libraries may wrap it to lines."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        _refuse()
        return super().__contains__(part)  # type: ignore[operator]


def _reader(name: str):
    def read(self: str, *given: object) -> object:
        _refuse()
        return getattr(str, name)(self, *given)

    return read


def _refuse() -> None:
    caller = sys._getframe(2).f_globals.get("__name__", "")
    inside = caller.startswith("prunecast") and caller not in RENDERERS
    assert not inside, f"{caller} looks into a sentence"


for method in READERS:
    setattr(Sealed, method, _reader(method))


@pytest.fixture
def sealed(monkeypatch):
    """Every sentence about a finding is sealed, and counted."""
    said: list[str] = []

    def wrapped(function):
        def say(finding, metric):
            said.append(function(finding, metric))
            return Sealed(said[-1])

        return say

    monkeypatch.setattr(core, "words", wrapped(core.words))
    return said


MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
COMMANDS = [
    "fit TABLE",
    "fit TABLE --json",
    "choose TABLE --target-error 0.2",
    "choose TABLE --target-error 0.05 --json",
    "choose TABLE --target-error 0.15 --sizes around",
    "study optimality TABLE",
    "study extrapolation TABLE --json",
    "report TABLE --no-studies -o page.html",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_looks_into_a_sentence(command, sealed, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["prunecast", *command.replace("TABLE", MEASURED).split()])
    with contextlib.suppress(SystemExit):  # of a target that is not met
        main()
    assert sealed


def test_a_sealed_sentence_is_noticed():
    scope = {"__name__": "prunecast.somewhere", "sentence": Sealed("The error rises.")}
    with pytest.raises(AssertionError, match=r"prunecast\.somewhere looks into a sentence"):
        exec("'error' in sentence", scope)
    with pytest.raises(AssertionError, match=r"prunecast\.somewhere looks into a sentence"):
        exec("sentence.replace('error', 'loss')", scope)
    assert "rises" in Sealed("The error rises.")


def test_every_finding_has_a_wording():
    from prunecast.findings import Finding

    def leaves(kind: type[Finding]) -> Iterator[type[Finding]]:
        inner = kind.__subclasses__()
        if not inner and kind.__module__.startswith("prunecast."):
            yield kind
        for own in inner:
            yield from leaves(own)

    assert wording
    assert [own for own in leaves(Finding) if own not in core.words.registry] == []
