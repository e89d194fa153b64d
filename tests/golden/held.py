"""What a command said, taken apart: numbers and words for one file, sentences for another."""

import json
import math
import re
from typing import Any

LONG = 24
"""Longer lists are held by their statistics."""

CHECKSUM = "checksum"
"""A field that changes with the last digit of any number, and so from machine to machine."""

SENTENCES = "(sentences)"
"""Stands in the numbers where the texts hold a sentence, or a list of them."""

DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
UNSEEN = re.compile(r"<(script|style|svg)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def parts(code: int, out: str, err: str, written: dict[str, str]) -> tuple[Any, dict[str, Any]]:
    """The numbers of one run, and its texts by the place where they stood."""
    texts: dict[str, Any] = {}
    if err:
        texts["stderr"] = err.splitlines()
    body: dict[str, Any] = {"exit": code}
    if out.startswith("{"):
        body["out"] = taken_apart(shortened(json.loads(out)), "out", texts)
    elif out:
        texts["out"] = out.splitlines()
    for name, text in written.items():
        if name.endswith(".json"):
            fields = {key: one for key, one in json.loads(text).items() if key != CHECKSUM}
            body[name] = taken_apart(shortened(fields), name, texts)
        elif name.endswith(".html"):
            body[name] = [shortened(shapeless(json.loads(one))) for one in DATA.findall(text)]
            body[name] = taken_apart(body[name], name, texts)
            seen = TAG.sub("\n", UNSEEN.sub("", text))
            texts[name] = [" ".join(line.split()) for line in seen.splitlines() if line.strip()]
        else:
            body[name] = "written"
    return body, texts


def taken_apart(value: Any, place: str, texts: dict[str, Any]) -> Any:
    """The value with its sentences moved to the texts."""
    if isinstance(value, dict):
        return {key: taken_apart(one, f"{place}.{key}", texts) for key, one in value.items()}
    if prose(value) or (isinstance(value, list) and all(map(prose, value))):
        texts[place] = value
        return SENTENCES
    if isinstance(value, list):
        return [taken_apart(one, f"{place}[{n}]", texts) for n, one in enumerate(value)]
    return value


def prose(value: Any) -> bool:
    """Whether it is a sentence rather than a name."""
    return isinstance(value, str) and " " in value


def shapeless(value: Any) -> Any:
    """The data of a page with long strings, such as embedded pictures, held by their length."""
    if isinstance(value, dict):
        return {key: shapeless(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shapeless(one) for one in value]
    return f"{len(value)}-characters" if isinstance(value, str) and len(value) > 2000 else value


def shortened(value: Any) -> Any:
    """The value with its long lists held by their statistics."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    if isinstance(value, list):
        return column(value) if len(value) > LONG else [shortened(one) for one in value]
    return value


def column(values: list[Any]) -> dict[str, Any]:
    """How many values there are, and statistics of them; records and rows are held by their columns."""
    body: dict[str, Any] = {"values": len(values)}
    there = [one for one in values if one is not None]
    if len(there) < len(values):
        body["missing"] = len(values) - len(there)
    numbers = [float(one) for one in there if isinstance(one, int | float)]
    words = [one for one in there if isinstance(one, str)]
    records = [one for one in there if isinstance(one, dict)]
    rows = [one for one in there if isinstance(one, list)]
    if numbers:
        body |= statistics(numbers)
    if words:
        counts = {word: words.count(word) for word in words}
        body["words"] = list(counts) if len(counts) <= LONG else len(counts)
        body["times"] = list(counts.values()) if len(counts) <= LONG else SENTENCES
    if records:
        keys = list({key: None for one in records for key in one})
        body["columns"] = {key: column([one[key] for one in records if key in one]) for key in keys}
    if rows:
        longest = max(map(len, rows))
        if longest == min(map(len, rows)) <= LONG:
            body["columns"] = [column(list(own)) for own in zip(*rows, strict=True)]
        else:
            body["lengths"] = column([len(own) for own in rows])
            body["all"] = column([one for own in rows for one in own])
    return body


def statistics(numbers: list[float]) -> dict[str, float]:
    """Statistics that see a changed number, and one that sees a changed order."""
    count = len(numbers)
    return {
        "first": numbers[0],
        "last": numbers[-1],
        "min": min(numbers),
        "max": max(numbers),
        "mean": math.fsum(numbers) / count,
        "ordered": math.fsum(place * one for place, one in enumerate(numbers, 1)) / count**2,
    }


def differences(held: Any, now: Any, place: str = "") -> list[str]:
    """Where two values differ; numbers may by one part in a million."""
    if isinstance(held, dict) and isinstance(now, dict):
        keys = [*held, *(key for key in now if key not in held)]
        return [
            line
            for key in keys
            for line in (
                differences(held[key], now[key], f"{place}.{key}")
                if key in held and key in now
                else [f"{place}.{key}: {'is gone' if key in held else 'is new'}"]
            )
        ]
    if isinstance(held, list) and isinstance(now, list) and len(held) == len(now):
        pairs = enumerate(zip(held, now, strict=True))
        return [line for n, (one, other) in pairs for line in differences(one, other, f"{place}[{n}]")]
    if type(held) in (int, float) and type(now) in (int, float):
        same = math.isclose(held, now, rel_tol=1e-6, abs_tol=1e-9)
    else:
        same = type(held) is type(now) and held == now
    return [] if same else [f"{place}: {held!r} was held, {now!r} is now"]
