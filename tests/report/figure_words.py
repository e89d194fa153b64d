"""The words of a figure where the renderer placed them, to see whether they can be read."""

import re
from dataclasses import dataclass
from itertools import combinations

import vl_convert

DIGIT, LETTER, LINE = 0.556, 0.5, 1.1
"""Width of a character and height of a line in font sizes; letters are so wide on average."""


@dataclass(frozen=True)
class Words:
    """Text in a figure: what it is for, which panel it is in, and the box it takes."""

    text: str
    role: str
    panel: int
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Words") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def words_in(spec) -> list[Words]:
    """All text of a figure as the renderer placed it, hidden labels left out."""
    scene = vl_convert.vegalite_to_scenegraph(spec)
    found: list[Words] = []
    panels = 0

    def walk(node, x: float, y: float, panel: int) -> None:
        nonlocal panels
        for item in node.get("items", []):
            if node.get("marktype") == "text":
                if item.get("opacity", 1) and item.get("text"):
                    found.append(box(item, node.get("role", ""), x, y, panel))
                continue
            inside = panel
            if re.fullmatch(r"concat_\d+_group", node.get("name") or ""):
                inside, panels = panels, panels + 1
            group = "marktype" not in item
            walk(item, x + item.get("x", 0) * group, y + item.get("y", 0) * group, inside)

    walk(scene["scenegraph"], *scene["origin"], -1)
    return found


def box(item, role: str, x: float, y: float, panel: int) -> Words:
    lines = item["text"] if isinstance(item["text"], list) else [str(item["text"])]
    size = item.get("fontSize", 11)
    width = size * max(sum(DIGIT if one.isdigit() else LETTER for one in line) for line in lines)
    height = LINE * size * len(lines)
    if item.get("angle"):
        width, height = height, width
    x, y = x + item.get("x", 0) + item.get("dx", 0), y + item.get("y", 0) + item.get("dy", 0)
    left = x - width * {"left": 0, "center": 0.5, "right": 1}[item.get("align", "left")]
    top = y - height * {"top": 0, "middle": 0.5}.get(item.get("baseline", "alphabetic"), 1)
    return Words(" ".join(lines), role, panel, left, top, left + width, top + height)


def unreadable(spec) -> list[tuple[str, ...]]:
    """Words that run into each other, and words that are cut off."""
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', vl_convert.vegalite_to_svg(spec))
    found = words_in(spec)
    outside = [
        (one.text,)
        for one in found
        if one.left < 0 or one.top < 0 or one.right > float(size[1]) or one.bottom > float(size[2])
    ]
    return outside + [(one.text, two.text) for one, two in combinations(found, 2) if one.overlaps(two)]
