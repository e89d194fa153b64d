"""The figures that the README states of the shipped tables are those that the tables give."""

from pathlib import Path

from prunecast import fit, read
from prunecast.studies import extrapolation

README = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())


def shown(deviation):
    return f"{100 * deviation.mean:+.1f} ± {100 * deviation.std:.1f}%".replace("-", "−")


def test_the_readme_states_what_the_tables_give():
    table, short = read("cifar10-resnet"), read("cifar10-resnet20-24ep")
    law = fit(table, law="eq2")
    said = [
        f"{len(table.select(num_examples=50000))} trainings on one GPU",
        f"({len(law.configurations)} networks, {len(table):,} trainings)",
        f"the errors to {shown(law.deviation)}, where",
        f"the same network trained again differs by {law.noise_floor.replicate:.1%}",
        f"by {fit(short, law='eq2').deviation.mean:.1%} on average with 24 epochs",
        f"where it is {law.deviation.mean:.1%} with the paper's 160",
        f"follows it ({shown(fit(short, law='dip').deviation)} there)",
    ]
    for source, words in (
        (table, "{eq2} with Eq. 2 and {dip} with `dip` after 160 epochs"),
        (short, "after 24 by {eq2} and {dip}"),
    ):
        steps = {(step.along, step.law): shown(step.predicted) for step in extrapolation(source).steps}
        said.append(words.format(eq2=steps["width", "eq2"], dip=steps["width", "dip"]))
        if ("paper", "eq2") in steps:
            said.append(f"(Eq. 2 by {steps['paper', 'eq2']} from the paper's own four networks)")
    assert [one for one in said if one not in README] == []
