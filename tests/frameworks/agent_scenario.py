"""Tasks for coding agents: four kinds of loops, and four kinds of honest work that look like them.

The model is a script that says what comes next: a shell command, or, for aider, an edit. Whether
that is a loop depends on what the files of the workspace make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROMPT = "Find out why the build fails and mend it."
DONE = "The build passes now."

CALLS = 24
"""Calls of an honest run."""

REMARKS = (
    "Let me look.",
    "",
    "I need to see this again.",
    "",
    "Now the next step.",
    "",
    "On we go.",
)
"""What the model says beside its calls, in turns. It varies, as it does with real models; Gemini
CLI, Qwen Code and OpenHands stop equal calls with equal remarks themselves."""

POLL = """\
n=$(cat .count 2>/dev/null || echo 0)
n=$((n + 1))
echo $n > .count
echo "step $n of 12: packing layer $n"
"""

UNHURRIED = """\
"$@"
status=$?
sleep 0.1
exit $status
"""

PATCH = """\
import pathlib, sys

pathlib.Path("app.py").write_text(f"STEP = {sys.argv[1]}\\n")
print(f"patched app.py: STEP = {sys.argv[1]}")
"""

TEST = """\
import app

failing = [n for n in range(12) if n >= app.STEP]
for n in failing:
    print(f"FAILED test_app.py::test_part_{n} - AssertionError: part {n} is missing")
print(f"{len(failing)} failed, {12 - len(failing)} passed")
raise SystemExit(bool(failing))
"""


@dataclass(frozen=True)
class Scenario:
    """What the model says at each turn, and by which call a loop must be refused."""

    name: str
    turn: Callable[[int], str | None]
    """A shell command or, for aider, a text: that of the n-th turn, from 0; None at the end."""
    latest: int | None = None
    """The call by which a loop is refused; None for honest work."""
    prompts: Sequence[str] = (PROMPT,)
    """What the user says, one line after the other; only aider takes several."""

    @property
    def id(self) -> str:
        return self.name


def in_turns(*said: str) -> Callable[[int], str]:
    return lambda turn: said[turn % len(said)]


def up_to(turns: int, turn: Callable[[int], str]) -> Callable[[int], str | None]:
    return lambda number: turn(number) if number < turns else None


def edit_and(command: str) -> Callable[[int], str]:
    """Return turns that patch app.py and then run a command, again and again."""
    return lambda turn: command if turn % 2 else f"python3 patch.py {turn // 2 + 1}"


STUCK = [
    Scenario("failing call", in_turns("cat missing.txt"), 8),
    Scenario("successful call", in_turns("cat a.txt"), 8),
    Scenario("cycle of 2", in_turns("cat a.txt", "cat b.txt"), 8),
    Scenario("cycle of 3", in_turns("cat a.txt", "cat b.txt", "cat c.txt"), 12),
]
HONEST = [
    Scenario("different calls", up_to(CALLS, lambda turn: f"cat part_{turn}.txt")),
    Scenario("patch and test", up_to(CALLS, edit_and("python3 t.py"))),
    Scenario("polling that moves", up_to(12, lambda _turn: "sh poll.sh")),
    Scenario("reading again after edits", up_to(CALLS, edit_and("cat app.py"))),
]


# aider has no tools: its model answers with edits, and aider answers with what the test says. It
# does so three times for each line of its user.


def edit(old: int, new: int) -> str:
    """Return an edit of app.py in the form of aider."""
    change = f"<<<<<<< SEARCH\nSTEP = {old}\n=======\nSTEP = {new}\n>>>>>>> REPLACE"
    return f"app.py\n```python\n{change}\n```"


AIDER_STUCK = [
    Scenario("failing call", in_turns(edit(99, 1)), 8, [PROMPT] * 4),
    Scenario("successful call", in_turns(edit(0, 0)), 8, [PROMPT] * 4),
    Scenario("cycle of 2", in_turns(edit(0, 1), edit(1, 0)), 8, [PROMPT] * 4),
    Scenario("cycle of 3", in_turns(edit(0, 1), edit(1, 2), edit(2, 0)), 12, [PROMPT] * 4),
]
AIDER_HONEST = [
    Scenario(
        "different calls",
        up_to(CALLS, lambda turn: f"Part {turn} weighs {turn * 7 + 3} kg."),
        prompts=[f"What does part {number} weigh?" for number in range(CALLS)],
    ),
    Scenario("patch and test", lambda turn: edit(turn, turn + 1), prompts=["Go on."] * 3),
    Scenario(
        "polling that moves",
        lambda turn: f"Not yet: it packs layer {turn + 1}.",
        prompts=["/run sh poll.sh", "Is it packed?"] * 12,
    ),
    Scenario(
        "reading again after edits",
        lambda turn: f"It says {turn // 2 + 1}." if turn % 2 else edit(turn // 2, turn // 2 + 1),
        prompts=["Raise it by one and read it."] * 12,
    ),
]


def write_workspace(folder: Path) -> None:
    """Write the files that the commands are about."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"Notes {name}: the build needs part {name}.\n" * 3)
    for number in range(CALLS):
        (folder / f"part_{number}.txt").write_text(f"Part {number} weighs {number * 7 + 3} kg.\n")
    (folder / "app.py").write_text("STEP = 0\n")
    (folder / "patch.py").write_text(PATCH)
    (folder / "t.py").write_text(TEST)
    (folder / "unhurried.sh").write_text(UNHURRIED)
    (folder / "poll.sh").write_text(POLL)
