"""A fitted law as plain JSON: it names its law, its format's version and the digest of its data."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.catalogue import LAWS, POSITIVE
from prunecast.laws.dense import DenseLaw
from prunecast.laws.dip import DIP, DIP_RATIO, NU
from prunecast.laws.eq2 import GAMMA, HIGH, PHI, PSI, SCALE
from prunecast.laws.identify import Note
from prunecast.laws.judge import Deviation, NoiseFloor
from prunecast.laws.result import FORMAT_VERSION, Configuration, Fit, Origin, Spread

FORMAT = "prunecast law"


def as_json(fit: Fit) -> dict[str, Any]:
    """Everything in a fit as plain lists, numbers and words."""
    body = asdict(fit)
    spread = body.pop("spread")
    spread["centre"] = [round(float(x), 8) for x in fit.spread.centre]
    spread["draws"] = [[round(float(x), 6) for x in row] for row in fit.spread.draws]
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        **body,
        "undetermined": list(fit.undetermined),
        "spread": spread,
    }


def from_json(body: dict[str, Any], place: str = "law") -> Fit:
    """The fit that `as_json` described."""
    if body.get("format") != FORMAT:
        raise PrunecastError(f"{place} is not a saved law; `prunecast fit TABLE -o law.json` writes one")
    if body.get("version") != FORMAT_VERSION:
        raise PrunecastError(
            f"{place} has format version {body.get('version')}, and this prunecast reads {FORMAT_VERSION}; fit it again"
        )
    try:
        return _sound(_fit(body))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PrunecastError(f"{place} is damaged ({error}); fit it again") from error


def _fit(body: dict[str, Any]) -> Fit:
    names = list(body["parameters"])
    spread = {**body["spread"], "centre": np.array(body["spread"]["centre"], dtype=float)}
    spread["draws"] = np.array(spread["draws"], dtype=float).reshape(-1, len(names))
    configurations = (_configuration(one) for one in body["configurations"])
    return Fit(
        law=body["law"],
        metric=body["metric"],
        axes=tuple(body["axes"]),
        reference_examples=float(body["reference_examples"]),
        parameters={name: float(value) for name, value in body["parameters"].items()},
        intervals={name: (float(ends[0]), float(ends[1])) for name, ends in body["intervals"].items()},
        fixed=tuple(body["fixed"]),
        deviation=_deviation(body["deviation"]),
        regions={name: _deviation(one) for name, one in body["regions"].items()},
        noise_floor=None if body["noise_floor"] is None else NoiseFloor(**body["noise_floor"]),
        held_out=dict(body["held_out"]),
        rows=body["rows"],
        at_chance=body["at_chance"],
        configurations=tuple(configurations),
        notes=tuple(Note(**note) for note in body["notes"]),
        spread=Spread(**spread),
        dense=None if body["dense"] is None else DenseLaw(**body["dense"]),
        origin=Origin(**body["origin"]),
        options=dict(body["options"]),
    )


def _configuration(body: dict[str, Any]) -> Configuration:
    curve = tuple((float(d), float(e), float(r)) for d, e, r in body.get("curve", ()))
    return Configuration(**{**body, "deviation": _deviation(body["deviation"]), "curve": curve})


def _deviation(body: dict[str, Any]) -> Deviation:
    """A region without rows has no μ and σ: NaN, which JSON writes as null."""
    mean, std = (float("nan") if body[name] is None else float(body[name]) for name in ("mean", "std"))
    return Deviation(mean=mean, std=std, rows=body["rows"])


def _sound(fit: Fit) -> Fit:
    """The fit itself; what no fit writes is refused before a prediction stumbles over it."""
    exponents = {"depth": PHI, "width": PSI, "num_examples": NU}
    needed = {
        HIGH,
        GAMMA,
        SCALE,
        *(exponents[axis] for axis in fit.axes),
        *([DIP] if fit.law == "dip" else []),
    }
    missing = needed ^ (set(fit.parameters) - {DIP_RATIO})
    outside = [n for n, x in fit.parameters.items() if not np.isfinite(x) or (n in POSITIVE and x <= 0)]
    if fit.law not in ("eq1", *LAWS):
        raise ValueError(f"no law is called {fit.law!r}")
    if missing or outside or not fit.configurations:
        raise ValueError(f"unusable: {', '.join([*missing, *outside]) or 'configurations'}")
    return fit


def save(fit: Fit, path: Path) -> None:
    """Write aside, then rename: the file exists whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        aside.write_text(dumps(as_json(fit)) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise PrunecastError(f"{path} cannot be written: {error.strerror}; choose another place") from error


def dumps(body: object) -> str:
    """JSON that every parser reads: no NaN, which becomes null."""
    return json.dumps(_plain(body), ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def load(path: str | Path) -> Fit:
    """Read a saved law."""
    path = Path(path)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PrunecastError(
            f"{path} cannot be read: {error.strerror}; `prunecast fit TABLE -o law.json` writes a law"
        ) from error
    except ValueError as error:
        raise PrunecastError(
            f"{path} is not a saved law (it is not JSON); `prunecast fit TABLE -o law.json` writes one"
        ) from error
    if not isinstance(body, dict):
        raise PrunecastError(f"{path} is not a saved law; `prunecast fit TABLE -o law.json` writes one")
    return from_json(body, str(path))
