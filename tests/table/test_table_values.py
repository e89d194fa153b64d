"""Rows that are refused, and the words of the refusal."""

from pathlib import Path

import pytest

from prunecast.errors import PrunecastError
from prunecast.table import TableError, read

HEADER = "depth,width,num_examples,replicate,level,density,error"
GOOD = ["20,1,50000,1,0,1,0.08", "20,1,50000,1,1,0.8,0.081", "20,1,50000,1,2,0.64,0.082"]

BAD_ROWS = {
    "20,1,50000,1,3,0,0.08": ["line 5", "column density", "0 where density must be a number in (0, 1]"],
    "20,1,50000,1,3,-0.5,0.08": ["line 5", "column density", "-0.5 where"],
    "20,1,50000,1,3,1.2,0.08": ["line 5", "column density", "1.2 where"],
    "20,1,50000,1,3,inf,0.08": ["line 5", "column density", "inf where"],
    "20,1,50000,1,3,,0.08": ["line 5", "column density", "the value is missing"],
    "20,1,50000,1,3,NaN,0.08": ["line 5", "column density", "the value is missing"],
    "20,1,50000,1,3,half,0.08": ["line 5", "column density", "'half' is not a number"],
    "20,1,50000,1,3,0.5,0": ["line 5", "column error", "0 where error must be a number in (0, 1]"],
    "20,1,50000,1,3,0.5,1.01": ["line 5", "column error", "1.01 where"],
    "20,1,50000,1,3,0.5,nan": ["line 5", "column error", "the value is missing"],
    "20,1,50000,1,3,0.5,diverged": ["line 5", "column error", "'diverged' is not a number"],
    "20,1,50000,1,3,0.5,12.11%": [
        "line 5",
        "column error",
        "'12.11%' is not a number",
        "drop the % and divide by 100",
    ],
    '20,1,50000,1,3,0.5,"0,08"': ["line 5", "column error", "'0,08' is not a number", "with a point"],
    "0,1,50000,1,3,0.5,0.08": ["line 5", "column depth", "depth must be a number above 0"],
    ",1,50000,1,3,0.5,0.08": ["line 5", "column depth", "missing"],
    "20,-1,50000,1,3,0.5,0.08": ["line 5", "column width", "-1 where"],
    "20,inf,50000,1,3,0.5,0.08": ["line 5", "column width", "inf where"],
    "20,1,0,1,3,0.5,0.08": ["line 5", "column num_examples", "0 where"],
    "20,1,50000,,3,0.5,0.08": ["line 5", "column replicate", "missing"],
    "20,1,50000,1,-1,0.5,0.08": ["line 5", "column level", "a whole number of at least 0"],
    "20,1,50000,1,1.5,0.5,0.08": ["line 5", "column level", "1.5 where"],
    "20,1,50000,1,2,0.64,0.082": ["line 4 and line 5", "same network twice", "level 2", "drop one"],
    "20,1,50000,1,2,0.5,0.09": ["line 4 and line 5", "same network twice"],
    "56,0.5,25000,1,1,0.8,0.08": [
        "line 5",
        "depth 56, width 0.5, num_examples 25000 has no unpruned error",
        "density 1",
    ],
}


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(TableError) as caught:
        read(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert isinstance(caught.value, PrunecastError)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_is_named_by_file_line_and_column(row: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([HEADER, *GOOD, row]) + "\n")
    message = refusal(path)
    assert str(path) in message
    for fragment in BAD_ROWS[row]:
        assert fragment in message


def test_the_good_rows_alone_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([HEADER, *GOOD]) + "\n")
    assert len(read(path)) == 3


def test_lines_count_blank_lines_and_line_ends_inside_quotes(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text('\n\ndensity,error,note\n\n1,0.1,"two\nlines"\n   \n0.8,7,late\n')
    assert "line 8" in refusal(path)


def test_more_bad_rows_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("density,error\n1,0.1\n0.8,0\n0.6,0\n0.4,0\n")
    assert "line 3 (and 2 more lines), column error" in refusal(path)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("density,error", ["1,8.1", "0.8,8.4"]),
        ("density,accuracy", ["1,91.9", "0.8,91.2"]),
        ("density,error", ["100,0.081", "80,0.084"]),
        ("sparsity,error", ["0,0.081", "20,0.084"]),
    ],
)
def test_percentages_are_refused_with_the_remedy(header: str, rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([header, *rows]))
    assert "divide by 100" in refusal(path)


def test_one_value_above_one_is_not_called_a_percentage(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("density,error\n1,0.1\n0.8,0.1\n0.6,0.1\n0.5,0.1\n0.4,1.5\n")
    assert "100" not in refusal(path)


def test_a_converted_value_is_shown_as_it_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("sparsity,accuracy\n0,0.9\n1,0.8\n")
    assert "column sparsity: 1 gives density 0 where density must be" in refusal(path)
    path.write_text("sparsity,accuracy\n0,0.9\n0.5,1\n")
    assert "column accuracy: 1 gives error 0 where error must be" in refusal(path)


def test_stacked_replicates_without_a_column_are_told_to_number_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("density,error\n1,0.1\n0.8,0.1\n1,0.11\n0.8,0.12\n")
    message = refusal(path)
    assert "line 2 and line 4" in message
    assert "number replicates in a column replicate" in message


@pytest.mark.parametrize("column", ["family", "dataset", "method", "recipe"])
def test_several_names_are_refused_until_one_is_chosen(column: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{column},density,error\none,1,0.1\ntwo,1,0.2\n")
    message = refusal(path)
    for fragment in (f"column {column}", "one, two", f"--where {column}=one", f'where={{"{column}": "one"}}'):
        assert fragment in message
    table = read(path, where={column: "two"})
    assert getattr(table, column) == "two"
    assert table.frame["error"].tolist() == [0.2]


def test_where_comes_before_the_checks(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("method,density,error\nimp,1,0.1\nrandom,nonsense,7\nimp,0.8,0.2\n")
    assert read(path, where={"method": "imp"}).frame["density"].tolist() == [1, 0.8]
    path.write_text("method,density,error\nrandom,1,0.1\nimp,1,0.1\nimp,0.8,9\n")
    assert "line 4" in refusal(path, where={"method": "imp"})


@pytest.mark.parametrize("word", ["w", "width", "Width"])
def test_where_takes_the_files_own_words(word: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("w,density,error\n1,1,0.1\n0.5,1,0.2\n")
    table = read(path, where={word: "0.5"})
    assert table.frame["error"].tolist() == [0.2]
    assert table.notes[1] == f"1 of 2 rows are read: {word} = 0.5."


@pytest.mark.parametrize(
    ("where", "fragments"),
    [
        ({"colour": "red"}, ["no column colour", "density", "error"]),
        ({"width": 3}, ["no row has width = 3", "width is 1, 0.5"]),
        ({"acc": 0.9}, ["cannot be selected by acc", "add a column error"]),
        ({"error": 0.1}, ["cannot be selected by error"]),
    ],
)
def test_where_that_cannot_be_met(where: dict[str, object], fragments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("width,density,acc\n1,1,0.9\n0.5,1,0.8\n")
    message = refusal(path, where=where)
    for fragment in fragments:
        assert fragment in message


def test_a_metric_that_does_not_exist(tmp_path: Path) -> None:
    assert "error or loss" in refusal(tmp_path / "runs.csv", metric="bleu")
