"""Files that are no table, or only half of one, and files that are one in spite of their looks."""

import gzip
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import research_tables
from hypothesis import given, settings
from hypothesis import strategies as st

from prunecast.table import TableError, read

GOOD = b"density,error\n1,0.08\n0.8,0.081\n0.64,0.085\n"
TRUNCATED = b"width,density,error\n1,1,0.08\n1,0.8,0.081\n1,0."

BAD_FILES = {
    "no bytes": ("runs.csv", b"", ["is empty"]),
    "white space": ("runs.csv", b" \n\n ", ["is empty"]),
    "only a byte-order mark": ("runs.csv", b"\xef\xbb\xbf", ["is empty"]),
    "only a header": ("runs.csv", b"density,error\n", ["no rows"]),
    "truncated": ("runs.csv", TRUNCATED, ["line 4", "2 fields, but the header has 3", "truncated"]),
    "ragged": ("runs.csv", b"density,error\n1,0.1\n0.8\n0.6,0.2\n", ["line 3", "1 field, but", "Correct"]),
    "one field too many": ("runs.csv", b"density,error\n1,0.1,5\n", ["line 2", "3 fields, but"]),
    "open quote": ("runs.csv", b'density,error,note\n1,0.1,"oh\n0.8,0.2,no\n', ["line 2", "quoted field"]),
    "binary": ("runs.csv", b"\x93NUMPY\x01\x00v\x00", ["binary"]),
    "spreadsheet": ("runs.xlsx", b"PK\x03\x04\x14\x00", ["spreadsheet", "save the sheet as CSV"]),
    "xz": ("runs.csv.xz", b"\xfd7zXZ\x00\x00\x04", ["xz-compressed", "gzip"]),
    "html": ("runs.csv", b"<!DOCTYPE html>\n<html><body>404, no</body></html>", ["HTML"]),
    "json": ("runs.csv", b'[{"density": 1, "error": 0.1}]', ["JSON"]),
    "prose": ("runs.csv", b"Dear all\nplease find enclosed\n", ["not a table", "'Dear all'"]),
    "spaces": ("runs.csv", b"density error\n1 0.1\n", ["single column", "comma, semicolon or tab"]),
    "no such columns": (
        "runs.csv",
        b"a,b\n1,2\n",
        ["no column density and no column error", "found are a, b"],
    ),
    "one unknown number": (
        "runs.csv",
        b"density,wer,weights,note\n1,0.2,9,a\n",
        [
            "If wer is the share of wrong answers",
            "use --column error=wer (",
            "If it is another metric where lower is better, use --metric wer (",
            "if higher is better, --metric 1-wer (",
        ],
    ),
    "one unknown share": (
        "runs.csv",
        b"left,error\n1,0.2\n",
        ["If left is the share of weights kept, use --column density=left ("],
    ),
    "no error": ("runs.csv", b"density,b\n1,2\n", ["no column error", "needs density and error"]),
    "losses": ("runs.csv", b"density,loss\n1,2\n", ["no column error", "--metric loss"]),
    "column twice": ("runs.csv", b"density,error,error\n1,0.1,0.2\n", ["two columns are called error"]),
    "utf-16": ("runs.csv", GOOD.decode().encode("utf-16"), ["UTF-16", "save it as UTF-8"]),
    "latin-1": ("runs.csv", b"density,error,by\n1,0.1,a\n0.8,0.1,\xe9\n", ["line 3", "not UTF-8"]),
    "truncated gzip": ("runs.csv.gz", gzip.compress(GOOD * 9)[:-12], ["truncated or damaged gzip"]),
    "damaged gzip": ("runs.csv.gz", gzip.compress(GOOD)[:12] + b"\xff" * 40, ["truncated or damaged gzip"]),
    "empty gzip": ("runs.csv.gz", gzip.compress(b""), ["is empty"]),
    "gzip only by name": ("runs.csv.gz", GOOD, ["not gzip-compressed"]),
    "parquet only by name": ("runs.parquet", GOOD, ["not a Parquet file"]),
    "truncated parquet": ("runs.parquet", b"PAR1\x15\x04\x15", ["truncated"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    name, data, fragments = BAD_FILES[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TableError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    for fragment in (str(path), *fragments):
        assert fragment in message


ALIKE = {
    "plain": GOOD,
    "no last line end": GOOD.rstrip(),
    "blank lines": GOOD.replace(b"\n", b"\n\n") + b"  \n",
    "byte-order mark": b"\xef\xbb\xbf" + GOOD,
    "windows": GOOD.replace(b"\n", b"\r\n"),
    "old mac": GOOD.replace(b"\n", b"\r"),
    "semicolons": GOOD.replace(b",", b";"),
    "tabs": GOOD.replace(b",", b"\t"),
    "spaces": GOOD.replace(b",", b" ,  "),
    "quotes": b'"density","error"\n"1","0.08"\n"0.8","0.081"\n"0.64","0.085"\n',
    "exponents": b"density,error\n1e0,8e-2\n8E-1,8.1e-2\n.64,.085\n",
    "separator named by Excel": b"sep=;\r\n" + GOOD.replace(b",", b";").replace(b"\n", b"\r\n"),
    "empty rows of a spreadsheet": GOOD + b",\n , \n",
    "gzip": gzip.compress(GOOD),
}


@pytest.mark.parametrize("case", ALIKE)
def test_formatting_changes_nothing(case: str, tmp_path: Path) -> None:
    path = tmp_path / ("runs.csv.gz" if case == "gzip" else "runs.csv")
    path.write_bytes(ALIKE[case])
    table = read(path)
    expected = read(pd.DataFrame({"density": [1, 0.8, 0.64], "error": [0.08, 0.081, 0.085]}))
    pd.testing.assert_frame_equal(table.frame, expected.frame)
    assert table.digest == expected.digest
    assert table.source == path.name


def test_a_tsv_with_unnamed_index_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.tsv"
    pd.DataFrame({"density": [1.0], "error": [0.1]}, index=[7]).to_csv(path, sep="\t")
    assert read(path).frame["unnamed_1"].tolist() == [7]


def test_what_is_not_there_or_no_file(tmp_path: Path) -> None:
    cases: dict[str | Path, str] = {
        tmp_path / "missing.csv": "there is no such file",
        "cifar10-resnet-24": "Did you mean cifar10-resnet-24ep",
        tmp_path: "is a folder",
        "nul\x00byte": "there is no such file",
        "x" * 5000: "there is no such file",
    }
    for source, fragment in cases.items():
        with pytest.raises(TableError, match=fragment):
            read(source)


AS_NOBODY = """
import os, sys
from prunecast.table import TableError, read
if os.geteuid() == 0:  # the superuser reads everything
    try:
        os.setuid(65534)
    except OSError:
        sys.exit("cannot become another user")
for path in sys.argv[1:]:
    try:
        read(path)
    except TableError as problem:
        print(problem)
"""


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    inside = tmp_path / "closed" / "runs.csv"
    inside.parent.mkdir()
    inside.write_bytes(GOOD)
    locked = tmp_path / "runs.csv"
    locked.write_bytes(GOOD)
    locked.chmod(0)
    inside.parent.chmod(0)
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, locked, inside], capture_output=True, text=True)
    inside.parent.chmod(0o700)
    if "cannot become" in done.stderr:
        pytest.skip("this superuser cannot give up its rights")
    assert done.returncode == 0, done.stderr
    expected = [
        f"{path} cannot be read: permission denied; ask for permission to read it."
        for path in (locked, inside)
    ]
    assert done.stdout.splitlines() == expected


WHOLE = research_tables.path("cifar10-resnet20-24ep").read_bytes()[:1500]
SNIPPETS = [
    b"",
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r",
    b'"',
    b"-",
    b"nan",
    b"1e999",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"error",
]


@settings(deadline=None, max_examples=300)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 9), st.sampled_from(SNIPPETS)), max_size=4)
)
def test_a_damaged_file_is_read_or_refused_but_never_crashes(
    cuts: list[tuple[int, int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = WHOLE
    for place, length, snippet in cuts:
        data = data[:place] + snippet + data[place + length :]
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    path.write_bytes(data)
    try:
        message = f"{path}: {len(read(path))} rows"
    except TableError as refusal:
        message = str(refusal)
    assert str(path) in message


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=60) | st.text(alphabet='density,error;\n"01.\t ', max_size=60).map(str.encode))
def test_noise_is_refused(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.csv"
    path.write_bytes(data)
    with pytest.raises(TableError):
        read(path)
