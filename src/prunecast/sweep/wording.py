"""Sentences about a plan and its run: what pruning keeps, events, failures, edits to the plan, and the store."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from prunecast.catalog import DatasetFacts
from prunecast.metric import HARDLY_BETTER
from prunecast.pruning import Record, StoreCheck
from prunecast.spec import ErrorRise
from prunecast.sweep.events import Busy, Event, Failed, LeftOut
from prunecast.sweep.inspection import DataSeen
from prunecast.sweep.overview import NeverPruned, never_pruned, removable_units, replaced_weights
from prunecast.sweep.plan import Plan
from prunecast.sweep.status import ChainStatus, PlanEdit, SweepProgress, plan_edit
from prunecast.text import duration, listed, plural

MOST_NAMED = 3
"""The most layers that a line names."""


def event_line(plan: Plan, event: Event) -> str:
    """One line about an event."""
    spec = event.chain.spec
    chain = f"chain {event.number}/{len(plan.chains)}"
    size = f"depth {spec.depth} width {spec.width:g} n {spec.num_examples} replicate {spec.replicate}"
    return f"{chain} {size} · {_what_happened(event)}"


def _what_happened(event: Event) -> str:
    if isinstance(event, Failed):
        return f"failed: {event.error}"
    if isinstance(event, Busy):
        return "another run is training it; prunecast will check again"
    if isinstance(event, LeftOut):
        return f"left out: {error_rise_words(event.reason)}"
    record = event.record
    level = f"level {record.level:2d} density {record.density:.4f} error {record.error:.4f}"
    status = "" if record.status == "ok" else f" {record.status}"
    note = f" ({record.note})" if record.note and record.level == 0 else ""
    poor = record.level == 0 and record.error > HARDLY_BETTER * record.chance_error
    if record.status == "diverged":
        note += " · the loss is not finite; lower the learning_rate, or set gradient_clip"
    elif poor:
        note += f" · hardly better than guessing ({record.chance_error:.4g}), so train longer or change the recipe"
    dead = f" · {dead_words(record.dead_layers)}" if record.dead_layers else ""
    ended = f" · ended: {event.ended}" if event.ended else ""
    return f"{level}{status} · {record.seconds:.1f} s{note}{dead}{ended}"


def network_lines(plan: Plan) -> Iterator[str]:
    """Sentences about the networks of a plan: what pruning cannot remove, and weights that are replaced."""
    yield from never_pruned_lines(plan)
    yield from removable_units_lines(plan)
    yield from replaced_weights_lines(plan)


def never_pruned_lines(plan: Plan) -> Iterator[str]:
    """A sentence about the tensors that stay dense for each family, or for each width where N:M is the reason."""
    return map(never_pruned_line, never_pruned(plan))


def never_pruned_line(dense: NeverPruned) -> str:
    """A sentence about the tensors of a network that stay dense, the largest first, with their shares."""
    network = f"{dense.family}, depth {dense.depth}, width {dense.width:g}"
    tensors = sorted(dense.tensors, key=lambda tensor: -tensor.parameters)
    named = [f"{own.name} ({own.parameters / dense.parameters:.1%})" for own in tensors[:MOST_NAMED]]
    if rest := tensors[MOST_NAMED:]:
        share = sum(tensor.parameters for tensor in rest) / dense.parameters
        named.append(f"{len(rest):,} more ({share:.1%})")
    if not dense.structure:
        return f"{network}: apart from biases and normalisation, never pruned: {listed(named)} of the parameters."
    group = dense.structure.partition(":")[2]
    return (
        f"{network}: the structure {dense.structure} leaves {listed(named)} of the parameters dense, because the "
        f"inputs cannot be divided into groups of {group}."
    )


def removable_units_lines(plan: Plan) -> Iterator[str]:
    """A sentence about what removing channels can take out of each family, and what it cannot."""
    for own in removable_units(plan):
        kept = first_few([f"{one.layer} ({one.reason})" for one in own.kept_whole], "more layers")
        yield (
            f"{own.family}, depth {own.depth}, width {own.width:g}: {plural(own.units, 'unit')} in "
            f"{plural(own.groups, 'group')} can be removed, all but one of each group, which leaves at least "
            f"{own.least:.1%} of the parameters. All outputs are kept of {kept}."
        )


def replaced_weights_lines(plan: Plan) -> Iterator[str]:
    """A sentence about each user's own family that would train better from the weights that its function makes."""
    for family in replaced_weights(plan):
        yield (
            f"{family} has layer norms or attention, and the recipe draws its initial weights anew (He uniform). Such "
            'networks usually train better from their own: set initial_weights = "own" in [recipe].'
        )


def first_few(names: Sequence[str], more: str = "more") -> str:
    """The first names in a sentence, and how many more there are."""
    rest = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{rest:,} {more}"] if rest > 0 else [])])


def dead_words(layers: Sequence[str]) -> str:
    """The layers that have no weight left."""
    return f"no weight is left in {first_few(layers)}"


def deaths_words(records: Sequence[Record]) -> str:
    """The layers of a chain that have no weight left, and since which level; empty if there are none."""
    words: list[str] = []
    known: set[str] = set()
    for record in records:
        if new := [name for name in record.dead_layers or () if name not in known]:
            words.append(f"{dead_words(new)} from level {record.level} on")
            known.update(new)
    return "; ".join(words)


def error_rise_words(reason: ErrorRise) -> str:
    """Why a network is too large for its data."""
    larger = {"depth": "deeper", "width": "wider"}[reason.axis]
    return (
        f"networks {larger} than {reason.axis} {reason.best:g} have a larger unpruned error: "
        f"{reason.error:.4f} at {reason.axis} {reason.size:g}, {reason.best_error:.4f} at {reason.axis} "
        f"{reason.best:g} (tolerance {reason.tolerance:.4f})"
    )


def edit_sentence(edit: PlanEdit) -> str:
    """How a plan was edited since its last run."""
    parts = [
        f"{plural(edit.added, 'chain', 'is', 'are')} new" if edit.added else "",
        f"{plural(edit.recapped, 'chain', 'has', 'have')} a different level cap" if edit.recapped else "",
        f"{plural(edit.removed, 'chain', 'was', 'were')} removed (results stay in the store, but not in the table)"
        if edit.removed
        else "",
    ]
    return f"The plan was edited since its last run: {', '.join(filter(None, parts))}."


def start_lines(plan: Plan, store: Path, progress: SweepProgress) -> Iterator[str]:
    """Lines at the start of a run: edits since the last run, tensors that are never pruned, and finished chains."""
    if edit := plan_edit(plan, store):
        yield edit_sentence(edit)
    yield from never_pruned_lines(plan)
    yield from replaced_weights_lines(plan)
    chains = f"{progress.chains_done:,} of {plural(progress.chains, 'chain', 'is', 'are')} finished"
    yield f"{plan.name}: {chains}, {plural(progress.levels_done, 'level', 'is', 'are')} in {store}."


def end_line(progress: SweepProgress, seconds: float) -> str:
    """A line at the end of a run: how many chains finished."""
    out = f", {len(progress.left_out):,} left out" if progress.left_out else ""
    failed = f", {len(progress.failed):,} failed" if progress.failed else ""
    finished = progress.chains - len(progress.left_out) - len(progress.failed)
    return f"{plural(finished, 'chain')} finished{out}{failed}; {duration(seconds)}."


def failure_lines(progress: SweepProgress) -> Iterator[str]:
    """The chains that failed, and what to do about them."""
    for failure in progress.failed:
        yield f"- chain {failure.number} failed: {failure.error}"
    if progress.failed:
        yield (
            "For the traceback, see failure.json in the chain's folder of the store. The next run tries the chain "
            "again."
        )


def stopped_line(store: Path, progress: SweepProgress) -> str:
    """A line for a run that was stopped: its finished levels, and how to continue."""
    levels = plural(progress.levels_done, "level", "is", "are")
    return f"Stopped. {levels} in {store}; run the same command to continue."


def damaged_line(status: ChainStatus) -> str:
    """A chain that cannot be read, so that its rows are missing from the table."""
    return f"Not in the table, chain {status.number}: {status.problem}"


def check_lines(check: StoreCheck) -> Iterator[str]:
    """One line per faulty file of a store, and how much was read."""
    yield from (fault.text for fault in check.faults)
    what = f"{plural(check.chains, 'chain')}, {plural(check.levels, 'finished level')}, {plural(check.files, 'file')}"
    chains = len({fault.chain for fault in check.faults})
    verdict = f"{plural(chains, 'chain', 'has', 'have')} faults" if chains else "nothing is wrong"
    yield f"{check.store}: {what}; {verdict}."


def split_words(seen: DataSeen) -> str:
    """A sentence about the split of a dataset without a test set."""
    assert seen.split is not None
    facts, share = seen.facts, seen.split.test_share
    return (
        f"{seen.root} has no test set, so {share:.0%} of every class is used for testing, chosen by file name and "
        f"split_seed {seen.split.seed}: {facts.train_examples:,} training and {facts.test_examples:,} test images in "
        f"{facts.num_classes:,} classes."
    )


def absent_words(absent: Sequence[DatasetFacts]) -> list[str]:
    """The official datasets that were not found, and what to do."""
    names = [facts.title or facts.name for facts in absent]
    if not names:
        return []
    return [f"{listed(names)}: not found yet; `run` needs the files in the folder given by --data."]
