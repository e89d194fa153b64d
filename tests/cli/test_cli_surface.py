"""What all commands have in common: groups in the help, names of arguments, JSON for reports and errors, numbers."""

import json
import sys

import click
import pytest
import research_tables
from click.testing import CliRunner

from prunecast.cli import COMMANDS, WORKFLOW, cli, main
from prunecast.text import parse_number

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
METAVARS = {"table": "TABLE", "law": "LAW", "plan": "PLAN", "store": "STORE"}
PLAN = """
family = "cifar_resnet"
dataset = "cifar10"
recipe = {preset = "cifar10", name = "sgd-24ep", epochs = 24}
depth = 20
width = 1
num_examples = 50000
"""
COMMAND = {name: cli.get_command(click.Context(cli), name) for name in COMMANDS}


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["prunecast", *arguments])
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def test_the_help_groups_every_command():
    text = CliRunner().invoke(cli, ["--help"]).output
    assert [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "][1:] == list(
        WORKFLOW
    )
    listed = [
        line.split()[0] for line in text.splitlines() if line.startswith("  ") and not line.startswith("  -")
    ]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_and_the_same_names_for_the_same_things(name):
    command = COMMAND[name]
    assert any("--json" in own.opts for own in command.params), (
        "a command that reports prints JSON on request"
    )
    context = click.Context(command)
    for own in command.params:
        if own.name in METAVARS and not (own.name == "law" and isinstance(own, click.Option)):
            assert own.make_metavar(context).strip("[]") == METAVARS[own.name]
        flag = isinstance(own, click.Option) and own.is_flag
        named = own.type.name not in ("float", "float range", "integer range", "text")
        assert flag or own.metavar or named, own.opts


@pytest.mark.parametrize(
    ("text", "value"),
    [("12%", 0.12), ("7 %", 0.07), ("1/4", 0.25), ("0.5", 0.5), (" 1/16 ", 0.0625), ("12.5%", 0.125)],
)
def test_numbers_as_people_write_them(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["%", "1/0%", "a%", "12%%"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a number|could not convert|Invalid literal"):
        parse_number(text)


def test_percentages_and_fractions_ask_the_same(monkeypatch, capsys):
    said = [
        run(monkeypatch, capsys, "choose", MEASURED, "--where", "num_examples=50000", *line)
        for line in (
            ("--target-error", "30%", "--width", "1/4", "--confidence", "80%"),
            ("--target-error", "0.3", "--width", "0.25", "--confidence", "0.8"),
        )
    ]
    assert said[0] == said[1]
    assert said[0][0] == 0


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (("fit", "none.csv", "--json"), 2, "there is no such file"),
        (("choose", MEASURED, "--json"), 2, "choose needs a target error"),
        (("fit", MEASURED, "--json", "--law", "eq7"), 2, "eq7"),
        (("status", "none", "--json"), 2, "none"),
        (("check", "nowhere", "--json"), 2, "nowhere"),
        (
            ("run", "digits", "--device", "abacus", "--json"),
            2,
            "'abacus' is not a device; give cpu, cuda or cuda:N.",
        ),
    ],
)
def test_errors_are_json_too(monkeypatch, capsys, line, status, words):
    got, out, err = run(monkeypatch, capsys, *line)
    body = json.loads(out)["error"]
    assert (got, body["status"]) == (status, status)
    assert words in body["message"]
    assert words.split("'")[0] in err
    again = run(monkeypatch, capsys, *(word for word in line if word != "--json"))
    assert again[:2] == (status, "")


def test_an_unmet_target_is_status_1_and_still_answers(monkeypatch, capsys):
    status, out, _ = run(monkeypatch, capsys, "choose", MEASURED, "--target-error", "5%", "--json")
    assert status == 1
    assert not json.loads(out)["met"]


def test_make_agrees_about_an_unmet_target(monkeypatch, capsys, tmp_path):
    """Nothing is trained, and no data is needed."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    asked = ("--target-error", "5%", "--plan", str(plan), "-o", str(tmp_path / "network"))
    line = ("make", MEASURED, *asked)
    status, out, err = run(monkeypatch, capsys, *line, "--json")
    assert status == 1
    assert "No network of these sizes reaches 0.05" in err
    assert json.loads(out)["error"]["status"] == 1
    assert not (tmp_path / "network").exists()


def test_reports_as_json(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    plan = json.loads(run(monkeypatch, capsys, "plan", "digits", "--no-estimate", "--json")[1])
    assert (plan["plan"], plan["axes"]["dataset"]) == ("digits", ["digits"])
    assert "digits" in json.loads(run(monkeypatch, capsys, "plan", "--json")[1])
    status = json.loads(run(monkeypatch, capsys, "status", "digits", "--json")[1])
    assert len(status["chains"]) == plan["chains"]
    assert {own["state"] for own in status["chains"]} == {"waiting"}


def test_latex_of_every_command_that_prints_tables(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    only = ("--where", "num_examples=50000")
    run(monkeypatch, capsys, "fit", MEASURED, *only, "-o", "law.json")
    for line in (
        ("fit", MEASURED, *only),
        ("choose", "law.json", "--target-error", "0.3"),
        ("study", "noise", MEASURED),
    ):
        status, out, _ = run(monkeypatch, capsys, *line, "--latex")
        assert status == 0
        assert out.startswith("\\begin{table}")
    status, out, _ = run(
        monkeypatch, capsys, "predict", "law.json", "--density", "50%,5%", "--width", "1/4", "--latex"
    )
    assert out.count(r" \\") == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("fit", MEASURED, "--each-configuration", "-o", "law.json"), "saves no law; leave out --output"),
        (("fit", MEASURED, "--each-configuration", "--law", "dip", "--huber", "0.1"), "out --huber, --law"),
        (("fit", MEASURED, "--json", "--latex"), "--json and --latex cannot be combined"),
        (("study", "noise", MEASURED, "--latex", "--json"), "--json and --latex cannot be combined"),
        (
            ("report", MEASURED, "--no-studies", "--all-studies"),
            "leaves all studies out; leave out --all-stud",
        ),
        (("choose", MEASURED, "--frontier", "--width", "1", "--confidence", "0.5"), "--confidence, --width"),
    ],
)
def test_options_that_would_be_ignored_are_refused(monkeypatch, capsys, tmp_path, line, words):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(monkeypatch, capsys, *line)
    assert status == 2
    assert words in err
    assert not list(tmp_path.iterdir())
