"""What the README shows of the shipped tables: an answer, how well the law fits, and how far it extrapolates.

`python tools/readme_page.py` prints it; `make renew` writes it into the README.
"""

from pathlib import Path

from page_parts import command, deviation

from prunecast import choose, fit, read
from prunecast.studies import extrapolation

PAGE, SCRIPT = Path(__file__).parents[1] / "README.md", "tools/readme_page.py"
TABLE, SHORT, TARGET = "cifar10-resnet", "cifar10-resnet-24ep", 0.1


def answer() -> str:
    """The first lines that `prunecast choose` prints."""
    lines = choose(TABLE, target_error=TARGET).summary().splitlines()
    shown = lines[: next(number for number, line in enumerate(lines) if line.startswith("Size")) + 1]
    smaller = next(number for number, line in enumerate(lines) if line.startswith("- The smallest network"))
    asked = f"$ prunecast choose {TABLE} --target-error {TARGET:g}"
    return "\n".join(["```console", asked, *shown, "...", *lines[smaller : smaller + 2], "...", "```"])


def fitted() -> str:
    """How well the paper's law describes the table, in a sentence."""
    table = read(TABLE)
    law = fit(table, law="eq2")
    assert law.noise_floor is not None
    return (
        f"The table `{TABLE}` has {len(law.configurations)} configurations of CIFAR-10 ResNets and {len(table):,} "
        "training runs. The paper's law, with five parameters, deviates from their errors by "
        f"{deviation(law.deviation)} (mean ± standard deviation). Training a network again changes its error by "
        f"{law.noise_floor.replicate:.1%}."
    )


def limits() -> str:
    """What the law misses where light pruning helps, and beyond the measured widths."""
    table, short = read(TABLE), read(SHORT)
    steps = {(step.along, step.law): step.predicted for step in extrapolation(table).steps}
    above = fit(short, law="eq2").deviation.mean
    return (
        f"- Eq. 2, the paper's law, never predicts less than the unpruned error. After short training, light "
        f"pruning lowers the error, and Eq. 2 overestimates it: by {above:.1%} on average after 24 epochs. The law "
        f"`dip` follows the drop ({deviation(fit(short, law='dip').deviation)}). Answers average over the laws that "
        f"predict left-out networks best.\n"
        f"- It extrapolates beyond the measured sizes only if you ask for it. Fitted to widths "
        f"up to 1/4 and compared with widths up to 1, Eq. 2 deviates by {deviation(steps['width', 'eq2'])} and `dip` "
        f"by {deviation(steps['width', 'dip'])}."
    )


def sections() -> dict[str, str]:
    """The parts of the README that this script makes."""
    return {"answer": answer(), "fitted": fitted(), "limits": limits()}


if __name__ == "__main__":
    command(PAGE, SCRIPT, sections())
