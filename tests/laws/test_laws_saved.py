import contextlib
import json
import os
import subprocess

import numpy as np
import pytest
from planted import planted

from prunecast.choice import choose
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.laws import fit, from_json, get_law, load, saved, unregister
from prunecast.table import read


@pytest.fixture(scope="module")
def law(shipped):
    return fit(shipped)


@pytest.fixture(scope="module")
def laws(shipped, shipped_all, law):
    """Laws of every shape: partial, undetermined, fixed, with replicates and a dense law, Eq. 1, a loss."""
    loss = planted(configurations=8).rename(columns={"error": "loss"}).assign(loss=lambda f: 7 * f["loss"])
    return {
        "partial": law,
        "open": fit(read(shipped.frame[shipped.frame["error"] < 0.6])),
        "fixed": fit(shipped, high_error="chance"),
        "joint": fit(read(planted(configurations=20, replicates=2))),
        "eq1": fit(shipped.select(width=0.5)),
        "loss": fit(read(loss, metric="loss")),
        "dip": fit(shipped_all, law="dip"),
        "averaged": fit(shipped_all),
        "costs": fit(read(with_costs(planted(configurations=12)))),
    }


def with_costs(frame):
    """A planted table with the costs of networks whose channels are removed."""
    size = frame["depth"] * frame["width"] ** 2 * frame["density"]
    costs = {"bytes": 50_000 * size + 100, "multiply_adds": 1e6 * size + 1e4, "latency_ms": 0.1 + size / 9}
    return frame.assign(**costs, timed_with="torch-1-1")


NAMES = ["partial", "open", "fixed", "joint", "eq1", "loss", "dip", "costs"]


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_law_predicts_the_same(laws, name, tmp_path):
    law = laws[name]
    law.save(tmp_path / "law.json")
    again = load(tmp_path / "law.json")
    written = json.loads((tmp_path / "law.json").read_text(encoding="utf-8"))
    assert written.pop("checksum").startswith("sha256:")
    assert dumps(again.as_json()) == dumps(written)
    asked = {"density": np.array([1.0, 0.1, 0.01]), "depth": 20, "width": 0.5, "num_examples": 50_000}
    ours, theirs = (one.predict(unpruned_error=0.12, **asked) for one in (law, again))
    np.testing.assert_allclose(ours.error, theirs.error, rtol=1e-12)
    np.testing.assert_allclose(ours.lower, theirs.lower, rtol=1e-5)
    np.testing.assert_allclose(ours.upper, theirs.upper, rtol=1e-5)
    assert again.findings == law.findings
    assert again.configurations == law.configurations
    assert again.undetermined == law.undetermined


def test_the_file_names_itself(law, shipped, tmp_path):
    law.save(tmp_path / "law.json")
    text = (tmp_path / "law.json").read_text(encoding="utf-8")

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    body = json.loads(text, parse_constant=refuse)
    assert body["format"] == "prunecast law"
    assert body["version"] == 2
    assert body["law"] == "dip"
    assert [own["law"] for own in body["alternatives"]] == ["eq2", "sharp", "sharp-dip"]
    assert body["origin"]["digest"] == shipped.digest
    assert body["origin"]["family"] == "cifar_resnet"
    assert set(body["parameters"]) == set(body["intervals"]) == set(law.parameters)
    assert body["rows"] == 119
    assert list(tmp_path.iterdir()) == [tmp_path / "law.json"]


DAMAGES = {
    "empty": (lambda text: "", "is not a saved law"),
    "half": (lambda text: text[: len(text) // 2], "is not a saved law"),
    "list": (lambda text: "[1, 2]", "is not a saved law; `prunecast fit TABLE -o law.json` writes one"),
    "foreign": (lambda text: '{"a": 1}', "is not a saved law; `prunecast fit TABLE -o law.json` writes one"),
    "newer": (
        lambda text: text.replace('"version": 2', '"version": 99'),
        "has format version 99, but this prunecast reads version 2; fit the table again",
    ),
    "older": (
        lambda text: text.replace('"version": 2', '"version": 1'),
        "has format version 1, but this prunecast reads version 2; fit the table again",
    ),
    "no parameters": (lambda text: _without(text, "parameters"), "is damaged"),
    "no spread": (lambda text: _without(text, "spread"), "is damaged"),
    "odd draws": (lambda text: _with(text, "spread", {"draws": [[1]], "centre": []}), "is damaged"),
    "words for numbers": (lambda text: _with(text, "parameters", {"gamma": "much"}), "is damaged"),
    "parameters list": (lambda text: _with(text, "parameters", [1, 2]), "is damaged"),
    "unknown law": (lambda text: _with(text, "law_source", "eq9"), "cannot be used: No law is called 'eq9'"),
    "no module": (
        lambda text: _with(text, "law_source", "no_such_module:LAW"),
        "cannot be used: cannot import law 'no_such_module:LAW'",
    ),
    "other parameters": (
        lambda text: _with(text, "parameters", {**json.loads(text)["parameters"], "beta": 1.0}),
        "is damaged (dip has no parameter 'beta')",
    ),
    "unknown finding": (lambda text: _with(text, "findings", [{"type": "Doubt"}]), "is damaged"),
    "negative": (lambda text: text.replace('"gamma": 0.', '"gamma": -0.', 1), "is damaged"),
    "missing axis": (lambda text: _with(text, "axes", []), "is damaged"),
    "no configurations": (lambda text: _with(text, "configurations", []), "is damaged"),
}


def _without(text, key):
    body = json.loads(text)
    del body[key]
    return json.dumps(body)


def _with(text, key, value):
    return json.dumps({**json.loads(text), key: value})


def _refusal(path):
    with pytest.raises(PrunecastError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_get_one_sentence(law, damage, tmp_path):
    path = tmp_path / "law.json"
    law.save(path)
    change, words = DAMAGES[damage]
    path.write_text(change(_without(path.read_text(encoding="utf-8"), "checksum")), encoding="utf-8")
    assert words in _refusal(path)


def _set(body, path, value):
    for key in path[:-1]:
        body = body[key]
    body[path[-1]] = value


ALTERED = [
    *((("parameters", "gamma"), value) for value in (1e308, None, "1", True, 10**400, -1e-300)),
    *((("configurations", 0, "depth"), value) for value in (0, -1, 1e300, "20", [20], None)),
    (("configurations", 0, "unpruned_error"), 2),
    (("configurations", 1, "curve", 0), [1.4, 0.2, 1]),
    (("configurations", 1, "curve", 0), [0.5, 0.2]),
    (("spread", "draws", 3), [1.0]),
    (("spread", "draws", 3, 0), "7"),
    (("spread", "run"), -1),
    (("spread", "degrees"), None),
    (("spread", "degrees"), 0),
    (("spread", "open_slope"), -1),
    (("spread", "possible"), [[1.0]]),
    (("alternatives", 0, "law"), 7),
    (("alternatives", 0, "axes"), []),
    (("alternatives", 0, "parameters"), {"gamma": 0.5}),
    (("alternatives", 0, "parameters", "gamma"), -0.5),
    (("alternatives", 2, "weight"), 0.99),
    (("alternatives", 0, "weight"), -0.1),
    (("intervals", "gamma"), [2, 1]),
    (("intervals", "gamma"), 1),
    (("parameters",), {"psi": 1.0, "p": 0.1, "gamma": 0.5, "high_error": 0.8}),
    (("kept_per_level",), 1.5),
    (("reference_examples",), 0),
    (("regions",), {}),
    (("metric",), 7),
    (("rows",), 2**63),
    (("rises",), "yes"),
    (("fixed",), ["delta"]),
    (("origin", "chance"), 1e9),
    (("origin", "table"), None),
    (("findings", 0, "x"), 1),
    (("options",), []),
]


@pytest.mark.parametrize(("place", "value"), ALTERED, ids=str)
def test_values_that_no_fit_has_are_refused(law, place, value, tmp_path):
    path = tmp_path / "law.json"
    body = json.loads(dumps(law.as_json()))
    path.write_text(json.dumps(body), encoding="utf-8")
    assert load(path).parameters == law.parameters  # files from before there were checksums
    _set(body, place, value)
    path.write_text(json.dumps(body), encoding="utf-8")
    assert "is damaged" in _refusal(path)


def test_an_altered_file_is_refused_unless_its_checksum_is_removed(law, tmp_path):
    path = tmp_path / "law.json"
    law.save(path)
    text = path.read_text(encoding="utf-8")
    value = law.parameters["gamma"]
    path.write_text(json.dumps(json.loads(text), indent=2), encoding="utf-8")
    assert load(path).parameters == law.parameters
    edited = text.replace(f'"gamma": {value!r}', '"gamma": 0.7', 1)
    path.write_text(edited, encoding="utf-8")
    assert _refusal(path).endswith(
        "was changed after prunecast wrote it: its checksum does not match; fit the table again, or delete the key "
        '"checksum" if the change is yours'
    )
    path.write_text(_without(edited, "checksum"), encoding="utf-8")
    assert load(path).parameters["gamma"] == 0.7


def test_a_law_of_ones_own_among_the_alternatives_is_found_again(monkeypatch, tmp_path):
    """A file names it as the fit was asked for it, so that another process can import it."""
    (tmp_path / "module_of_an_alternative.py").write_text(
        "from prunecast.laws import FormulaLaw, Parameter\n"
        "LAW = FormulaLaw(name='likely', title='a law', equation='error = unpruned · (1 + a/density)',\n"
        "    formula=lambda rows, a: rows.unpruned * (1 + a / rows.density),\n"
        "    parameters=(Parameter(name='a', symbol='a', lower=1e-4, upper=1.0),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    get_law("module_of_an_alternative:LAW")
    frame = planted(configurations=6, noise=0.0)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.3, len(frame)))
    rising = frame.groupby(["depth", "width", "num_examples"])["error"].transform("first")
    table = read(frame.assign(error=np.minimum(0.3 * rising * (1 + 0.01 / frame["density"]) * noise, 1)))
    law = fit(table)
    assert "module_of_an_alternative:LAW" in [one.law for one in law.alternatives]
    law.save(tmp_path / "law.json")
    unregister("likely")
    assert load(tmp_path / "law.json").alternatives == law.alternatives
    unregister("likely")


def test_deeply_nested_json_is_refused(tmp_path):
    path = tmp_path / "law.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    assert "is not a saved law" in _refusal(path)


def test_a_pipe_that_nobody_writes_to_is_refused(law, tmp_path):
    path, pipe = tmp_path / "law.json", tmp_path / "pipe"
    law.save(path)
    os.mkfifo(pipe)
    assert "cannot be read: it is a pipe that no process writes to" in _refusal(pipe)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as writer:
        assert load(f"/dev/fd/{writer.stdout.fileno()}").parameters == law.parameters


def test_files_that_cannot_be_read_or_written(law, tmp_path):
    with pytest.raises(PrunecastError, match=r"absent\.json cannot be read: No such file"):
        load(tmp_path / "absent.json")
    with pytest.raises(PrunecastError, match="cannot be read: Is a directory"):
        load(tmp_path)
    with pytest.raises(PrunecastError, match="cannot be written: No such file or directory"):
        law.save(tmp_path / "no" / "such" / "law.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(PrunecastError, match="is not a saved law"):
        load(tmp_path / "binary.json")


def test_saving_replaces_and_leaves_nothing_behind(law, tmp_path):
    path = tmp_path / "law.json"
    path.write_text("old")
    law.save(path)
    law.save(str(path))
    assert load(path).parameters == law.parameters
    assert [p.name for p in tmp_path.iterdir()] == ["law.json"]


def test_a_region_without_rows_stays_one(tmp_path):
    frame = planted(configurations=6, seed=2)
    law = fit(read(frame[(frame["level"] < 12)]))
    law.save(tmp_path / "law.json")
    for regions in (law.regions, load(tmp_path / "law.json").regions):
        empty = [own for own in regions.values() if not own.rows]
        assert empty
        assert all(np.isnan(own.mean) and np.isnan(own.std) and np.isnan(own.rms) for own in empty)


def test_from_json_needs_no_file(law):
    assert from_json(json.loads(json.dumps(law.as_json()))).intervals == law.intervals
    assert from_json(law.as_json()).intervals == law.intervals


def test_a_law_from_before_the_dense_law_knew_depth_is_read(laws):
    body = laws["joint"].as_json()
    del body["dense"]["parameters"]["delta"]
    assert from_json(body).dense.parameters["delta"] == 0


def test_programs_get_findings_with_their_type_and_numbers(laws):
    body = laws["open"].as_json()
    (plateau,) = [own for own in body["findings"] if own["type"] == "PlateauNotReached"]
    assert plateau["parameter"] == "high_error"
    assert plateau["more_levels"] >= 1
    assert body["undetermined"] == list(laws["open"].undetermined)


def set_(value, *place):
    """A change of one value of a law's fields."""

    def change(body):
        *outer, last = place
        for key in outer:
            body = body[key]
        if value is None:
            del body[last]
        else:
            body[last] = value

    return change


def averaged_in(body):
    return next(finding for finding in body["findings"] if finding["type"] == "LawsAveraged")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dip", set_(2.0, "parameters", "dip")),
        ("dip", set_(9.2e18, "dense", "deviation")),
        ("dip", set_(-9.2e18, "dense", "parameters", "delta")),
        ("dip", set_(150.0, "spread", "draws", 4, 5)),
        ("averaged", set_(None, "alternatives", 0, "parameters", "gamma")),
        ("averaged", lambda body: averaged_in(body)["weights"].pop()),
        ("averaged", lambda body: averaged_in(body).update(rms=[None, 0.1])),
    ],
)
def test_an_edited_law_whose_parts_contradict_each_other_is_refused(laws, name, change):
    body = saved.plain(saved.headed(laws[name].as_json()))
    change(body)
    with pytest.raises(PrunecastError, match="fit the table again"):
        choose(from_json(body), target_error=0.2)


@pytest.mark.parametrize(
    "change",
    [
        lambda costs: costs["latency_ms"].pop(),
        lambda costs: costs["bytes"].append(costs["bytes"][-1]),
        lambda costs: costs["bytes"].reverse(),
        lambda costs: costs["multiply_adds"].__setitem__(0, [1e-9, 5.0]),
        lambda costs: costs["latency_ms"].clear(),
        lambda costs: costs.update(watts=costs["bytes"]),
    ],
    ids=["shorter", "longer", "reversed", "another density", "empty", "unknown"],
)
def test_an_edited_law_whose_costs_contradict_each_other_is_refused(laws, change):
    body = saved.plain(saved.headed(laws["costs"].as_json()))
    change(body["configurations"][0]["costs"])
    with pytest.raises(PrunecastError, match="fit the table again"):
        choose(from_json(body), target_error=0.2, minimise="latency")


def test_a_law_with_costs_answers_as_its_table(laws, tmp_path):
    laws["costs"].save(tmp_path / "law.json")
    ours, theirs = (
        choose(own, target_error=0.2, minimise="latency").answer
        for own in (laws["costs"], load(tmp_path / "law.json"))
    )
    assert (ours.depth, ours.width) == (theirs.depth, theirs.width)
    assert ours.latency_ms == pytest.approx(theirs.latency_ms, rel=1e-3)


def test_a_width_beyond_counting_answers_or_is_refused(laws):
    body = saved.plain(saved.headed(laws["partial"].as_json()))
    body["configurations"][1]["width"] = 2.0**63
    with contextlib.suppress(PrunecastError):
        choose(from_json(body), target_error=0.2)
