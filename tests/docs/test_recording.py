"""The recording of the demo in the README shows what `looptrap demo` prints.

`make pictures` makes it anew.
"""

import os
import re
import subprocess
from html import escape, unescape
from pathlib import Path

from tests.docs.serving import LOOPTRAP, clean_environment
from tests.docs.test_readme import README, ROOT

RECORDING = ROOT / "docs" / "pictures" / "demo.svg"
FOLDER = os.environ.get("LOOPTRAP_PICTURES")

LINE_PX, CHAR_PX, MARGIN_PX = 19, 8.43, 18
PROMPT = "$ looptrap demo"
ROW = re.compile(r"\s+call +\d+ ")
PAUSES_S = {"row": 0.22, "guarded row": 0.4, "text": 0.5}
"""How long a line stands alone before the next one appears."""

STYLE = """\
text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #d6deeb; white-space: pre }
.title { font-weight: bold; fill: #ffffff }
.allow { fill: #7ee2a8 }
.warn { fill: #f5c76b }
.refused { fill: #ff7b72; font-weight: bold }
.saved { fill: #7ee2a8; font-weight: bold }
@media (prefers-reduced-motion: no-preference) {
  text { opacity: 0; animation: appear 0.01s forwards }
}
@keyframes appear { to { opacity: 1 } }"""


def printed() -> list[str]:
    """Return the lines that the demo prints, without what it says at the end about prices."""
    done = subprocess.run(
        [LOOPTRAP, "demo", "--plain"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    return [PROMPT, *lines[: next(n for n, line in enumerate(lines) if "saved (" in line) + 1]]


def look_of(line: str) -> str:
    """Return the class of a line."""
    if line == PROMPT or line.startswith(("Without", "With")):
        return "title"
    if ROW.match(line):
        verdict = line.split()[2]
        return {"allow": "allow", "warn": "warn", "block": "refused"}.get(verdict, "")
    if line.strip().startswith("Nothing has stopped"):
        return "refused"
    return "saved" if line.startswith(("Caught", "Spent")) else ""


def drawn(lines: list[str]) -> str:
    """Return an SVG in which the lines appear one after the other."""
    width = round(max(map(len, lines)) * CHAR_PX) + 2 * MARGIN_PX
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    texts, at = [], 0.3
    for number, line in enumerate(lines):
        if line:
            y = MARGIN_PX + (number + 1) * LINE_PX - 5
            texts.append(
                f'<text x="{MARGIN_PX}" y="{y}" class="{look_of(line)}"'
                f' style="animation-delay: {at:.2f}s">{escape(line)}</text>'
            )
        is_guarded = look_of(line) in ("allow", "warn", "refused") and ROW.match(line)
        kind = "guarded row" if is_guarded else "row" if ROW.match(line) else "text"
        at += PAUSES_S[kind] if line else 0
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="looptrap demo in a terminal">\n'
        f"<style>\n{STYLE}\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b26"/>\n'
        + "\n".join(texts)
        + "\n</svg>\n"
    )


def shown(recording: str) -> list[str]:
    """Return the lines in a recording."""
    return [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", recording)]


def test_the_recording_shows_what_the_demo_prints():
    lines = printed()
    if FOLDER:
        Path(FOLDER, RECORDING.name).write_text(drawn(lines), "utf-8")
    assert shown(RECORDING.read_text("utf-8")) == [line for line in lines if line]


def test_the_readme_shows_the_recording():
    assert f"({RECORDING.relative_to(ROOT)})" in README.read_text("utf-8")
