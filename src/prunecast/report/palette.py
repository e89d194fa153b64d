"""One set of colours for the page and the figures."""

OKABE_ITO = ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#8C7A2B")
"""The colour-blind safe palette of Okabe and Ito, its yellow darkened so that it can be seen on white."""
VIRIDIS = (
    "#440154",
    "#482475",
    "#414487",
    "#355F8D",
    "#2A788E",
    "#21918C",
    "#22A884",
    "#44BF70",
    "#7AD151",
    "#BDDF26",
)
"""Steps of viridis, for more values than the palette has colours."""


def colours(amount: int) -> list[str]:
    """As many colours, in order."""
    if amount <= len(OKABE_ITO):
        return list(OKABE_ITO[:amount])
    return [VIRIDIS[round(i * (len(VIRIDIS) - 1) / (amount - 1))] for i in range(amount)]
