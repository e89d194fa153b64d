"""Which packed channel holds which channel of which member."""

from collections.abc import Sequence
from dataclasses import dataclass

from prunecast.errors import PrunecastError


class Unpackable(PrunecastError):  # noqa: N818 - what the packer answers, not something that broke
    """A family the packer does not understand; it trains alone, with the same results."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Who owns the channels of one activation: `places[m][k]` is the packed place of channel k of member m.

    Places that nobody owns are padding: no weight reads them, so what they hold never matters.
    """

    size: int
    places: tuple[tuple[int, ...], ...]

    def counts(self) -> tuple[int, ...]:
        """The number of channels every member has here when it is alone."""
        return tuple(len(own) for own in self.places)


def side_by_side(counts: Sequence[int], *, multiple: int = 1) -> Layout:
    """Members one after another in slot order, padded at the end to a multiple that suits the hardware."""
    places, start = [], 0
    for count in counts:
        places.append(tuple(range(start, start + count)))
        start += count
    return Layout(size=-(-start // multiple) * multiple, places=tuple(places))


def concatenated(parts: Sequence[Layout]) -> Layout:
    """The layout of a concatenation along channels: every member's channels come from each part in turn."""
    starts = [sum(part.size for part in parts[:k]) for k in range(len(parts))]
    places = tuple(
        tuple(
            start + place for part, start in zip(parts, starts, strict=True) for place in part.places[member]
        )
        for member in range(len(parts[0].places))
    )
    return Layout(size=sum(part.size for part in parts), places=places)


def flattened(layout: Layout, area: int) -> Layout:
    """The layout after flattening: channel c becomes features c·area … c·area + area − 1."""
    places = tuple(tuple(place * area + k for place in own for k in range(area)) for own in layout.places)
    return Layout(size=layout.size * area, places=places)
