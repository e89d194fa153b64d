"""model.py of a made network: its module, its weights, and what is done to pixels, with torch and safetensors alone."""

from pathlib import Path

from torch import nn

from prunecast import __version__
from prunecast.data import Preprocessing
from prunecast.errors import PrunecastError
from prunecast.export.card import Shape
from prunecast.export.files import CONSTANTS, MODEL, PROGRAM, SPARSE, TEXT, as_given
from prunecast.export.program import SOURCE, Program, program
from prunecast.files import is_there, read_file
from prunecast.pruning import write_tensors, write_whole

MARK = b"prunecast make"
"""All code and text that prunecast writes contains this, so that no other file is overwritten."""
COPY = f"{SOURCE}.py"
IMPORTS = """
import json
import math
from pathlib import Path

from safetensors import safe_open

"""
LOAD = f'''
def load(folder=Path(__file__).parent):
    """The network in evaluation mode, with the weights of {MODEL}, or of {SPARSE} if that is all there is."""
    dense = Path(folder) / "{MODEL}"
    network = Network()
    network.load_state_dict(read(dense)[0] if dense.exists() else without_zeros(Path(folder) / "{SPARSE}"))
    for name, tensor in read(Path(folder) / "{CONSTANTS}")[0].items() if CONSTANTS else ():
        network.get_buffer(name).copy_(tensor)
    return network.eval()


def read(path):
    """Tensors and notes of a safetensors file; weights of another network are refused."""
    with safe_open(path, framework="pt") as file:
        notes = json.loads(file.metadata()["notes"])
        if notes["spec"] != SPEC:
            raise ValueError(f"{{path}} belongs to a different network than model.py: make the network again")
        return {{name: file.get_tensor(name) for name in file.keys()}}, notes


def without_zeros(path):
    """The state dict from kept values, and from their positions or one bit per weight."""
    tensors, notes = read(path)
    for name, shape in notes["shapes"].items():
        values = tensors.pop(f"{{name}}.values")
        weight = torch.zeros(math.prod(shape), dtype=values.dtype)
        if f"{{name}}.positions" in tensors:
            weight[tensors.pop(f"{{name}}.positions").long()] = values
        else:
            bits = tensors.pop(f"{{name}}.bits")[:, None].int() >> torch.arange(7, -1, -1)
            weight[(bits & 1).flatten()[: weight.numel()].bool()] = values
        tensors[name] = weight.reshape(shape)
    return tensors
'''
NORMALISED = '''
def preprocess(pixels):
    """The network's input from pixels of shape (images, height, width, channels) with values from {low} to {high}."""
    pixels = torch.as_tensor(pixels)
    mean, std = (torch.tensor(values, device=pixels.device) for values in (MEAN, STD))
    return ((pixels - mean) / std).permute(0, 3, 1, 2)
'''
AS_GIVEN = '''
def preprocess(pixels):
    """The network's input from images of shape (images, height, width, channels), normalised as your dataset does."""
    return torch.as_tensor(pixels).permute(0, 3, 1, 2)
'''


def check_overwriting(folder: Path) -> None:
    """Refuse a folder in which a file of the user's own would be overwritten or removed."""
    for path in (folder / name for name in (PROGRAM, TEXT, COPY)):
        if is_there(path) and MARK not in read_file(path):
            raise PrunecastError(
                f"{path} was not written by prunecast make, which would overwrite it: choose another -o"
            )


def write_program(
    folder: Path,
    model: nn.Module,
    network: Shape,
    preprocessing: Preprocessing | None,
    class_names: tuple[str, ...],
    digest: str,
) -> Program:
    """Write model.py for a network on the CPU, and the files that it needs besides the weights."""
    given = {
        "depth": network.depth,
        "width": as_given(network.width),
        "num_classes": network.num_classes,
        "image_shape": network.image_shape,
    }
    written = program(model, network.image_shape, network.family, given)
    if written.constants:
        write_tensors(folder / CONSTANTS, written.constants, {"format": 1, "spec": digest})
    else:
        (folder / CONSTANTS).unlink(missing_ok=True)
    if written.source:
        write_whole(folder / COPY, _copy(Path(written.source)))
    else:
        (folder / COPY).unlink(missing_ok=True)
    text = _text(written, network, preprocessing, class_names, digest)
    write_whole(folder / PROGRAM, text.encode())
    return written


def _copy(source: Path) -> bytes:
    return b"# A copy by prunecast make of the file that defines the network.\n" + read_file(source)


def _text(
    written: Program,
    network: Shape,
    preprocessing: Preprocessing | None,
    class_names: tuple[str, ...],
    digest: str,
) -> str:
    channels, height, width = network.image_shape
    about = [
        f'"""{network.family}, depth {network.depth}, width {network.width:.4g}, density {network.density:.4g}.',
        "",
        f"It reads images of {height}×{width} pixels with {channels} channel{'s' * (channels > 1)} and returns "
        f"{network.num_classes} logits.",
        _trained_further(written),
        f"Written by prunecast make, version {__version__}. It needs torch and safetensors, not prunecast.",
        '"""',
    ]
    facts = [
        f"SPEC = {digest!r}",
        f"CONSTANTS = {tuple(written.constants)!r}",
        f"CLASS_NAMES = {class_names!r}",
        f"SIZE = {(height, width)!r}",
    ]
    scaling = AS_GIVEN
    if preprocessing is not None:
        facts += [f"MEAN = {preprocessing.mean!r}", f"STD = {preprocessing.std!r}"]
        low, high = preprocessing.value_range
        scaling = NORMALISED.format(low=low, high=high)
    return "\n".join(
        ["\n".join(about), IMPORTS + written.imports, *facts, "", written.code, LOAD, scaling.rstrip(), ""]
    )


def _trained_further(written: Program) -> str:
    return {
        "layers": "Its layers are modules of torch.nn, so it can be trained further.",
        "operators": "It was traced in evaluation mode, so it cannot be trained further.",
        "source": "It calls the family's own function.",
    }[written.kind]
