"""Output files are complete or absent, and JSON output is read by every parser."""

import json

import numpy as np
import pytest

from prunecast.errors import PrunecastError
from prunecast.files import check_folder, dumps, remove_temporary_files, write_text


def test_a_written_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "law.json"
    for text in ("old", "new: ε"):
        write_text(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [file.name for file in tmp_path.iterdir()] == ["law.json"]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(PrunecastError, match=r"taken cannot be written: .*; choose another path"):
        write_text(tmp_path / "taken", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(PrunecastError, match="No such file or directory; choose another path"):
        write_text(tmp_path / "absent" / "law.json", "text")


def test_a_missing_folder_is_refused_first(tmp_path):
    check_folder(None)
    check_folder(tmp_path / "law.json")
    with pytest.raises(PrunecastError, match=r"there is no folder .*absent; create it first"):
        check_folder(tmp_path / "absent" / "law.json")


def test_json_has_no_nan():
    body = {
        1: float("nan"),
        "inf": [np.inf, np.float64(2.5)],
        "array": np.array([[1.0, np.nan]]),
        "set": frozenset({"b", "a"}),
        "word": "ε",
        "none": None,
    }
    assert json.loads(dumps(body)) == {
        "1": None,
        "inf": [None, 2.5],
        "array": [[1.0, None]],
        "set": ["a", "b"],
        "word": "ε",
        "none": None,
    }
    assert "ε" in dumps(body)


def test_unfinished_files_are_removed_and_others_stay(tmp_path):
    for name in (".law.json.1.tmp", "law.json", ".hidden"):
        (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".hidden", "law.json"]
