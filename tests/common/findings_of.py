"""The findings of a fit by their type."""

from typing import Any


def findings_of(result: Any, kind: type, parameter: str | None = None) -> list[Any]:
    """The findings of one type, in their order; of one parameter where it is named."""
    found = [finding for finding in result.findings if isinstance(finding, kind)]
    return [finding for finding in found if parameter is None or finding.parameter == parameter]
