"""Plots as inline SVG. Whatever text goes in is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 640
BAR = 26
LEFT = 180
RIGHT = 60


def bars(counts: Mapping[str, int], title: str) -> str:
    """Return a horizontal bar for each count."""
    most = max(counts.values(), default=1)
    parts = []
    for row, (name, count) in enumerate(counts.items()):
        y = row * BAR
        length = (WIDTH - LEFT - RIGHT) * count / most
        parts.append(
            f'<text class="name" x="{LEFT - 8}" y="{y + 17}">{escape(name)}</text>'
            f'<rect x="{LEFT}" y="{y + 4}" width="{length:.1f}" height="{BAR - 8}" rx="2"/>'
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 17}">{count:,}</text>'
        )
    return _svg(len(counts) * BAR, title, parts)


HEIGHT = 240
TOP, BOTTOM, SIDE = 12, 28, 44


def lines(at: Sequence[str], series: Mapping[str, Sequence[float | None]], title: str) -> str:
    """Return one line a series of shares between 0 and 1, over evenly spaced points."""
    step = (WIDTH - 2 * SIDE) / max(len(at) - 1, 1)

    def place(i: int, value: float) -> tuple[float, float]:
        return SIDE + i * step, TOP + (HEIGHT - TOP - BOTTOM) * (1 - value)

    parts = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = place(0, value)
        parts.append(
            f'<line class="grid" x1="{SIDE}" x2="{WIDTH - SIDE}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="name" x="{SIDE - 8}" y="{y + 4:.1f}">{value:.0%}</text>'
        )
    parts += [
        f'<text class="below" x="{place(i, 0)[0]:.1f}" y="{HEIGHT - 8}">{escape(name)}</text>'
        for i, name in enumerate(at)
    ]
    for number, values in enumerate(series.values()):
        points = [place(i, value) for i, value in enumerate(values) if value is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="series{number}" points="{path}"/>')
        parts += [
            f'<circle class="series{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points
        ]
    return _svg(HEIGHT, title, parts) + _legend(list(series))


def _legend(names: Sequence[str]) -> str:
    keys = [f'<li class="series{number}">{escape(name)}</li>' for number, name in enumerate(names)]
    return f'<ul class="legend">{"".join(keys)}</ul>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
