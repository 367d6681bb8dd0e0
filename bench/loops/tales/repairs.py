"""Tales of repairs: edits and tests in turn, changes taken back, rounds that come in cycles."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bench.loops.tales.coding import DONE, bug, repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.projects import (
    draw_failure,
    line_of,
    look_around,
    pick_project,
    source,
    tested,
)
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of, edit, read, shell, write


def same_red(rng: Random) -> Tale:
    """One place is edited again and again, and the same tests fail in the same way."""
    project, noise = pick_project(rng), Noise(rng)
    module = rng.choice(project.modules)
    failures = [draw_failure(project, rng, module) for _ in range(rng.randrange(1, 4))]
    passed = rng.randrange(30, 200)
    lines = [line_of(project, rng) for _ in range(4)]

    def make(n: int) -> Round:
        if n % 2 == 0:
            turn = n // 2
            deed = edit(project.path(module), lines[turn % 4], lines[(turn + 1) % 4])
            return Round(
                ("This should fix it.", "The condition was wrong.", "Now it must pass.")[turn % 3],
                [deed],
                note=f"Changed {module} again.",
            )
        output = tested(project, failures, passed, noise)
        return Round(
            "Running the tests.",
            [shell(project.test, output, 1, rng.uniform(2, 9))],
            note="The same tests fail.",
        )

    before = look_around(project, rng, rng.randrange(2, 10))
    return repeat(bug(project, rng), before, make, rng, 8)


def fewer_red(rng: Random) -> Tale:
    """The same command after each edit; the number of failures falls."""
    project, noise = pick_project(rng), Noise(rng)
    rounds = look_around(project, rng, 3)
    left = [draw_failure(project, rng) for _ in range(rng.randrange(10, 15))]
    total = len(left) + rng.randrange(40, 90)
    while True:
        output = tested(project, left, total - len(left), noise)
        rounds.append(
            Round(
                "Running the tests.",
                [shell(project.test, output, int(bool(left)))],
                note=f"{len(left)} tests fail.",
            )
        )
        if not left:
            return Tale(bug(project, rng), [*rounds, Round(DONE)])
        gone = left.pop(0)
        deed = edit(project.path(gone.module), line_of(project, rng), line_of(project, rng))
        rounds.append(Round("This should fix it.", [deed], note=f"Fixed {gone.test}."))


def other_red(rng: Random) -> Tale:
    """One failure at a time, but each time another one."""
    project, noise = pick_project(rng), Noise(rng)
    rounds = look_around(project, rng, 2)
    for _ in range(rng.randrange(9, 14)):
        failure = draw_failure(project, rng)
        output = tested(project, [failure], 77, noise)
        rounds.append(Round("Running the tests.", [shell(project.test, output, 1)]))
        deed = edit(project.path(failure.module), line_of(project, rng), line_of(project, rng))
        rounds.append(Round("This should fix it.", [deed], note=f"Fixed {failure.test}."))
    rounds.append(Round("", [shell(project.test, tested(project, [], 78, noise))]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def late_green(rng: Random) -> Tale:
    """One test stays red for several rounds while different places are repaired, then passes."""
    project, noise = pick_project(rng), Noise(rng)
    rounds = look_around(project, rng, rng.randrange(3, 7))
    failure = draw_failure(project, rng)
    for module in rng.sample(project.modules, rng.randrange(6, 9)):
        old, new = line_of(project, rng), line_of(project, rng)
        rounds.append(
            Round(
                f"{module} hands it on as well.",
                [edit(project.path(module), old, new)],
                note=f"{module} now hands the value on.",
            )
        )
        output = tested(project, [failure], 51, noise)
        rounds.append(Round("Still red?", [shell(project.test, output, 1)]))
    module = rng.choice(project.modules)
    rounds += [
        Round("The last hand is here.", [read(project.path(module), source(project, module, rng))]),
        Round("", [edit(project.path(module), line_of(project, rng), line_of(project, rng))]),
        Round("", [shell(project.test, tested(project, [], 52, noise))], note="Green."),
        Round("A test for it.", [write(f"tests/extra_{module}", line_of(project, rng))]),
        Round("", [shell(project.test, tested(project, [], 53, noise))]),
    ]
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def there_and_back(rng: Random) -> Tale:
    """A change breaks one test, taking it back breaks the other; so for ever."""
    project, noise = pick_project(rng), Noise(rng)
    one, two = draw_failure(project, rng), draw_failure(project, rng)
    path = project.path(one.module)
    old, new = line_of(project, rng), line_of(project, rng)
    tests = rng.random() < 0.7

    def make(n: int) -> Round:
        turn = n % (4 if tests else 2)
        forth = turn < (2 if tests else 1)
        if tests and turn % 2:
            output = tested(project, [one if forth else two], 64, noise)
            return Round("", [shell(project.test, output, 1)])
        deed = edit(path, old, new) if forth else edit(path, new, old)
        said = "This version is better." if forth else "That was wrong, I'll restore the former."
        return Round(said, [deed], note=f"{path} was changed.")

    before = look_around(project, rng, rng.randrange(3, 9))
    return repeat(bug(project, rng), before, make, rng, 4 if tests else 2)


def tuning(rng: Random) -> Tale:
    """A value is tried, measured and taken back where it was worse: the best one improves."""
    project, noise = pick_project(rng), Noise(rng)
    rounds = look_around(project, rng, 3)
    path = project.path(rng.choice(project.modules))
    best, value = 940.0, 64
    for tried in rng.sample(range(80, 900), 11):
        speed = best * rng.uniform(0.8, 1.35)
        rounds.append(Round(f"Trying {tried}.", [edit(path, f"SIZE = {value}", f"SIZE = {tried}")]))
        output = f"rounds/s: {speed:.1f}  (rss {rng.randrange(80, 300)} MB, {noise.seconds()}s)"
        rounds.append(Round("", [shell("make bench", output)], note=f"{tried}: {speed:.0f}/s."))
        if speed > best:
            best, value = speed, tried
        else:
            back = edit(path, f"SIZE = {tried}", f"SIZE = {value}")
            rounds.append(Round("Worse, I take it back.", [back]))
    return Tale(f"Find the best SIZE in {path}.", [*rounds, Round(f"The best is {value}.")])


def polishing(rng: Random) -> Tale:
    """The agent says the same again, and polishes one comment to and fro; each edit lands."""
    project = pick_project(rng)
    module = rng.choice(project.modules)
    path = project.path(module)
    noun = rng.choice(project.nouns)
    comments = (
        f"# the {noun} is checked here",
        f"# checks the {noun} here",
        f"# here, the {noun} is checked",
    )
    said = (
        f"The implementation of {module} is nearly complete. I have handled the {noun}, the "
        "limits and the errors. One last detail remains to make the code clear to its readers: "
        f"the comment above the check of the {noun}. I will improve it now."
    )
    says = (said, said.replace("nearly", "almost"), said.replace("One last", "Only one small"))

    def make(n: int) -> Round:
        deed = edit(path, comments[n % 3], comments[(n + 1) % 3])
        return Round(says[n % 3], [deed], note=f"The comment in {module} was improved.")

    before = look_around(project, rng, rng.randrange(3, 10))
    return repeat(bug(project, rng), before, make, rng, 3)


def same_words_new_files(rng: Random) -> Tale:
    """The agent always says the same, but each edit is another file or place."""
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for number in range(rng.randrange(18, 27)):
        path = project.path(project.modules[number % len(project.modules)])
        deed = edit(path, line_of(project, rng), line_of(project, rng))
        rounds.append(
            Round(
                "Now the next place with the old signature. I will adapt it.",
                [deed],
                note=f"Adapted place {number} in {path}.",
            )
        )
    return Tale(
        f"The signature of {project.verbs[0]} changed; adapt all its callers.",
        [*rounds, Round(DONE)],
    )


def cycle_of(length: int) -> Callable[[Random], Tale]:
    """Return a teller of a tale whose rounds come in a cycle of that length."""

    def tell(rng: Random) -> Tale:
        project, noise = pick_project(rng), Noise(rng)
        failure = draw_failure(project, rng)
        tour = look_around(project, rng, 11)[1:]
        rng.shuffle(tour)
        commands = [f"{project.lint}", "git diff --stat", "cat CHANGELOG.md", "git stash list"]
        extra = [
            Round("A look at the rest.", [shell(command, f"see {line_of(project, rng).strip()}")])
            for command in commands
        ]
        ring = (tour + extra)[: length - 1]

        def make(n: int) -> Round:
            place = n % length
            if place == length - 1:
                output = tested(project, [failure], 44, noise)
                return Round("And the tests.", [shell(project.test, output, 1)])
            return ring[place]

        before = look_around(project, rng, rng.randrange(2, 4))
        return repeat(bug(project, rng), before, make, rng, length)

    return tell


def routine_of(length: int) -> Callable[[Random], Tale]:
    """Return a teller of the same routine for one module after the other."""

    def tell(rng: Random) -> Tale:
        project, noise = pick_project(rng), Noise(rng)
        rounds: list[Round] = look_around(project, rng, 2)
        for module in rng.sample(project.modules, max(2, min(9, 34 // length))):
            path, content = project.path(module), source(project, module, rng, 5)
            old = content.split("\n")[-2]
            steps = [
                Round("Next module.", [read(path, content)]),
                Round("", [edit(path, old, line_of(project, rng))], note=f"{module} is done."),
                Round("", [shell(project.lint, "All checks passed!")]),
                Round("", [shell(project.build, f"finished in {noise.seconds()}s")]),
                Round("", [shell(f"git commit -qam 'Move {module}'", "")]),
                Round("", [shell("git status -s", "")]),
                Round("", [shell(f"wc -l {path}", f"{rng.randrange(20, 400)} {path}")]),
                Round("", [shell("git log -1 --format=%s", f"Move {module}")]),
                Round("", [shell(f"{project.test} {module}", tested(project, [], 12, noise))]),
                Round("", [write(f"notes/{module}.md", line_of(project, rng))]),
                Round("", [shell("ls notes | wc -l", str(rng.randrange(3, 40)))]),
                Round("", [shell(f"git add notes/{module}.md", "")]),
                Round("", [shell("git commit -qm 'Add a note'", "")]),
                Round("", [shell("git push -q", "")]),
            ]
            rounds += steps[:length]
        return Tale(
            f"Move all modules of {project.name} to the new layout.", [*rounds, Round(DONE)]
        )

    return tell


def same_todos(rng: Random) -> Tale:
    project = pick_project(rng)
    steps = [f"Change the {noun} in {module}" for noun, module in
             zip(project.nouns, project.modules, strict=False)]  # fmt: skip
    todos = [{"content": step, "status": "in_progress" if n == 1 else "pending"}
             for n, step in enumerate(steps)]  # fmt: skip
    result = "Todos have been modified successfully. Go on with the current tasks."

    def make(n: int) -> Round:
        said = ("Let me update the plan.", "First I'll organise the tasks.")[n % 2]
        return Round(said, [Deed("TodoWrite", {"todos": todos}, result)], note="Planned.")

    return repeat(bug(project, rng), look_around(project, rng, rng.randrange(2, 6)), make, rng)


def todos_that_advance(rng: Random) -> Tale:
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    result = "Todos have been modified successfully. Go on with the current tasks."
    for now in range(len(project.modules)):
        todos = [
            {"content": f"Change {module}",
             "status": ("completed", "in_progress", "pending")[(n >= now) + (n > now)]}
            for n, module in enumerate(project.modules)
        ]  # fmt: skip
        path = project.path(project.modules[now])
        rounds.append(Round("", [Deed("TodoWrite", {"todos": todos}, result)]))
        rounds.append(
            Round(
                "",
                [edit(path, line_of(project, rng), line_of(project, rng))],
                note=f"Changed {project.modules[now]}.",
            )
        )
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    ringed = {2: "claude-code mini-swe-agent", 3: "codex roo", 5: "opencode openhands",
              9: "claude-code gemini-cli", 14: "codex swe-agent"}  # fmt: skip
    plain = {2: "opencode", 3: "claude-code cline", 5: "codex gemini-cli", 9: "openhands roo",
             14: "claude-code mini-swe-agent"}  # fmt: skip
    found = [
        *cases_of("test-edit", "same", same_red,
                  "claude-code codex gemini-cli cline openhands swe-agent-text", **loop,
                  difficulty="hard"),
        *cases_of("test-edit", "fewer", fewer_red, "claude-code codex mini-swe-agent opencode"),
        *cases_of("test-edit", "other", other_red, "gemini-cli openhands swe-agent"),
        *cases_of("test-edit", "late", late_green, "claude-code cline codex", difficulty="hard"),
        *cases_of("edit-revert", "ping-pong", there_and_back, "claude-code codex opencode roo",
                  **loop),
        *cases_of("edit-revert", "tuning", tuning, "claude-code codex gemini-cli openhands",
                  difficulty="hard"),
        *cases_of("own-words", "polish", polishing, "claude-code opencode gemini-cli", **loop,
                  difficulty="hard"),
        *cases_of("own-words", "callers", same_words_new_files, "claude-code codex goose",
                  difficulty="hard"),
        *cases_of("todos", "same", same_todos, "claude-code opencode", **loop, difficulty="easy"),
        *cases_of("todos", "advance", todos_that_advance, "claude-code opencode"),
    ]  # fmt: skip
    for length, harnesses in ringed.items():
        level = "hard" if length > 5 else "medium"
        found += cases_of(f"cycle-{length}", "ring", cycle_of(length), harnesses, is_loop=True,
                          difficulty=level)  # fmt: skip
        found += cases_of(f"cycle-{length}", "routine", routine_of(length), plain[length],
                          difficulty=level)  # fmt: skip
    return found
