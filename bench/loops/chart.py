"""The chart of LoopBench as SVG: recall against honest runs refused, a point for each detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.loops.score import Score, Scores

WIDTH, HEIGHT = 560, 560
"""Of one panel."""
LEFT, TOP, PLOT = 52, 46, 430
"""Where the plot of a panel is, and its sides."""
LABEL_STEP = 12.5
"""Pixels between labels at least."""
LABEL_CHARS = 27

STYLE = """
text { font: 11px system-ui, sans-serif; fill: #57606a }
.title { font-size: 14px; font-weight: 600 }
.axis, .lead { stroke: #8c959f; fill: none }
.grid { stroke: #8c959f; stroke-opacity: .25 }
.lead { stroke-opacity: .5 }
.ours { fill: #cf222e }
.preset { fill: #0969da }
.rule { fill: #1a7f37 }
.package { fill: #9a6700 }
.other { fill: #8250df }
@media (prefers-color-scheme: dark) {
  text { fill: #c9d1d9 }
  .ours { fill: #ff7b72 }
  .preset { fill: #58a6ff }
  .rule { fill: #3fb950 }
  .package { fill: #d29922 }
  .other { fill: #bc8cff }
}
"""

Groups = Mapping[str, str]
"""The group of each detector; `other` for the rest."""

LEGEND = {
    "ours": "Looptrap",
    "preset": "its other presets",
    "rule": "rules of other projects",
    "package": "packages of PyPI",
    "other": "others",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A detector in a panel."""

    name: str
    group: str
    x: float
    y: float


def chart(scores: Scores, groups: Groups) -> str:
    """Return the chart, with a panel for each split."""
    panels = [
        f'<g transform="translate({number * WIDTH},0)">{_panel(split, found, groups)}</g>'
        for number, (split, found) in enumerate(scores.items())
    ]
    width = WIDTH * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
        f'width="{width}" height="{HEIGHT}" role="img">\n'
        "<title>LoopBench: loops caught against honest runs refused</title>\n"
        f"<style>{STYLE}</style>\n" + "\n".join(panels) + "\n</svg>\n"
    )


def _panel(split: str, scores: Mapping[str, Score], groups: Groups) -> str:
    most = max((score.honest_share for score in scores.values()), default=0.0)
    scale = next(one for one in (0.1, 0.2, 0.5, 1.0) if most <= one)
    points = [
        Point(
            name,
            groups.get(name, "other"),
            LEFT + PLOT * score.honest_share / scale,
            TOP + PLOT * (1 - score.recall),
        )
        for name, score in scores.items()
    ]
    one = next(iter(scores.values()))
    title = f"{split}: {one.loops} loops, {one.honest} honest runs"
    parts = [f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>', *_axes(scale)]
    parts += _legend([group for group in LEGEND if any(point.group == group for point in points)])
    for point, y in zip(points, _spread([point.y for point in points]), strict=True):
        parts += _labelled(point, y)
    return "\n".join(parts)


def _axes(scale: float) -> Iterator[str]:
    for number in range(6):
        share = number / 5
        x, y = LEFT + PLOT * share, TOP + PLOT * (1 - share)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}h{PLOT}M{x:.1f} {TOP}v{PLOT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        below = TOP + PLOT + 16
        yield f'<text x="{x:.1f}" y="{below}" text-anchor="middle">{share * scale:.0%}</text>'
    yield f'<path class="axis" d="M{LEFT} {TOP}v{PLOT}h{PLOT}"/>'
    yield f'<text x="{LEFT}" y="{TOP - 8}">loops caught</text>'
    middle = LEFT + PLOT / 2
    yield (
        f'<text x="{middle}" y="{TOP + PLOT + 36}" text-anchor="middle">honest runs refused</text>'
    )


def _legend(groups: Sequence[str]) -> Iterator[str]:
    x, y = float(LEFT), TOP + PLOT + 62
    for group in groups:
        yield f'<rect class="{group}" x="{x:.0f}" y="{y - 9}" width="9" height="9"/>'
        yield f'<text x="{x + 13:.0f}" y="{y}">{LEGEND[group]}</text>'
        x += 30 + 5.6 * len(LEGEND[group])


def _spread(heights: Sequence[float]) -> list[float]:
    """Return heights for labels, near those of their points and not over each other."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed, lowest = list(heights), TOP - LABEL_STEP
    for index in order:
        lowest = placed[index] = max(heights[index], lowest + LABEL_STEP)
    highest = TOP + PLOT + LABEL_STEP
    for index in reversed(order):
        highest = placed[index] = min(placed[index], highest - LABEL_STEP)
    return placed


def _labelled(point: Point, y: float) -> Iterator[str]:
    """Yield a point, its label, and a line between them."""
    short = point.name
    if len(short) > LABEL_CHARS:
        short = f"{short[: LABEL_CHARS - 1]}…"
    is_right = point.x < LEFT + PLOT * 0.6
    x = point.x + 14 if is_right else point.x - 14
    anchor, end = ("start", x - 2) if is_right else ("end", x + 2)
    lead = f"M{point.x:.1f} {point.y:.1f}L{end:.1f} {y:.1f}"
    yield f'<path class="lead" d="{lead}"/>'
    yield (
        f'<circle class="{point.group}" cx="{point.x:.1f}" cy="{point.y:.1f}" r="4">'
        f"<title>{escape(point.name)}</title></circle>"
    )
    yield f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escape(short)}</text>'
