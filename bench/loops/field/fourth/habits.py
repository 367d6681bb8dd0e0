"""Habits of agents: they look around first, and some say the same words each time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.loops.field.cast import sh
from bench.loops.field.run import Chat, Run

_LEADS = (
    "Let me get an overview first.",
    "I'll start by looking at the repository.",
    "First I want to know the layout.",
    "",
)
_LATER = ("", "", "And this.", "Good to know.", "Now the history.", "What else is there?")


def look_around(r: Run, c: Chat) -> None:
    """Look at a few things of a repository, each once."""
    folders = r.some(("apps", "docs", "infra", "lib", "packages", "scripts", "src", "tests"), 5)
    subjects = ("Fix rounding", "Bump tooling", "Drop old flag", "Add trace ids", "Tidy imports")
    log = "\n".join(f"{r.hex(7)} {subject}" for subject in r.some(subjects, 4))
    ls = "\n".join(
        f"drwxr-xr-x {r.num(2, 14)} dev dev 4096 Jan {r.num(1, 14):>2} {name}" for name in folders
    )
    looks = {
        "ls -la": f"total {r.num(40, 300)}\n{ls}",
        "git log --oneline -4": log,
        "git status -sb": f"## main...origin/main [behind {r.num(1, 9)}]",
        "cat .editorconfig": f"root = true\n[*]\nindent_size = {r.pick(2, 4)}\ncharset = utf-8",
        "du -sh .": f"{r.num(20, 900)}M\t.",
        "cat CODEOWNERS": "\n".join(f"/{name}/ @team-{r.num(1, 30)}" for name in folders),
        "git branch -a | wc -l": str(r.num(3, 80)),
    }
    for place, cmd in enumerate(r.some(list(looks), r.num(2, 6))):
        c.act(r.pick(*(_LATER if place else _LEADS)), sh(cmd, looks[cmd]))


class Voice:
    """How the model of a run talks: most find new words each time, a third seldom do."""

    def __init__(self, r: Run) -> None:
        self._r = r
        self._is_dull = r.num(0, 2) == 0
        self._said: dict[tuple[str, ...], str] = {}

    def __call__(self, *parts: Sequence[str]) -> str:
        """Return a sentence of one choice for each part."""
        text = self._r.mix(*parts).strip()
        text = re.sub(r"(?<=[.!] )[a-z]", lambda found: found[0].upper(), text)
        if self._is_dull and self._r.num(0, 6):
            return self._said.setdefault((*parts[0], *parts[-1]), text)
        return text
