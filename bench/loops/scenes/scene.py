"""How runs of coding agents begin and end: a task, a look around, and a last word."""

from __future__ import annotations

from random import Random

from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Turn, grep, read, shell
from bench.loops.scenes.world import Code

_TASKS = (
    "The {noun} page shows one entry too many. Please find out why in {file} and fix it.",
    "Add a limit to `{function}` in {file} so that callers can page through {noun}s.",
    "`{test}` fails on main since yesterday. Make it pass again without changing the test.",
    "Please refactor {file}: `{function}` is used in too many places and hard to test.",
    "Users report that a {noun} disappears after an update. Reproduce it and repair it.",
    "Upgrade the project to the current major version of its framework and make the tests pass.",
    "Write tests for `{function}` in {file}; we have none, and it broke twice this month.",
)
_LAST = (
    "All done. {what}. Let me know if you want anything else.",
    "That is finished. {what}.",
    "{what}, so this is complete.",
    "Done. {what}. I left everything else as it was.",
)


def task(rng: Random, code: Code) -> str:
    """Return what a user asks of a coding agent."""
    return rng.choice(_TASKS).format(
        noun=code.nouns[0], file=code.files[0], function=code.functions[0], test=code.test_command
    )


def look_around(rng: Random, code: Code, voice: Voice, turns: int = 0) -> list[Turn]:
    """Return the first turns, in which the agent gets to know the repository."""
    listing = "\n".join(sorted([*code.files, "README.md", code.tests]))
    steps = [
        ("the layout of the project", shell("git ls-files | head -50", listing)),
        (code.files[0], read(code.files[0], code.source(0))),
        (code.files[1], read(code.files[1], code.source(1))),
        (
            f"uses of {code.functions[0]}",
            grep(code.functions[0], ".", f"{code.files[2]}:14: {code.functions[0]}(items)"),
        ),
        ("the last commits", shell("git log --oneline -3", _log(rng, code))),
        (code.tests, read(code.tests, code.test_source())),
    ]
    chosen = sorted(rng.sample(range(len(steps)), turns or rng.randint(2, 6)))
    return [Turn(voice("read", steps[at][0]), (steps[at][1],)) for at in chosen]


def _log(rng: Random, code: Code) -> str:
    return "\n".join(
        f"{rng.getrandbits(28):07x} {verb.title()} {noun}s in one place"
        for verb, noun in zip(code.verbs[:3], code.nouns[2:5], strict=True)
    )


def end(rng: Random, what: str) -> Turn:
    """Return the last answer, which calls nothing."""
    return Turn(rng.choice(_LAST).format(what=what[0].upper() + what[1:]))


def more(rng: Random) -> int:
    """Return for how many turns a loop goes on."""
    return rng.randint(12, 40)
