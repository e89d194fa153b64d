"""The findings of a table in words: what was renamed, assumed or left out."""

from collections.abc import Sequence

from prunecast.metric import Metric
from prunecast.spec import ErrorRise
from prunecast.table import CONFIGURATION
from prunecast.table import findings as found
from prunecast.text import listed, plural
from prunecast.wording.core import words, words_together


@words.register
def _column_read_as(finding: found.ColumnReadAs, metric: Metric) -> str:
    value = finding.column + (f" / {finding.divided_by:g}" if finding.divided_by != 1 else "")
    if finding.complement:
        value = f"1 - {value}"
    elif finding.inverse:
        value = f"1 / {value}"
    formula = "" if value == finding.column else f" = {value}"
    return f"Column {finding.column} is read as {finding.name}{formula}."


@words.register
def _column_defined(finding: found.ColumnDefined, metric: Metric) -> str:
    return f"{finding.name} is {finding.formula}, as requested."


@words.register
def _column_empty(finding: found.ColumnEmpty, metric: Metric) -> str:
    instead = dict.fromkeys((*CONFIGURATION, "replicate"), "it is assumed to be 1 in every row")
    instead["level"] = "levels are computed from the densities"
    return f"Column {finding.column} is empty; {instead.get(finding.name, 'it is not used')}."


@words.register
def _depths_from_names(finding: found.DepthsFromNames, metric: Metric) -> str:
    return f"Depths are the numbers in column {finding.column}: {', '.join(map(str, finding.depths))}."


@words.register
def _size_from_parameters(finding: found.SizeFromParameters, metric: Metric) -> str:
    return (
        f"Column {finding.column} is the only size, so width is the square root of {finding.column} / "
        f"{finding.largest:,.12g}: 1 for the largest network."
    )


@words.register
def _baseline_shared(finding: found.BaselineShared, metric: Metric) -> str:
    which = f"method {finding.method}" if finding.method else "no method"
    return (
        f"{plural(finding.rows, 'row')} of unpruned networks with {which} "
        f"{'is' if finding.rows == 1 else 'are'} also used for {finding.shared_by}."
    )


@words.register
def _column_kept_as(finding: found.ColumnKeptAs, metric: Metric) -> str:
    return f"Column {finding.column} is kept as {finding.name}."


@words.register
def _column_absent(finding: found.ColumnAbsent, metric: Metric) -> str:
    return f"Column {finding.column} is absent; it is assumed to be 1 in every row."


@words_together(found.ColumnAbsent)
def _columns_absent(every: Sequence[found.ColumnAbsent], metric: Metric) -> str:
    columns = listed(finding.column for finding in every)
    return f"Columns {columns} are absent; they are assumed to be 1 in every row."


@words.register
def _levels_computed(finding: found.LevelsComputed, metric: Metric) -> str:
    return "Column level is absent; levels are computed from the densities."


@words.register
def _spreads_ignored(finding: found.SpreadsIgnored, metric: Metric) -> str:
    return f"Column {finding.column} has spreads such as 93.4 ± 0.2 or 93.4 (0.2); only the first number is used."


@words.register
def _columns_melted(finding: found.ColumnsMelted, metric: Metric) -> str:
    first, last = finding.columns[0], finding.columns[-1]
    return (
        f"The {len(finding.columns)} columns {first} to {last} are read as rows, with the numbers in their names as "
        f"{finding.number} and their cells as {finding.value}."
    )


@words.register
def _rows_selected(finding: found.RowsSelected, metric: Metric) -> str:
    values = ", ".join(f"{column} = {value}" for column, value in finding.where)
    verb = "is" if finding.rows == 1 else "are"
    return f"{finding.rows:,} of {plural(finding.total, 'row')} {verb} used: {values}."


@words.register
def _replicates_numbered(finding: found.ReplicatesNumbered, metric: Metric) -> str:
    return f"The {finding.labels} labels in column {finding.column} are numbered from 1."


@words.register
def _chance_assumed(finding: found.ChanceAssumed, metric: Metric) -> str:
    return f"The chance error of {finding.dataset} is assumed to be {finding.chance_error:g}."


@words.register
def _unpruned_errors_averaged(finding: found.UnprunedErrorsAveraged, metric: Metric) -> str:
    return (
        f"Unpruned {metric.plural} are means over the rows with density 1; column {finding.column} differs from them "
        f"in {plural(finding.rows, 'row')} and is not used there."
    )


@words.register
def _too_large_left_out(finding: found.TooLargeLeftOut, metric: Metric) -> str:
    if finding.reason is None or finding.first is None:
        return "No configuration is too large for its data, so none is left out."
    depth, width, examples = finding.first
    place = f"depth {depth:g}, width {width:g}, {examples:,.0f} examples"
    one = finding.configurations == 1
    share = f"{finding.configurations:,} of {plural(finding.total, 'configuration')} ({plural(finding.rows, 'row')})"
    verb, example = ("is", "its data") if one else ("are", "their data, for example")
    text = f"{share} {verb} left out as too large for {example}{':' if one else ''} {place}"
    return f"{text}. {too_large(finding.reason, metric)}"


def too_large(reason: ErrorRise, metric: Metric) -> str:
    """Why a network is too large."""
    growing = {"depth": "Networks deeper", "width": "Networks wider"}[reason.axis]
    return (
        f"{growing} than {reason.axis} {reason.best:g} have a larger unpruned {metric.word}: {reason.best_error:.4f} "
        f"at {reason.axis} {reason.best:g}, {reason.error:.4f} at {reason.axis} {reason.size:g} (noise explains up to "
        f"{reason.tolerance:.4f})."
    )
