"""Options that messages suggest, quoted for a shell and as Python arguments."""

import json
import shlex


def where_option(column: str, value: object) -> str:
    """Keep the rows with one value."""
    return _both(f"--where {shlex.quote(f'{column}={value}')}", where={column: str(value)})


def column_option(**formulas: str) -> str:
    """Read columns as canonical ones, each by a formula."""
    given = (f"--column {shlex.quote(f'{name}={formula}')}" for name, formula in formulas.items())
    return _both(" ".join(given), columns=formulas)


def depth_option(column: str) -> str:
    """Take the depth from the names in a column."""
    return _both(f"--depth-from {shlex.quote(column)}", depth_from=column)


def melt_option(names: str, depth_from: str = "") -> str:
    """Make rows of columns that differ only in a number, and take the depth from the names in another, if given."""
    melt = f"--melt {shlex.quote(names)}"
    if not depth_from:
        return _both(melt, melt=names)
    return _both(f"{melt} --depth-from {shlex.quote(depth_from)}", melt=names, depth_from=depth_from)


def metric_option(name: str) -> str:
    """Read a metric by its name."""
    return _both(f"--metric {shlex.quote(name)}", metric=name)


def _both(option: str, **arguments: object) -> str:
    python = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{option} ({python} in Python)"
