"""Damage plans at random, and see that every command answers with a table or a sentence.

    python tools/fuzz_plans.py --cases 2000 --seed 0

Each case changes keys, values or bytes of a plan, and asks `plan`, `status` and `export`. Nothing is trained. No case
may end in another exception than a PrunecastError, write anything outside its store, nor take long.
"""

import random
import shutil
import sys
from collections import Counter
from pathlib import Path

from click.testing import CliRunner
from fuzzing import Case, Finding, clear, damage, main, run_cases

from prunecast.cli import cli, engine  # noqa: F401 (else imported by the first case, in its time)

PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = [3, 4]
width = [0.25, 1]
num_examples = [50, "all"]
replicates = 2
level_cap = 3
threads = 1
devices = 1
keep_weights = true
select = {tolerance = 2.0, noise = 0.03}
method = [{name = "own", score = "magnitude", fraction = 0.2}, "random", "imp-2:4"]
[recipe]
preset = "digits"
name = "brief"
epochs = 2
batch_size = 25
learning_rate = 0.1
drops = [1]
rewind = 0.5
checkpoint_steps = 1
[stop]
disconnected = false
at_chance = 0
[resources]
cpus = 1
gpus = 0
memory_gb = 1.5
minutes = 10
[scale.smoke]
level_cap = 1
[[grid]]
depth = 5
[[grid]]
dataset = "digits"
width = 0.5
"""
VALUES = (
    *("", "x", "-1", "0", "1", "2.5", "true", "nan", "inf", "-inf", "1e300", "1e-300"),
    *("9223372036854775808", "[]", "{}", '""', '"x"', '"all"', '"1/2"', '"1/0"', '"1e999999999"'),
    *('"\\u001b[31m"', '"a:b"', '"os:getcwd"', '":"', "[[]]", '[1, "x"]', "{x = 1}", "[{}]"),
    *("2026-01-01", "1000000000", "99999999999999999999999", "0x7fffffffffffffff", "1_0"),
    *("0x" + "f" * 5000, '"1e999999999%"'),
    *("[" * 2000, "'" + "x" * 10_000 + "'", '"../../x"', '"/dev/zero"', '"{depth}"'),
    *('"{depth:99999999}"', '"~"', '"2:4"', '"0:4"', '"4:4"', '"1:1000000007"', '"channels"'),
    *('{name = "groups", structure = "1:2"}', '[{name = "x", structure = "2:4", fraction = 0.5}, "imp"]'),
    *('{name = "x", structure = "2:' + "9" * 5000 + '"}', '{name = "x", structure = "channels"}'),
    '{name = "x", structure = "\u0661:\u0662"}',
)
KEYS = (
    *("loader", "root", "image_size", "start", "patch_size", "test_share", "split_seed", "x"),
    *('"a/../../x"', "stop.x", "recipe.schedule", "recipe.optimizer", "recipe.weight_decay"),
    *("recipe.validation_examples", "recipe.steps", "method.structure", "method.schedule", "method"),
    *("scale.full", 'scale."a/../../x"', "scale.smoke.grid", "resources.x"),
)
TABLES = (
    *("[recipe]", "[stop]", "[x]", "[[grid]]", "[[scale.smoke.grid]]", '[scale."../x"]'),
    *("[[recipe]]", "[grid]"),
)
QUESTIONS = (
    *(["plan", "--no-estimate"], ["plan", "--no-estimate"], ["status"], ["status", "--all"]),
    *(["export", "-o", "table.csv"],),
)
SCALES = ("full", "full", "full", "full", "full", "full", "smoke", "smoke", "a/../../x", "../x", "x")


def change(text: str, chance: random.Random) -> tuple[str, str]:
    """The text of a plan with one line changed, and what was changed."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    key, value = lines[at].partition(" = ")[0], chance.choice(VALUES)
    kind = chance.choice(("value", "value", "value", "key", "table", "gone", "twice", "moved"))
    if kind == "value":
        lines[at] = f"{key} = {value}"
    elif kind == "key":
        lines[at:at] = [f"{chance.choice(KEYS)} = {value}"]
    elif kind == "table":
        lines[at:at] = [chance.choice(TABLES)]
    elif kind == "gone":
        del lines[at]
    elif kind == "twice":
        lines[at:at] = [lines[at]]
    else:
        lines.insert(chance.randrange(len(lines)), lines.pop(at))
    return "\n".join(lines), f"line {at + 1} {kind}: {key} {value[:40]!r}"


def fuzz(cases: int, seed: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Run so many cases; count how they end, and return those that ended as none may."""
    place = folder / "inner" / "plans"
    place.mkdir(parents=True)

    def run(case: Case) -> None:
        chance, path, store = case.chance, place / "plan.toml", place / "store"
        clear(path)
        text, what = PLAN, []
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
            text, one = change(text, chance)
            what.append(one)
        path.write_text(text, encoding="utf-8")
        if chance.random() < 0.1:
            what.append(damage(path, chance))
        question, scale = chance.choice(QUESTIONS), chance.choice(SCALES)
        command = [question[0], str(path), *question[1:], "--scale", scale]
        if question[0] != "plan":
            command += ["--store", str(store)]
        case.change = f"{'; '.join(what)}; {' '.join([question[0], scale])}"
        try:
            done = CliRunner().invoke(cli, command, catch_exceptions=False, standalone_mode=False)
            case.outcome = "answered"
            if not all(character.isprintable() or character == "\n" for character in done.output):
                case.problem = f"the answer acts on a terminal: {done.output!r}"
        finally:
            shutil.rmtree(store, ignore_errors=True)
            others = [
                own.name for own in (*folder.iterdir(), *(folder / "inner").iterdir(), *place.iterdir())
            ]
            if set(others) - {"inner", "plans", "plan.toml"}:
                raise AssertionError(f"written: {others}")

    return run_cases(run, cases, seed, folder)


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__ or ""))
