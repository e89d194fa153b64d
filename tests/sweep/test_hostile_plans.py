"""Hostile plans, folders and environments: each gets one sentence, and nothing outside the store changes."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from small import BRIEF, PRUNECAST, parsed

from prunecast.cli.engine import plan, run, status
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, write_json
from prunecast.sweep import failure_of, parse_plan, read_plan
from prunecast.sweep.events import Job, record_failure

SHORT = BRIEF.replace("num_examples = [100, 200]", "num_examples = 100").replace(
    "level_cap = 2", "level_cap = 0"
)
WIDE = """
family = "cifar_resnet"
dataset = "cifar10"
method = "{method}"
recipe = "cifar10"
depth = 20
width = 1000
num_examples = 1000
level_cap = 2
"""


def refusal(text):
    with pytest.raises(PrunecastError) as failure:
        parsed(text)
    assert "\n" not in str(failure.value)
    return str(failure.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            BRIEF.replace("replicates = 2", "replicates = 1000000000"),
            "names 2,000,000,000 chains, but a plan may have",
        ),
        (
            BRIEF.replace("replicates = 2", "replicates = 10000000000000000000000"),
            "replicates is 1000000000000000000000",
        ),
        (
            BRIEF.replace("[100, 200]", "9223372036854775808"),
            "num_examples is 9223372036854775808; give at most",
        ),
        (BRIEF.replace("[100, 200]", '"1e999999999"'), "num_examples is '1e999999999'; give a whole number"),
        (
            BRIEF.replace("depth = 3", "depth = 9223372036854775808"),
            "depth is 9223372036854775808; give at most",
        ),
        (BRIEF.replace("width = 0.5", "width = 1e300"), "width is 1e+300; give at most"),
        (
            BRIEF.replace("level_cap = 2", "level_cap = 9223372036854775808"),
            "level_cap is 9223372036854775808",
        ),
        ("x = " + "[" * 100_000, "nests lists or tables too deeply"),
        ("x" + ".x" * 100_000 + " = 1", "has a key of more than 64 parts"),
        ("[" + "'x' . " * 100_000 + "x]", "has a key of more than 64 parts"),
        ("x = 2026-02-31", "is not a TOML file"),
        (BRIEF.replace("depth = 3", f"depth = 0x{'f' * 5000}"), "is not a TOML file: Exceeds the limit"),
        (
            BRIEF + '[scale."a/../../x"]\nlevel_cap = 0',
            "the scale 'a/../../x' cannot be part of a file's name",
        ),
        (BRIEF + '[scale.".."]\nlevel_cap = 0', "the scale '..' cannot be part of a file's name"),
    ],
    ids=range(14),
)
def test_plans_that_ask_for_too_much_are_one_sentence(text, words):
    assert words in refusal(text)


@pytest.mark.parametrize("method", ["imp", "imp-2:4"])
def test_a_network_larger_than_the_memory_is_counted_and_not_built(tmp_path, method):
    (tmp_path / "wide.toml").write_text(WIDE.format(method=method))
    counted = CliRunner().invoke(plan, [str(tmp_path / "wide.toml"), "--no-estimate"], catch_exceptions=False)
    assert "269,826,640,010" in counted.output
    with pytest.raises(
        PrunecastError, match="Training it needs at least 3,238 GB of memory, and this machine has"
    ):
        CliRunner().invoke(plan, [str(tmp_path / "wide.toml")], catch_exceptions=False, standalone_mode=False)


def test_a_network_larger_than_any_address_is_refused(tmp_path):
    (tmp_path / "wide.toml").write_text(
        WIDE.format(method="imp-2:4").replace("width = 1000\n", "width = 1000000000\n")
    )
    with pytest.raises(PrunecastError, match="010 parameters, more than torch can address; choose a smaller"):
        CliRunner().invoke(
            plan,
            [str(tmp_path / "wide.toml"), "--no-estimate"],
            catch_exceptions=False,
            standalone_mode=False,
        )


def test_a_long_word_is_no_long_key():
    """The search for long keys took quadratic time."""
    assert parsed(f"# {'x' * 200_000}\n{SHORT}").chains == parsed(SHORT).chains


def test_a_plan_that_is_not_utf8_names_the_line(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"# plan\n# caf\xe9\n" + BRIEF.encode())
    with pytest.raises(
        PrunecastError, match=r"latin\.toml, line 2: the text is not UTF-8; save the plan as UTF-8\."
    ):
        read_plan(tmp_path / "latin.toml")


def test_a_plan_may_be_a_pipe_but_is_not_waited_for(tmp_path):
    (tmp_path / "plan.toml").write_text(SHORT)
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(
        PrunecastError, match=r"pipe\.toml cannot be read: it is a pipe that no process writes to"
    ):
        read_plan(tmp_path / "pipe.toml")
    with subprocess.Popen(["cat", tmp_path / "plan.toml"], stdout=subprocess.PIPE) as writer:
        assert read_plan(f"/dev/fd/{writer.stdout.fileno()}").chains == parsed(SHORT).chains


def test_names_that_are_not_utf8_are_shown_as_escapes(tmp_path):
    plan, store = (os.fsdecode(os.fsencode(tmp_path) + name) for name in (b"/pl\xffan.toml", b"/st\xffore"))
    with open(plan, "w") as file:  # noqa: PTH123 (a name that no Path can print)
        file.write(SHORT)
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [*PRUNECAST, "run", plan, "--store", store, "--jobs", "1", "-o", f"{store}.csv"]
    done = subprocess.run(command, capture_output=True, text=True, env=strict, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"st\udcffore.csv" in done.stdout


def test_nothing_that_a_store_holds_reaches_the_terminal_as_an_escape(tmp_path):
    (tmp_path / "brief.toml").write_text(SHORT)
    plan = parsed(SHORT)
    folder = chain_folder(tmp_path / "store", plan.chains[0].spec).path
    folder.mkdir(parents=True)
    evil = "\x1b]0;title\x07 \x9b31m"
    write_json(folder / "failure.json", {"format": 1, "error": evil, "traceback": "", "times": 1, "code": ""})
    shown = CliRunner().invoke(status, [str(tmp_path / "brief.toml"), "--store", str(tmp_path / "store")])
    assert r"\u001b]0;title\u0007 \u009b31m" in shown.output
    assert not set("\x1b\x07\x9b") & set(shown.output)


def test_messages_of_a_chain_that_fails_have_no_escapes(tmp_path):
    job = Job(number=1, chain=parsed(SHORT).chains[0])
    made = record_failure(tmp_path, job, ValueError("\x1b[31mred"))
    assert made.error == failure_of(tmp_path, job.chain.spec).error == r"ValueError: \u001b[31mred"


@pytest.mark.slow
def test_modules_beside_a_plan_take_the_place_of_no_installed_one(tmp_path):
    for name in ("rich", "numpy", "torch", "json", "tempfile"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module beside the plan was imported')")
    (tmp_path / "plan.toml").write_text(SHORT)
    command = [*PRUNECAST[:1], "-P", *PRUNECAST[1:], "run", "plan.toml", "--store", "store", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 chains finished" in done.stdout


@pytest.mark.slow
def test_a_long_tmpdir_does_not_stop_workers(tmp_path):
    long = tmp_path / ("long" * 30)
    long.mkdir()
    code = (
        "import tempfile; from multiprocessing import util; from prunecast.sweep import Processes; Processes(); "
        "print(len(util.get_temp_dir()), tempfile.gettempdir())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(long)},
        check=True,
    )
    length, usual = done.stdout.split()
    assert int(length) < 60
    assert usual == str(long)


def test_the_names_of_scales_stay_in_the_store(tmp_path):
    (tmp_path / "plan.toml").write_text(SHORT + '[scale."a/../../x"]\nlevel_cap = 0\n')
    asked = [
        str(tmp_path / "plan.toml"),
        "--scale",
        "a/../../x",
        "--store",
        str(tmp_path / "inner" / "store"),
    ]
    assert CliRunner().invoke(run, asked).exception is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml"]
    assert parse_plan(SHORT + "[scale.smoke-1]\nlevel_cap = 1", name="p", scale="smoke-1").name == "p-smoke-1"
