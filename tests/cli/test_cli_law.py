"""The commands of the law, run as a shell script would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import research_tables

from prunecast.laws import load

SCRIPT = Path(sys.executable).with_name("prunecast")
AT_50000 = (str(research_tables.path("cifar10-resnet20-24ep")), "--where", "num_examples=50000")


def test_fit_prints_the_law(prunecast):
    done = prunecast("fit", *AT_50000, "--law", "eq2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "Eq. 2 fitted to cifar10-resnet20-24ep.csv (cifar_resnet, cifar10, imp, sgd-24ep)"
    )
    assert "119 rows of 5 configurations" in done.stdout


def test_fit_prints_json_for_programs(prunecast):
    done = prunecast("fit", *AT_50000, "--law", "eq2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    body = json.loads(done.stdout)
    assert body["law"] == "eq2"
    assert body["parameters"]["high_error"] == pytest.approx(0.843, abs=5e-4)
    assert body["intervals"]["gamma"][0] < body["parameters"]["gamma"] < body["intervals"]["gamma"][1]
    assert body["deviation"]["mean"] == pytest.approx(0.0207, abs=5e-5)
    assert body["deviation"]["std"] == pytest.approx(0.0424, abs=5e-5)
    assert body["noise_floor"] is None
    assert body["rows"] == 119
    assert {"kind", "text", "dipping", "deepest", "mean_deviation"} <= set(body["notes"][0])
    assert body["undetermined"] == []
    assert body["table_notes"]


def test_options_reach_the_fit(prunecast):
    done = prunecast(
        "fit",
        *AT_50000,
        "--json",
        "--high-error",
        "chance",
        "--residual",
        "log",
        "--huber",
        "0.1",
        "--each-replicate",
    )
    body = json.loads(done.stdout)
    assert body["parameters"]["high_error"] == pytest.approx(0.9)
    assert body["fixed"] == ["high_error"]
    assert body["options"] == {
        "replicates": "each",
        "residual": "log",
        "huber": "0.1",
        "high_error": "chance",
    }


def test_each_configuration_alone(prunecast):
    text = prunecast("fit", *AT_50000, "--each-configuration")
    assert (text.returncode, text.stderr) == (0, "")
    assert len(text.stdout.strip().splitlines()) == 4 + 5
    body = json.loads(prunecast("fit", *AT_50000, "--each-configuration", "--json").stdout)
    assert body["law"] == "eq1"
    assert [one["width"] for one in body["configurations"]] == [0.0625, 0.125, 0.25, 0.5, 1]


def test_a_saved_law_is_the_printed_one(prunecast, law_file):
    printed = json.loads(prunecast("fit", *AT_50000, "--json").stdout)
    assert load(law_file).parameters == printed["parameters"]
    said = prunecast("fit", *AT_50000, "-o", law_file)
    assert said.stdout.endswith(f"The law is saved in {law_file}.\n")


def test_several_values_make_a_table(prunecast, law_file):
    done = prunecast("predict", law_file, "--density", "0.5, 0.1,1/64", "--width", "1/4,1")
    assert (done.returncode, done.stderr) == (0, "")
    header, _, *rows = done.stdout.rstrip().splitlines()
    assert header.split()[:3] == ["Density", "Depth", "Width"]
    assert [row.split()[0] for row in rows] == ["0.5", "0.5", "0.1", "0.1", "0.01562", "0.01562"]
    assert [row.split()[2] for row in rows] == ["1/4", "1"] * 3


def test_the_number_of_examples_tells_rows_apart_and_what_never_varied_is_a_guess(called, law_file):
    asked = ("predict", law_file, "--density", "0.1", "--width", "1", "--num-examples", "50000,25000")
    header, _, first, second, _, *note = called(*asked).stdout.rstrip().splitlines()
    assert header.split()[:4] == ["Density", "Depth", "Width", "Examples"]
    assert [line.split()[3] for line in (first, second)] == ["50,000", "25,000"]
    assert "number of examples was 50,000 in every measurement" in note[0]
    (told,) = json.loads(called(*asked, "--json").stdout)["notes"]
    assert told["text"].startswith("The number of examples was 50,000")
    assert json.loads(called(*asked[:-2], "--json").stdout)["notes"] == []


def test_a_full_disk_is_one_sentence():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this machine")
    with full.open("w") as out:
        done = subprocess.run([SCRIPT, "tables"], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("prunecast: the output cannot be written: ")
    assert done.stderr.count("\n") == 1


def test_predictions_as_json(prunecast, law_file):
    done = prunecast("predict", law_file, "--density", "0.1,0.01", "--width", "0.5", "--json")
    body = json.loads(done.stdout)
    assert body["law"] == "dip"
    first, second = body["predictions"]
    assert first["lower"] < first["error"] < first["upper"]
    assert (first["unpruned_source"], first["extrapolated"]) == ("measured", False)
    assert first["error"] == pytest.approx(load(law_file).predict(0.1, width=0.5).error.item())
    assert second["error"] > first["error"]
    given = prunecast("predict", law_file, "--density", 0.1, "--width", 3, "--unpruned-error", 0.05, "--json")
    (only,) = json.loads(given.stdout)["predictions"]
    assert (only["unpruned_error"], only["unpruned_source"], only["extrapolated"]) == (0.05, "given", True)


def test_compare_in_two_tracks(prunecast):
    done = prunecast("compare", *AT_50000)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Given the unpruned error" in done.stdout
    assert "Not given the unpruned error" in done.stdout
    body = json.loads(prunecast("compare", *AT_50000, "--json").stdout)
    assert {"eq2", "dip", "lower", "rosenfeld-density", "broken", "frantar", "power"} <= {
        s["name"] for s in body["scores"]
    }
    eq2 = next(s for s in body["scores"] if s["name"] == "eq2")
    assert eq2["in_sample"]["mean"] == pytest.approx(0.0207, abs=5e-5)


def test_losses(prunecast, tmp_path):
    table = tmp_path / "losses.csv"
    rows = [f"{0.8**k:.6f},{2.5 * (1 + 0.002 / 0.8 ** (2 * k)) ** 0.3:.5f}" for k in range(25)]
    table.write_text("density,perplexity\n" + "\n".join(rows) + "\n")
    done = prunecast("fit", table, "--metric", "loss", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    body = json.loads(done.stdout)
    assert (body["law"], body["metric"]) == ("eq1", "loss")
    assert body["deviation"]["std"] < 0.01


CSV = "density,error\n"
GOOD = CSV + "".join(f"{0.8**k:.6f},{0.1 * (1 + 0.01 / 0.8 ** (2 * k)) ** 0.3:.5f}\n" for k in range(20))
# A message that ends in ... is held up to there.
MISTAKES = {
    "absent": (
        "fit nowhere.csv",
        "nowhere.csv: there is no such file, and no table that ships with prunecast is called 'nowhere.csv'. The "
        "tables ...",
    ),
    "misspelt table": (
        "fit cifar10-resnet20-24e",
        "cifar10-resnet20-24e: there is no such file, and no table that ships with prunecast is called "
        "'cifar10-resnet20-24e'. Did you mean...",
    ),
    "misspelt column": (
        "fit misspelt.csv",
        "misspelt.csv: there is no column density. A table needs density and error; the columns found are denisty, "
        'error. If denisty is the share of weights kept, use --column density=denisty (columns={"density": '
        '"denisty"} in Python). If it is the share pruned, use --column density=1-denisty (columns={"density": '
        '"1-denisty"} in Python)',
    ),
    "misspelt selection": (
        "fit good.csv --where eror=1",
        "good.csv: there is no column eror. Did you mean error? The columns are density, error",
    ),
    "empty": ("fit empty.csv", "empty.csv is empty; a table needs a header and at least one row"),
    "header only": ("fit header.csv", "header.csv has a header but no rows; a table needs at least one row"),
    "bad density": (
        "fit bad.csv",
        "bad.csv, line 3: density is -0.5, but it must be greater than 0 and at most 1",
    ),
    "few": (
        "fit few.csv",
        "few.csv: 3 usable rows cannot determine 3 parameters; measure more levels or configurations",
    ),
    "where": (
        "fit good.csv --where width",
        "--where width: write it as COLUMN=VALUE, for example num_examples=50000",
    ),
    "where twice": (
        "fit good.csv --where width=1 --where width=2",
        "--where asks for width 1 and 2, but no row has both; leave one of them out",
    ),
    "chance unknown": (
        "fit good.csv --high-error chance",
        "good.csv: the chance error is not known, because the table names no dataset; give it as a number",
    ),
    "high error too low": (
        "fit good.csv --high-error 0.01",
        "ε↑ is 0.01, but for this table it must be between...",
    ),
    "huber": ("fit good.csv --huber -1", "the Huber threshold must be positive, not -1"),
    "unwritable": (
        "fit good.csv -o no/such/law.json",
        "no/such/law.json cannot be written: there is no folder...",
    ),
    "compare too few": (
        "compare good.csv",
        "good.csv: too few configurations (1) to leave any out; compare needs three",
    ),
    "no law": (
        "predict nowhere.json --density 0.1",
        "nowhere.json cannot be read: No such file or directory; `prunecast fit TABLE -o law.json` writes one",
    ),
    "not a law": (
        "predict other.json --density 0.1",
        "other.json is not a saved law; `prunecast fit TABLE -o law.json` writes one",
    ),
    "frontier and target": (
        "choose LAW --frontier --target-error 0.2 --confidence 0.9",
        "--frontier shows the smallest network for each error; leave out --confidence, --target-error",
    ),
    "choose for no error": (
        "choose good.csv --target-error -1",
        "the target error must be a positive number, not -1",
    ),
    "density of two": (
        "predict LAW --width 1 --density 2",
        "density is 2, but it must be greater than 0 and at most 1",
    ),
    "width unsaid": (
        "predict LAW --density 0.1",
        "width varies in this law's data (0.0625, 0.125, 0.25, 0.5, 1); give it with --width, or width= in Python",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(called, law_file, tmp_path, mistake):
    files = {
        "empty.csv": "",
        "header.csv": CSV,
        "bad.csv": CSV + "1,0.1\n-0.5,0.2\n",
        "few.csv": CSV + "1,0.1\n0.5,0.12\n0.1,0.4\n",
        "good.csv": GOOD,
        "other.json": "{}",
        "misspelt.csv": GOOD.replace("density", "denisty"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command, message = MISTAKES[mistake]
    done = called(*command.replace("LAW", str(law_file)).split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith(".\n")
    expected = f"prunecast: {message}.\n"
    if message.endswith("..."):
        assert done.stderr.startswith(expected.removesuffix("....\n"))
    else:
        assert done.stderr == expected


USAGE = {
    "no command": ("", "Usage: prunecast"),
    "unknown command": ("guess", "No such command 'guess'"),
    "misspelt command": ("prdict", "No such command 'prdict'. Did you mean predict?"),
    "a file's place": ("fit good.csv -o .", "is a directory"),
    "width by zero": ("choose good.csv --width 1/0", "'1/0' is not a number such as 0.12, 12% or 1/16"),
    "unknown option": ("fit good.csv --fast", "No such option"),
    "no table": ("fit", "Missing argument 'TABLE'"),
    "no density": ("predict law.json", "Missing option '--density'"),
    "no number": (
        "predict law.json --density much",
        "'much' is not a list of numbers such as 0.5,0.25, 1/16 or 50%,5%",
    ),
    "by zero": ("predict law.json --density 1/0", "'1/0' is not a list of numbers"),
    "unknown law": (
        "fit good.csv --law eq7",
        "No law is called 'eq7'; choose one of eq2, dip, sharp, sharp-dip. Did you mean eq2?",
    ),
    "unknown metric": (
        "fit cifar10-resnet --metric bleu",
        "there is no column bleu, which --metric bleu",
    ),
    "high error": ("fit good.csv --high-error some", "'some' is neither free, chance nor a number"),
}


@pytest.mark.parametrize("usage", USAGE)
def test_misspelt_commands_exit_with_2_and_say_what_is_right(called, usage):
    arguments, words = USAGE[usage]
    done = called(*arguments.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [[], ["fit"], ["predict"], ["compare"]])
def test_help(called, command):
    done = called(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: prunecast")
    assert called(*command, "-h").stdout == done.stdout


def test_version(prunecast):
    from prunecast import __version__

    assert prunecast("--version").stdout == f"prunecast, version {__version__}\n"
