"""Tales of coding agents: calls that repeat, commands that fail, edits that do not match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import retry
from bench.loops.tales.projects import (
    Project,
    line_of,
    look_around,
    pick_project,
    source,
)
from bench.loops.tales.tale import Case, Round, Tale, cases_of, edit, read, shell

DONE = "That is all. The change is in place and the checks are green."


def repeat(
    task: str,
    before: Sequence[Round],
    make: Callable[[int], Round],
    rng: Random,
    period: int = 1,
    **more: object,
) -> Tale:
    """Return a tale that, after some honest rounds, goes on with the same rounds for ever."""
    least = max(26 - len(before), 3 * period + 3)
    count = rng.randrange(least, max(least + 12, 34))
    rounds = [*before, *(make(number) for number in range(count))]
    return Tale(task, rounds, len(before), period, **more)  # type: ignore[arg-type]


def bug(project: Project, rng: Random) -> str:
    """Return a task of a coding agent."""
    a, b = rng.sample(project.nouns, 2)
    module = rng.choice(project.modules)
    return rng.choice(
        (
            f"In {project.name}, {module} loses the {a} when a {b} arrives late. Please fix it.",
            f"Users of {project.name} report a wrong {a} whenever {module} sees two of the same "
            f"{b}. Find out why and repair it.",
            f"Add support for a negative {a} to {project.path(module)}, with tests.",
            f"{project.test} is red on main since the change of {module}. Make it green again.",
        )
    )


def same_read(rng: Random) -> Tale:
    project = pick_project(rng)
    module = rng.choice(project.modules)
    path, content = project.path(module), source(project, module, rng, 6)
    says = (
        f"Let me look at {path} to understand it.",
        f"I need to see the content of {path} first.",
        f"Let me view {path} again to be sure.",
        "",
    )
    return repeat(
        bug(project, rng),
        look_around(project, rng, rng.randrange(2, 8)),
        lambda n: Round(says[n % len(says)], [read(path, content)], note=f"Read {path}."),
        rng,
    )


def same_status(rng: Random) -> Tale:
    project = pick_project(rng)
    noise = Noise(rng)
    command = rng.choice(("git status", "git diff --stat", f"{project.lint}"))
    took = command == project.lint
    quiet = {
        "git status": "On branch main\nnothing to commit, working tree clean",
        "git diff --stat": "",
    }

    def make(n: int) -> Round:
        output = f"All checks passed! ({noise.seconds()}s)" if took else quiet[command]
        said = ("Checking the state of the tree.", "Let me verify where we stand.")[n % 2]
        return Round(said, [shell(command, output)], note="The tree is clean.")

    return repeat(bug(project, rng), look_around(project, rng, rng.randrange(3, 9)), make, rng)


def reread_after_edit(rng: Random) -> Tale:
    project = pick_project(rng)
    module = rng.choice(project.modules)
    path = project.path(module)
    lines = source(project, module, rng, 6).split("\n")
    rounds = [Round("First the file as it is.", [read(path, "\n".join(lines))])]
    for number in range(rng.randrange(10, 18)):
        place = rng.randrange(3, len(lines))
        new = line_of(project, rng)
        rounds.append(
            Round(
                ("Next change.", "One more place.", "And this line.")[number % 3],
                [edit(path, lines[place], new)],
                note=f"Replaced line {place} of {path}.",
            )
        )
        lines[place] = new
        rounds.append(Round("Let me look at the file again.", [read(path, "\n".join(lines))]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def status_after_step(rng: Random) -> Tale:
    project = pick_project(rng)
    noise = Noise(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for module in project.modules:
        path = project.path(module)
        rounds += [
            Round(f"On to {module}.", [edit(path, line_of(project, rng), line_of(project, rng))]),
            Round("", [shell("git status", f"On branch main\n\tmodified:   {path}")]),
            Round(
                "",
                [shell(f"git commit -qam 'Tidy {module}'", "")],
                note=f"Committed {module} as {noise.hex(7)}.",
            ),
            Round("", [shell("git status", "On branch main\nnothing to commit, tree clean")]),
        ]
    return Tale(f"Tidy all modules of {project.name}, one commit each.", [*rounds, Round(DONE)])


def lint_after_edit(rng: Random) -> Tale:
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 3)
    for number in range(13):
        path = project.path(project.modules[number % len(project.modules)])
        old, new = line_of(project, rng), line_of(project, rng)
        rounds += [
            Round("", [edit(path, old, new)], note=f"{path}: {new.strip()}"),
            Round("", [shell(project.lint, "All checks passed!")]),
        ]
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def parallel_reads(rng: Random) -> Tale:
    """Several calls at once, the same ones in every round."""
    project = pick_project(rng)
    modules = rng.sample(project.modules, 3)
    deeds = [read(project.path(name), source(project, name, rng)) for name in modules]
    deeds.append(shell("git status --short", ""))
    return repeat(
        bug(project, rng),
        look_around(project, rng, rng.randrange(2, 7)),
        lambda n: Round(retry(rng), deeds if n % 2 else deeds[::-1], note="Read the files."),
        rng,
    )


def parallel_survey(rng: Random) -> Tale:
    """Several calls at once, each time with other files beside the same status."""
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 1)
    for number in range(rng.randrange(14, 20)):
        path = f"{project.folder}/part{number}/{rng.choice(project.modules)}.{project.ending}"
        deeds = [read(path, source(project, "part", rng)), shell("git status --short", "")]
        rounds.append(Round("The next part.", deeds, note=f"Read {path}."))
    return Tale(f"Read all of {project.name} and describe it.", [*rounds, Round("It is so: …")])


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("same-call", "read", same_read, "claude-code openhands mini-swe-agent codex",
                  **loop, difficulty="easy"),
        *cases_of("same-call", "status", same_status, "gemini-cli opencode cline", **loop),
        *cases_of("same-call", "reread", reread_after_edit, "claude-code opencode roo gemini-cli"),
        *cases_of("same-call", "commits", status_after_step, "codex cline goose",
                  difficulty="hard"),
        *cases_of("same-call", "lint", lint_after_edit, "claude-code swe-agent mini-swe-agent",
                  difficulty="hard"),
        *cases_of("same-call", "parallel", parallel_reads,
                  "claude-code gemini-cli codex", **loop),
        *cases_of("same-call", "survey", parallel_survey, "claude-code opencode codex"),
    ]  # fmt: skip
