"""Numbers of things in words."""


def plural(amount: int, word: str, one: str = "", many: str = "") -> str:
    """3 rows, 1 row; with "is" and "are" 1 row is, 3 rows are."""
    after = one if amount == 1 else many
    return f"{amount:,} {word}{'s' * (amount != 1)}" + (f" {after}" if after else "")
