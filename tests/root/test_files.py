"""Output files are complete or absent, and JSON output is read by every parser."""

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from prunecast.errors import PrunecastError, refused_path
from prunecast.files import check_folder, dumps, read_input, remove_temporary_files, write_text


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
    assert json.loads(dumps({"name": "\udcff"}).encode()) == {"name": "\udcff"}


def test_unfinished_files_are_removed_and_others_stay(tmp_path):
    for name in (".law.json.1.tmp", "law.json", ".hidden"):
        (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".hidden", "law.json"]


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "law.json", tmp_path / "law.json"
    link.symlink_to(Path("elsewhere") / "law.json")
    for text in ("first", "second"):  # the first goes through a link to nothing
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert [file.name for file in target.parent.iterdir()] == ["law.json"]


def test_a_loop_of_links_is_a_sentence(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(PrunecastError, match="cannot be written: Too many levels of symbolic links; choose"):
        write_text(tmp_path / "a", "text")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe, text = tmp_path / "pipe", "ε" * 100_000
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_text, encoding="utf-8")
        write_text(pipe, text)
        assert reader.result() == text
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")  # not /dev/null itself, so that a failure harms nothing else
    write_text(link, "text")
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with pytest.raises(PrunecastError, match="cannot be written: No space left on device; choose"):
        write_text(full, "text")
    assert full.is_symlink()


@pytest.mark.parametrize("redirected", [False, True], ids=["pipe", "file"])
def test_standard_output_gets_the_text_in_order(tmp_path, redirected):
    code = (
        "from pathlib import Path; from prunecast.files import is_standard_output, write_text\n"
        "path = Path('/dev/stdout'); print('before'); write_text(path, 'table\\n')\n"
        "print('after', is_standard_output(path))"
    )
    seen = tmp_path / "seen"
    with seen.open("wb") as file:
        out = file if redirected else subprocess.PIPE
        done = subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (seen.read_bytes() if redirected else done.stdout) == b"before\ntable\nafter True\n"


@pytest.mark.parametrize("length", [245, 255])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, length):
    path = tmp_path / ("ε" * 20 + "x" * (length - 40))
    write_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(PrunecastError, match="cannot be written: File name too long; choose another path"):
        write_text(tmp_path / ("x" * 256), "text")
    check_folder(tmp_path / ("x" * 256))
    with pytest.raises(PrunecastError, match="there is no folder"):
        check_folder(tmp_path / ("x" * 256) / "law.json")


def test_a_read_only_file_system_is_a_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PrunecastError, match="cannot be written: Read-only file system; choose another path"):
        write_text(tmp_path / "law.json", "text")


def test_a_pipe_is_read_to_its_end_but_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="it is a pipe that no process writes to"):
        read_input(pipe)
    slow = ["sh", "-c", "sleep 0.3; printf 'first '; sleep 0.1; printf last"]
    with subprocess.Popen(slow, stdout=subprocess.PIPE) as writer:
        assert read_input(Path(f"/dev/fd/{writer.stdout.fileno()}")) == b"first last"


def test_a_device_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr("prunecast.files.LARGEST_STREAM", 1 << 16)
    with pytest.raises(OSError, match="it is a device or a pipe that does not end"):
        read_input(Path("/dev/zero"))
    assert read_input(Path("/dev/null")) == b""


def test_a_failing_disk_is_a_sentence():
    failing = OSError(errno.EIO, "Input/output error", "store/plans")
    assert refused_path(failing) == (
        "store/plans: Input/output error; check the disk, and run the same command again."
    )


def test_a_device_in_place_of_a_folder_is_a_sentence():
    with pytest.raises(FileExistsError) as failure:
        Path(os.devnull).mkdir(parents=True, exist_ok=True)
    assert refused_path(failure.value).startswith(f"{os.devnull}: File exists; choose another path")
