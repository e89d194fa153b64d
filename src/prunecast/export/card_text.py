"""The card in words: a model card as Hugging Face shows it, and sections for the terminal and the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prunecast.data import Split
from prunecast.export.card import Card, CardLatency, Code, Start
from prunecast.report import Fact, Grid, Section
from prunecast.spec import n_of_m
from prunecast.text import plural
from prunecast.wording import in_runtime, numbers, sentences, timed_by

ZEROS = (
    "The zeros are scattered over the weights. They save storage in sparse.safetensors, but they save arithmetic only "
    "in a runtime that skips single zeros. Loaded as a plain PyTorch module, the network takes as much memory and time "
    "as an unpruned one of its depth and width."
)

SMALLER = (
    "Whole channels were removed, so this is an ordinary dense network that is smaller: it takes less memory than the "
    "unpruned one wherever it runs, and usually less time. Measure it with `prunecast time`: kernels work on blocks of "
    "channels, so odd numbers of them can even be slower."
)

WHOLE = "Nothing was removed: this is the unpruned network."

GROUPS = (
    "Sparse tensor cores of GPUs skip half of the arithmetic of 2:4, with a library that stores it for them. Loaded as "
    "a plain PyTorch module the network takes as much memory and time as an unpruned one of its depth and width."
)

TASK = "image-classification"
LISTED = 20
"""The card lists the names of up to this many classes."""


def zeros(card: Card) -> str:
    """What pruning saves, and what it does not."""
    if card.counts.nonzero == card.counts.weights:
        return WHOLE
    pair = n_of_m(str(card.training.method.get("structure", "")))
    if pair is not None and card.network.level:
        kept, group = pair[1] - card.network.level, pair[1]
        return f"{kept} of every {group} consecutive weights along the inputs of a layer are kept. {GROUPS}"
    return ZEROS if card.network.units is None else SMALLER


def verdict(card: Card) -> str:
    """The prediction and the measurement, in a sentence or two."""
    promised, found, target = card.predicted, card.measured, card.question.target_error
    about, span = numbers.estimate(promised.value, promised.interval), numbers.interval(promised.interval)
    where = "inside" if found.in_interval else "outside"
    words = (
        f"Predicted {promised.metric.measured} {about}, 95% of new training runs in {span}; measured "
        f"{value(card):.4f}, {where} the interval."
    )
    if found.meets_target is None or target is None:
        return words
    likely = (
        ""
        if promised.probability is None
        else f" (predicted with probability {numbers.probability_cell(promised.probability)})"
    )
    does = "meets" if found.meets_target else "misses"
    return f"{words} It {does} the target of {numbers.target(target)}{likely}."


COMPARED = ("", "predicted", "95% interval", "measured")


def compared(card: Card) -> list[tuple[str, ...]]:
    """Rows that compare predicted and measured error and latency."""
    promised, latency = card.predicted, card.latency
    about, span = numbers.estimate(promised.value, promised.interval), numbers.interval(promised.interval)
    rows: list[tuple[str, ...]] = [(promised.metric.measured, about, span, f"{value(card):.4f}")]
    for own in (latency, *card.other_latencies) if latency is not None else ():
        ends = " to ".join(f"{end:.3g}" for end in own.interval or ())
        name = (
            f"latency of {in_runtime(own.runtime, own.batch)}, ms" if card.other_latencies else "latency, ms"
        )
        rows.append((name, f"{own.predicted:.3g}", ends or "timed before", f"{own.measured:.3g}"))
    return rows


def latency_verdict(found: CardLatency) -> str:
    """How latency was measured, and whether it keeps to the budget."""
    words = (
        f"Latency is the median of many calls with {in_runtime(found.runtime, found.batch)}, "
        f"{timed_by(found.runtime, found.threads)} on the machine that made it; 80% of them took {found.low:.3g} to "
        f"{found.high:.3g} ms."
    )
    if found.within_budget is None:
        return words
    return f"{words} It {'keeps to' if found.within_budget else 'exceeds'} the budget."


def value(card: Card) -> float:
    """The measured quantity that was predicted."""
    found = getattr(card.measured, card.predicted.metric)
    return card.measured.error if found is None else float(found)


def title(card: Card) -> str:
    """The network in a line."""
    network = card.network
    kept = numbers.kept(network.density)
    return f"{network.family}, depth {network.depth}, width {network.width:.4g}, with {kept}"


def text(card: Card) -> str:
    """The whole card as Markdown with a YAML header."""
    sections = [
        f"{header(card)}\n\n# {title(card)}",
        verdict(card),
        *([_table(COMPARED, compared(card)), latency_verdict(card.latency)] if card.latency else []),
        _sizes(card),
        zeros(card),
        _errors(card),
        _training(card),
    ]
    predicted = card.predicted
    notes = [f"- {note}" for note in sentences(predicted.findings, predicted.metric)]
    if notes:
        sections.append("\n".join(["## What to know about the prediction", "", *notes]))
    return "\n\n".join([*sections, _use(card)]) + "\n"


def card_section(card: Card, folder: Path) -> Section:
    """A made network on a screen: what was measured and what was predicted, the sizes, and where the files are."""
    titles = [word.capitalize() for word in sizes_header(card)]
    grids, notes = [Grid(header=["Size", *titles], rows=_size_rows(card))], [zeros(card)]
    if card.counts.dead_layers:
        notes.insert(0, dead(card))
    if card.latency:
        grids.insert(0, Grid(header=[word.capitalize() for word in COMPARED], rows=compared(card)))
        notes.insert(0, latency_verdict(card.latency))
    if card.disk.onnx is None:
        notes.append(no_onnx(card.code))
    notes.append(f"The network and its card are in {folder}; see README.md there for details.")
    return Section(title=f"Made: {title(card)}.", text=[verdict(card)], grids=grids, notes=notes)


def made_section(card: Card, number: int = 1) -> Section:
    """A network that was made, for the page: its measured and its predicted error."""
    promised, metric = card.predicted, card.predicted.metric
    measured = "inside the interval" if card.measured.in_interval else "outside the interval"
    runs = f"95% of new training runs in {numbers.interval(promised.interval)}"
    return Section(
        name="made" if number == 1 else f"made-{number}",
        title="The chosen network, trained",
        text=[f"{title(card)}, trained with a seed that the law has not seen. {verdict(card)}"],
        facts=[
            Fact(f"Predicted {metric.word}", numbers.estimate(promised.value, promised.interval), runs),
            Fact(f"Measured {metric.word}", numbers.error(value(card)), measured),
            Fact("Bytes on disk", f"{card.disk.sparse:,}", f"without zeros; {card.disk.dense:,} with them"),
        ],
    )


def header(card: Card) -> str:
    """What the Hugging Face search reads: the task and the results, quoted as in JSON, which is valid YAML."""
    results = {
        "task": {"type": TASK},
        "dataset": {"name": card.training.dataset, "type": card.training.dataset, "split": "test"},
        "metrics": [
            {"type": "accuracy", "value": round(1 - card.measured.error, 6)},
            {"type": "error", "name": "test error", "value": round(card.measured.error, 6)},
        ],
    }
    lines = {
        "library_name": "pytorch",
        "pipeline_tag": TASK,
        "tags": [
            "prunecast",
            "pruning",
            *(["sparse"] if card.network.units is None else []),
            *(["onnx"] if card.disk.onnx else []),
        ],
        "model-index": [{"name": title(card), "results": [results]}],
    }
    written = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in lines.items()]
    return "\n".join(["---", *written, "---"])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _size_rows(card: Card) -> list[tuple[str, str, str]]:
    """The sizes of the unpruned network and of the one that was made."""
    counts, disk = card.counts, card.disk
    sizes = (f"{disk.dense:,}", f"{disk.sparse:,}") if card.network.units is None else ("", f"{disk.dense:,}")
    return [
        ("prunable weights", f"{counts.weights:,}", f"{counts.nonzero:,}"),
        ("parameters, with biases and normalisation", f"{counts.parameters:,}", f"{counts.stored:,}"),
        ("multiply-adds per image", f"{counts.multiply_adds:,}", f"{counts.multiply_adds_kept:,}"),
        ("bytes on disk", *sizes),
    ]


def _sizes(card: Card) -> str:
    counts, rows = card.counts, _size_rows(card)
    if counts.connected is not None:
        rows.insert(1, ("of these on a path from image to output", "", f"{counts.connected:,}"))
    table = _table(("size", *sizes_header(card)), rows)
    never = [not_prunable(card)] if counts.not_prunable else []
    never += [kept_dense(card)] if counts.kept_dense else []
    return "\n\n".join([table, *never, *([dead(card)] if counts.dead_layers else [])])


def sizes_header(card: Card) -> tuple[str, str]:
    """What the two columns of sizes are."""
    return ("dense", "without zeros") if card.network.units is None else ("unpruned", "without channels")


def not_prunable(card: Card) -> str:
    """The tensors that are never pruned, with their shares of all parameters."""
    counts = card.counts
    shares = [f"{one.name} ({one.parameters / counts.parameters:.1%})" for one in counts.not_prunable]
    return f"Apart from biases and normalisation, never pruned: {', '.join(shares)} of the parameters."


def kept_dense(card: Card) -> str:
    """The prunable tensors that a structure N:M left as they were, with their shares of all parameters."""
    counts = card.counts
    shares = [f"{one.name} ({one.parameters / counts.parameters:.1%})" for one in counts.kept_dense]
    return (
        f"The structure {card.training.method['structure']} leaves {', '.join(shares)} of the parameters dense, "
        "because the inputs cannot be divided into groups."
    )


def dead(card: Card) -> str:
    """The layers that have no weight left."""
    layers = card.counts.dead_layers
    return f"{plural(len(layers), 'layer', 'has', 'have')} no weight left: {', '.join(layers)}."


def _errors(card: Card) -> str:
    found = card.measured
    rows = [("test error", f"{found.error:.4f}")]
    if (precision := card.training.recipe.get("precision", "fp32")) != "fp32":
        rows = [
            (f"test error in {precision}", f"{found.error:.4f}"),
            ("test error in 32 bits, as model.py computes", f"{found.error_fp32:.4f}"),
        ]
    rows += [
        ("test loss", f"{found.loss:.4f}"),
        ("test error of guessing", f"{found.chance_error:.4f}"),
    ]
    for name, share in (("training error", found.train_error), ("validation error", found.validation_error)):
        if share is not None:
            rows.append((name, f"{share:.4f}"))
    return _table(("measured", "value"), rows)


def _training(card: Card) -> str:
    how = card.training
    rows = [
        ("data", f"{how.dataset}, {how.num_examples:,} examples (digest {how.data[:12]})"),
        *([("test images", _split(how.split))] if how.split else []),
        ("recipe", f"{how.recipe['name']}: {_given(how.recipe, _without_effect(how.recipe))}"),
        *([("start", _start(how.start))] if how.start else []),
        ("method", f"{how.method['name']}: {_given(how.method)}"),
        ("replicate, the seed", f"{how.replicate}"),
        ("training runs", f"{len(how.levels)}, from density 1 to {card.network.density:.4g}"),
        ("time", f"{how.seconds:.1f} s on {how.device}"),
        (
            "code",
            f"prunecast {how.code}, torch {how.environment.get('torch', '?')}; made by `prunecast make`",
        ),
        ("chain", how.spec),
    ]
    return "## How it was made\n\n" + _table(("what", "how"), rows).replace("---:", "---")


def _split(split: Split) -> str:
    return f"{split.test_share:.0%} of every class, chosen by file name and split_seed {split.seed}; never trained on"


def _start(start: Start) -> str:
    used = "level 0 is its network as it is" if start.as_it_is else "level 0 is trained from it"
    return f"{start.file} (digest {start.digest[:12]}); {used}"


def _without_effect(recipe: dict[str, Any]) -> list[str]:
    """The settings that this recipe does not use."""
    unused = ["checkpoint_steps", *(["drop_factor"] if not recipe.get("drops") else [])]
    return [*unused, *(["second_momentum"] if recipe.get("optimizer") == "sgd" else [])]


def _given(settings: dict[str, Any], without: Sequence[str] = ()) -> str:
    left_out = {"name", *without, *(["fraction_of"] if settings.get("fraction_of") == "units" else [])}
    return ", ".join(f"{key} {value}" for key, value in settings.items() if key not in left_out and value)


def _use(card: Card) -> str:
    return "\n".join(
        [
            "## How to use it",
            "",
            "```python",
            snippet(card),
            "```",
            "",
            f"`pixels` {_images(card)}. The network returns {card.network.num_classes} logits per image. Its classes "
            f"are {_classes(card.class_names)}.",
            "",
            running(card.code),
            *(["", onnx_use(card)] if card.disk.onnx is not None else []),
        ]
    )


def snippet(card: Card) -> str:
    """Ten lines that load the network and classify images; FOLDER holds the card."""
    channels, height, width = card.network.image_shape
    lines = [
        "import sys, torch",
        "",
        'sys.path.insert(0, "FOLDER")  # the folder of this card; needs torch and safetensors',
        "import model",
        "",
        "network = model.load()  # a torch.nn.Module in evaluation mode",
        "",
        "",
        f"def classify(pixels):  # shape (images, {height}, {width}, {channels})",
        "    with torch.no_grad():",
        "        labels = network(model.preprocess(pixels)).argmax(1)",
        "    return [model.CLASS_NAMES[label] for label in labels]",
    ]
    return "\n".join(lines)


def running(code: Code) -> str:
    """What model.py is, and what it needs."""
    if code.kind == "layers":
        return "`model.py` defines the network by its layers and can be trained further."
    if code.kind == "operators":
        one = (
            " It processes one image at a time, because it could not be traced for batches."
            if code.image_by_image
            else ""
        )
        return f"`model.py` has the operators of the network's evaluation mode, so it cannot be trained further.{one}"
    where = (
        "from the copy in family_source.py; the modules that this file imports must be installed"
        if code.copied
        else "whose package must be installed"
    )
    return (
        f"`model.py` calls the function of the family, {where}. torch.export cannot trace the network, usually "
        "because it branches on the values of an image."
    )


def onnx_use(card: Card) -> str:
    """How to run the ONNX file."""
    running = ['(logits,) = session.run(["logits"], {"images": model.preprocess(pixels).numpy()})']
    if card.code.onnx_image_by_image:
        running = [
            "images = model.preprocess(pixels).numpy()",
            "# The file takes one image at a time.",
            'logits = [session.run(["logits"], {"images": image[None]})[0][0] for image in images]',
        ]
    return "\n".join(
        [
            "ONNX Runtime computes the same logits from the same input:",
            "",
            "```python",
            "import onnxruntime",
            "",
            'session = onnxruntime.InferenceSession("FOLDER/model.onnx")',
            *running,
            "```",
        ]
    )


def no_onnx(code: Code) -> str:
    """Why there is no ONNX file, and what to do."""
    if code.onnx_missing:
        return "For an ONNX file, pip install 'prunecast[onnx]' and run the same command; nothing is trained again."
    return "There is no ONNX file, because torch.onnx cannot trace this network; card.json says why (onnx_problem)."


def _images(card: Card) -> str:
    """What the pixels of images are, and what is done to them before and in the code."""
    how, (channels, height, width) = card.preprocessing, card.network.image_shape
    if how is None:
        return (
            f"are images of {height}×{width} pixels, normalised as your dataset {card.training.dataset} does"
        )
    colours = {1: "grey", 3: "red, green and blue"}.get(channels, f"{channels} channels")
    low, high = how.value_range
    scaled = ""
    if how.shorter_side is not None:
        scaled = f": scale the shorter side of an image to {how.shorter_side} pixels (bilinear) and take the centre"
        if how.shorter_side == height == width:
            fit = f'ImageOps.fit(image.convert("RGB"), ({width}, {height}), Image.Resampling.BILINEAR)'
            scaled += f", as Pillow's `{fit}` does"
    means, stds = (", ".join(f"{value:.4f}" for value in values) for values in (how.mean, how.std))
    return (
        f"are images of {height}×{width} pixels with {colours} values from {low} to {high}{scaled}. The code "
        f"subtracts the mean of each channel over the training images ({means}) and divides by its standard "
        f"deviation ({stds})"
    )


def _classes(names: tuple[str, ...]) -> str:
    if len(names) > LISTED:
        return f"the {len(names)} of `class_names` in card.json, from {names[0]} to {names[-1]}"
    return ", ".join(names)
