"""Rows that are refused, and the words of the refusal."""

from pathlib import Path

import pytest

from prunecast.errors import PrunecastError
from prunecast.table import TableError, read
from prunecast.table.findings import RowsSelected
from prunecast.wording import sentences

HEADER = "depth,width,num_examples,replicate,level,density,error"
GOOD = ["20,1,50000,1,0,1,0.08", "20,1,50000,1,1,0.8,0.081", "20,1,50000,1,2,0.64,0.082"]

BAD_ROWS = {
    "20,1,50000,1,3,0,0.08": "density is 0, but it must be greater than 0 and at most 1.",
    "20,1,50000,1,3,-0.5,0.08": "density is -0.5, but",
    "20,1,50000,1,3,1.2,0.08": (
        "density is 1.2, but it must be greater than 0 and at most 1. If it is a percentage, divide by 100"
    ),
    "20,1,50000,1,3,inf,0.08": "density is inf, but",
    "20,1,50000,1,3,,0.08": "density is missing. Add the value, or remove the row.",
    "20,1,50000,1,3,NaN,0.08": "density is missing.",
    "20,1,50000,1,3,half,0.08": "density is 'half', which is not a number. Correct it, or remove the row.",
    "20,1,50000,1,3,0.5,0": "error is 0. Rows with zero error cannot be fitted; remove them.",
    "20,1,50000,1,3,0.5,1.01": "error is 1.01, but",
    "20,1,50000,1,3,0.5,nan": "error is missing.",
    "20,1,50000,1,3,0.5,diverged": "error is 'diverged', which is not a number.",
    '20,1,50000,1,3,0.5,"12,11%"': "error is '12,11%', which is not a number. Write decimals with a point.",
    '20,1,50000,1,3,0.5,"0,08"': "error is '0,08', which is not a number. Write decimals with a point.",
    "0,1,50000,1,3,0.5,0.08": "depth is 0, but it must be greater than 0.",
    ",1,50000,1,3,0.5,0.08": "depth is missing.",
    "20,-1,50000,1,3,0.5,0.08": "width is -1, but",
    "20,inf,50000,1,3,0.5,0.08": "width is inf, but",
    "20,1,0,1,3,0.5,0.08": "num_examples is 0, but",
    "20,1,50000,,3,0.5,0.08": "replicate is missing. Number the replicates from 1.",
    "20,1,50000,1,-1,0.5,0.08": "level is -1, but it must be a whole number, 0 or more.",
    "20,1,50000,1,1.5,0.5,0.08": "level is 1.5, but",
    "56,0.5,25000,1,1,0.8,0.08": (
        "the configuration depth 56, width 0.5, num_examples 25000 has no unpruned error. Add its row with density 1,"
        " or a column unpruned_error."
    ),
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
    assert refusal(path).startswith(f"{path}, line 5: {BAD_ROWS[row]}")


@pytest.mark.parametrize("row", ["20,1,50000,1,2,0.64,0.082", "20,1,50000,1,2,0.5,0.09"])
def test_the_same_network_twice_is_refused(row: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([HEADER, *GOOD, row]) + "\n")
    assert refusal(path) == (
        f"{path}: line 4 and line 5 are the same training run twice (same depth, width, num_examples, replicate and "
        "level "
        "2). Remove one, or number the replicates in a column replicate."
    )


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
    assert "line 3 (and 2 more lines): error is 0" in refusal(path)


def test_a_table_with_losses_can_be_fitted_where_errors_are_zero(tmp_path: Path) -> None:
    """Small test sets have no misclassified image."""
    path = tmp_path / "runs.csv"
    path.write_text("density,error,loss\n1,0,0.1\n0.8,0.1,0.2\n")
    assert "remove them, or fit another metric with --metric loss (metric=" in refusal(path)
    assert read(path, metric="loss").frame["error"].tolist() == [0.1, 0.2]
    path.write_text("density,error,loss\n1,0,0.1\n0.8,0.1,0\n")
    assert refusal(path).endswith("remove them.")


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("density,error", ["1,8.1", "0.8,8.4"]),
        ("density,accuracy", ["1,0.919", "0.8,91.2"]),
        ("density,error", ["100,0.081", "80,0.084"]),
        ("sparsity,error", ["0,0.081", "20,0.084"]),
    ],
)
def test_percentages_are_refused_with_the_remedy(header: str, rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([header, *rows]))
    assert "If it is a percentage, divide by 100 with --column" in refusal(path)


@pytest.mark.parametrize("value", ["-0.5", "0", "150"])
def test_what_cannot_be_a_percentage_is_not_called_one(value: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"density,error\n1,0.1\n{value},0.1\n")
    assert "percentage" not in refusal(path)


def test_a_converted_value_is_shown_as_it_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("sparsity,accuracy\n0,0.9\n1,0.8\n")
    assert "sparsity is 1, so density is 0, but it must be greater than 0" in refusal(path)
    path.write_text("sparsity,accuracy\n0,0.9\n0.5,1\n")
    assert "accuracy is 1, so error is 0. Rows with zero error cannot be fitted" in refusal(path)


def test_stacked_replicates_without_a_column_are_told_to_number_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("density,error\n1,0.1\n0.8,0.1\n1,0.11\n0.8,0.12\n")
    message = refusal(path)
    assert "line 2 and line 4" in message
    assert "number the replicates in a column replicate" in message


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
    assert RowsSelected(rows=1, total=2, where=((word, "0.5"),)) in table.findings
    assert f"1 of 2 rows is used: {word} = 0.5." in sentences(table.findings)


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
    path = tmp_path / "runs.csv"
    path.write_text("density,error\n1,0.1\n")
    assert "or error, loss, perplexity" in refusal(path, metric=" ")
    assert "there is no column bleu, which --metric bleu" in refusal(path, metric="bleu")
