"""Old module names, until every package uses `prunecast.laws`."""

# mypy: ignore-errors

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from prunecast import laws
from prunecast.files import dumps
from prunecast.laws import deviations, law, points, predict, result, support, validate
from prunecast.laws import dip as dip_module
from prunecast.laws import eq2 as eq2_module
from prunecast.laws.diagnose import levels_to, plateau_reached, power_law_seen


def _notes(fit: Any) -> tuple[Any, ...]:
    from prunecast.wording import sentence

    return tuple(
        SimpleNamespace(
            kind=own.kind,
            text=sentence(own, fit.metric),
            parameter=getattr(own, "parameter", None),
            more_levels=getattr(own, "more_levels", None),
        )
        for own in fit.findings
    )


def _as_json(fit: Any) -> dict[str, Any]:
    body = fit.as_json()
    body["notes"] = [vars(note) for note in _notes(fit)]
    for name in ("findings", "law_source"):
        del body[name]
    return body


def _unvaried(fit: Any, asked: Any) -> Any:
    from prunecast.wording import sentence

    for own in support.never_varied(fit, asked):
        yield sentence(own, fit.metric)


def install() -> None:
    result.Fit.notes = property(_notes)
    law.PruningForm.name = property(lambda self: self.law.name)
    result.LEFT_OUT = "left out"
    result.Configuration = support.Configuration
    predict.PLACE = support.AXES
    predict.unvaried = _unvaried
    laws.as_json, laws.dumps = _as_json, dumps
    laws.Note = SimpleNamespace
    eq2_module.EXPONENT_OF = {"depth": "phi", "width": "psi"}
    eq2_module.eq2 = lambda points, metric="error": law.build_form("eq2", points, metric)
    meaning = {own.name: (own.symbol, own.meaning) for own in dip_module.PARAMETERS}
    olds: dict[str, dict[str, Any]] = {
        "judge": vars(deviations),
        "forms": {**vars(law), "log_scale": lambda form, theta, points: form._log_scale(theta, points)},
        "catalogue": {
            "LAWS": dict.fromkeys(law.selectable_laws()),
            "build": law.build_form,
            "starts": law.starts,
        },
        "measured": vars(points),
        "identify": {
            "power_law_seen": power_law_seen,
            "levels_to": levels_to,
            "plateau_reached": plateau_reached,
        },
        "reach": vars(support),
        "words": {"MEANING": meaning, "SYMBOLS": {name: own[0] for name, own in meaning.items()}},
        "singles": {"SingleFit": laws.SingleFit, "fit_each": laws.fit_each},
        "uncertainty": {"COVERAGE": laws.COVERAGE},
        "compare": vars(validate),
        "held_out": {
            **vars(validate),
            "deviations": validate.held_out_deviations,
            "evaluate": validate.form_deviations,
        },
    }
    for name, names in olds.items():
        module = ModuleType(f"prunecast.laws.{name}")
        module.__dict__.update({key: value for key, value in names.items() if not key.startswith("__")})
        sys.modules[module.__name__] = module
