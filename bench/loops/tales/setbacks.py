"""Tales of coding agents that meet an obstacle: failing commands, edits, tools and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from bench.loops.tales.coding import DONE, bug, repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import retry
from bench.loops.tales.projects import (
    draw_failure,
    line_of,
    look_around,
    pick_project,
    source,
    tested,
)
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of, edit, find, read, shell

FAILURES: Sequence[tuple[str, int, Callable[[Noise], str]]] = (
    (
        "npm run build",
        1,
        lambda n: (
            'npm error Missing script: "build"\nnpm error A complete log of this run is in: '
            f"/home/dev/.npm/_logs/{n.stamp().replace(':', '_')}-debug-0.log"
        ),
    ),
    (
        "docker compose up -d db",
        1,
        lambda n: (
            f'time="{n.stamp()}" level=warning msg="no project name"\nCannot connect to the '
            "Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
        ),
    ),
    (
        "python manage.py migrate",
        1,
        lambda n: (
            'Traceback (most recent call last):\n  File "db.py", line 88, in connect\n'
            f"OperationalError: <Connection at {n.address()}> refused by 127.0.0.1 port 5432 "
            f"(pid {n.pid()})"
        ),
    ),
    (
        "cargo fetch",
        101,
        lambda n: (
            "    Updating crates.io index\nwarning: spurious network error (2 tries left): "
            f"[28] Timeout was reached (failed to download any data within {n.rng.randrange(30000, 30999)} ms)\n"  # noqa: E501
            "error: failed to get `bytes` as a dependency"
        ),
    ),
    (
        "curl -sS http://localhost:8080/health",
        7,
        lambda n: (
            f"curl: (7) Failed to connect to localhost port 8080 after {n.rng.randrange(1, 9)} ms: "
            "Could not connect to server"
        ),
    ),
    (
        "make deploy",
        2,
        lambda n: (
            f"[{n.clock()}] deploy {n.hex(12)}: token expired\n"
            "make: *** [Makefile:31: deploy] Error 1"
        ),
    ),
)


def same_failure(rng: Random) -> Tale:
    project, noise = pick_project(rng), Noise(rng)
    command, code, output = rng.choice(FAILURES)
    return repeat(
        bug(project, rng),
        look_around(project, rng, rng.randrange(2, 11)),
        lambda _: Round(
            retry(rng),
            [shell(command, output(noise), code, rng.uniform(0.3, 12))],
            note=f"{command} fails.",
        ),
        rng,
    )


def failures_then_recovery(rng: Random) -> Tale:
    project, noise = pick_project(rng), Noise(rng)
    command, code, output = rng.choice(FAILURES)
    rounds = look_around(project, rng, 4)
    for _ in range(rng.randrange(3, 5)):
        rounds.append(Round("Trying again.", [shell(command, output(noise), code)]))
    rounds += [
        Round("It needs its setting first.", [read(".env", "MODE=local\nWAIT=3")]),
        Round("Switching the mode.", [edit(".env", "MODE=local", "MODE=service")]),
        Round("Once more.", [shell(command, f"ok, done in {noise.seconds()}s")], note="Repaired."),
    ]
    for module in rng.sample(project.modules, 7):
        old, new = line_of(project, rng), line_of(project, rng)
        rounds.append(Round(f"Now {module}.", [edit(project.path(module), old, new)]))
        rounds.append(Round("", [shell(command, f"ok, done in {noise.seconds()}s")]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def busy_then_free(rng: Random) -> Tale:
    """Six answers of 429, and then the download goes on, part by part."""
    project, noise = pick_project(rng), Noise(rng)
    command = "curl -sS https://registry.example.net/fixtures/part-{n}.json -o part.json -w '%{{http_code}}'"  # noqa: E501
    rounds = look_around(project, rng, 3)
    for part in range(1, 5):
        for _ in range(6 if part == 2 else 1 if part == 4 else 0):
            text = f"429 (retry after {rng.randrange(8, 40)}s, request {noise.hex(10)})"
            deed = shell(command.format(n=part), text, 22, 1.0)
            rounds.append(Round("Too many requests, waiting a little.", [deed], pause=30))
        rounds.append(Round("", [shell(command.format(n=part), "200")], note=f"Got part {part}."))
        fields = ", ".join(f"{noun}={rng.randrange(900)}" for noun in project.nouns)
        rounds.append(Round("What is in it?", [shell("jq -c keys part.json", fields)]))
    return Tale(
        "Download the four parts of the fixtures and tell what each holds.",
        [*rounds, Round("All four parts are there.")],
    )


def bent(line: str, number: int) -> str:
    """Return a line as a model remembers it: each time slightly wrong in another way."""
    bare = line.strip()
    ways = (
        f"  {bare}", f"    {bare} ", f"\t{bare}", f"{bare};", f"      {bare}", f"{bare}  # here",
        bare.replace("=", " = ").replace("  ", " "), bare.replace("(", "( "), bare + ",",
        f" {bare}\n", bare.replace(", ", ","), f"            {bare}",
    )  # fmt: skip
    return ways[number % len(ways)] + " " * (number // len(ways))


def failing_edits(rng: Random) -> Tale:
    project = pick_project(rng)
    module = rng.choice(project.modules)
    path = project.path(module)
    content, ghost = source(project, module, rng, 6), line_of(project, rng)
    new = line_of(project, rng)
    looks = rng.choice((0, 4))
    says = (
        "The text did not match; adjusting the indentation.",
        "Let me try with the exact whitespace.",
        "I'll use a smaller piece of context.",
        "Trying a slightly different match.",
    )

    def make(n: int) -> Round:
        if looks and n % looks == looks - 1:
            return Round("Let me check the file once more.", [read(path, content)])
        return Round(
            says[n % 4], [edit(path, bent(ghost, n), new, fails=True)], note="The edit fails."
        )

    before = [*look_around(project, rng, rng.randrange(2, 9)), Round("", [read(path, content)])]
    return repeat(bug(project, rng), before, make, rng, looks or 1)


def edits_that_match_late(rng: Random) -> Tale:
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for place, module in enumerate(rng.sample(project.modules, 6)):
        path, content = project.path(module), source(project, module, rng, 5)
        line = next(x for x in content.split("\n")[3:] if len(x) > 12)
        rounds.append(Round(f"Now {module}.", [read(path, content)]))
        for number in range(5 if place == 1 else 1 if place % 2 else 0):
            deed = edit(path, bent(line, number), line_of(project, rng), fails=True)
            rounds.append(Round("Not matched, once more.", [deed]))
        rounds.append(
            Round(
                "With the line as it is.",
                [edit(path, line, line_of(project, rng))],
                note=f"Changed {module}.",
            )
        )
        rounds.append(Round("", [shell(project.build, f"built {module}")]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


ERRORS = (
    "Error: sandbox {hex} is not running; the command was not started",
    "bash: fork: retry: Resource temporarily unavailable (pid {pid})",
    "exec failed: unable to start container process: read-only file system [req {hex}]",
    "Permission denied: this command was blocked by the policy of the workspace",
)


def any_error(rng: Random) -> Tale:
    """Whatever the agent tries, the same error comes back."""
    project, noise = pick_project(rng), Noise(rng)
    error = rng.choice(ERRORS)
    modules = list(project.modules)

    def make(n: int) -> Round:
        module = modules[n % len(modules)]
        path = project.path(module)
        command = (
            f"cat {path}", f"{project.test} {module}", f"sed -n 1,40p {path}", "ls -la", "whoami",
            f"{project.build}", f"head -50 {path}", f"mkdir -p /tmp/{module}", "env | sort",
            f"cp {path} /tmp/", "df -h", "pwd", f"wc -l {path}", "uname -a", "git stash list",
            f"find . -name '{module}*'", "id", f"tail -3 {path}", "echo ok", "git branch",
        )[n % 20]  # fmt: skip
        output = error.format(hex=noise.hex(12), pid=noise.pid())
        return Round(retry(rng), [shell(command, output, 1)], note="Commands fail.")

    return repeat(bug(project, rng), look_around(project, rng, rng.randrange(2, 8)), make, rng)


def silent_commands(rng: Random) -> Tale:
    """Different commands with the same empty output: each does its part."""
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for module in project.modules[:8]:
        path = project.path(module)
        a, b = rng.sample(project.nouns, 2)
        moved = path.replace(module, module + "_core")
        commands = (
            f"git mv {path} {moved}",
            f"sed -i 's/\\b{a}\\b/{a}_{b}/g' {moved}",
            f"git add -A {project.folder}",
        )
        rounds += [
            Round("", [shell(command, "")], note=f"Renamed {module}.") for command in commands
        ]
    rounds.append(Round("", [shell(project.build, "build finished")]))
    return Tale(f"Rename all modules of {project.name} to *_core.", [*rounds, Round(DONE)])


def errors_then_way_out(rng: Random) -> Tale:
    project, noise = pick_project(rng), Noise(rng)
    error = rng.choice(ERRORS[:3])
    rounds = look_around(project, rng, 3)
    for command in ("ls -la", f"{project.test}", "pwd", "env | sort", "df -h"):
        output = error.format(hex=noise.hex(12), pid=noise.pid())
        rounds.append(Round("Another way, then.", [shell(command, output, 1)]))
    rounds.append(Round("A new shell helps.", [shell("exec bash -l", "shell restarted")]))
    for module in rng.sample(project.modules, 8):
        failure = draw_failure(project, rng, module)
        output = tested(project, [failure], rng.randrange(20, 90), noise)
        old, new = line_of(project, rng), line_of(project, rng)
        rounds.append(Round(f"{module} first.", [shell(f"{project.test} {module}", output, 1)]))
        rounds.append(Round("", [edit(project.path(module), old, new)], note=f"Fixed {module}."))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def unknown_tool(rng: Random) -> Tale:
    project = pick_project(rng)
    names = rng.choice((("run_tests",), ("browse_repo", "open_file"), ("python", "repl", "exec")))
    target = rng.choice(project.modules)

    def make(n: int) -> Round:
        name = names[n % len(names)]
        error = f"Error: No such tool available: {name}"
        deed = Deed(name, {"target": target}, error, failed=True, is_unknown=True)
        return Round(("Running it now.", "", "Let me use the tool.")[n % 3], [deed])

    before = look_around(project, rng, rng.randrange(2, 7))
    return repeat(bug(project, rng), before, make, rng, len(names))


def unknown_then_known(rng: Random) -> Tale:
    project, noise = pick_project(rng), Noise(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for name in ("run_tests", "run_tests", "pytest"):
        error = f"Error: No such tool available: {name}"
        deed = Deed(name, {"target": "all"}, error, failed=True, is_unknown=True)
        rounds.append(Round("Running it now.", [deed]))
    for left in range(8, -1, -1):
        failures = [draw_failure(project, rng) for _ in range(left)]
        output = tested(project, failures, 60 - left, noise)
        rounds.append(Round("In the shell, then.", [shell(project.test, output, int(left > 0))]))
        path = project.path(rng.choice(project.modules))
        rounds.append(Round("", [edit(path, line_of(project, rng), line_of(project, rng))]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


def empty_searches(rng: Random) -> Tale:
    """Searches for the same thing under other names, none of which is there."""
    project = pick_project(rng)
    a, b = rng.sample(project.nouns, 2)
    joints = ("{a}_{b}", "{a}{b}", "{b}_{a}", "{a}-{b}", "{a}.*{b}", "{b}.*{a}", "get_{a}_{b}",
              "{a}_for_{b}", "{b}Of{a}", "to_{a}_{b}", "{a}_{b}s", "{a}_to_{b}", "my{a}{b}",
              "_{a}_{b}", "{a}By{b}", "{b}{a}")  # fmt: skip
    places = (".", project.folder, "tests", "docs", "scripts")

    def make(n: int) -> Round:
        pattern = joints[n % len(joints)].format(a=a, b=b)
        said = ("It may be named differently.", "Another spelling.", "")[n % 3]
        return Round(said, [find(pattern, places[n // len(joints) % 5], "")], note="No match.")

    return repeat(
        f"Where in {project.name} is the {a} of a {b} computed? Change it to whole numbers.",
        look_around(project, rng, rng.randrange(2, 8)),
        make,
        rng,
    )


def searches_that_find(rng: Random) -> Tale:
    """Many searches, half of them empty, that lead from one place to the next."""
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for module in project.modules:
        verb, noun = rng.choice(project.verbs), rng.choice(project.nouns)
        rounds.append(Round("", [find(f"import.*{module}.*{noun}", "tests", "")]))
        rounds.append(Round("Not in tests.", [find(f"{verb}.*{noun}", f"{project.folder}", "")]))
        hit = f"{project.path(module)}:{rng.randrange(3, 80)}:{line_of(project, rng)}"
        rounds.append(
            Round(
                "Here?",
                [find(f"{noun} ", project.path(module), hit)],
                note=f"{module} uses {noun}.",
            )
        )
    return Tale(
        f"List where each module of {project.name} keeps its state.",
        [*rounds, Round("The list is complete.")],
    )


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("same-failure", "shell", same_failure,
                  "claude-code codex gemini-cli swe-agent-text opencode goose", **loop),
        *cases_of("same-failure", "recovery", failures_then_recovery,
                  "claude-code codex openhands mini-swe-agent"),
        *cases_of("same-failure", "busy", busy_then_free, "opencode gemini-cli swe-agent",
                  difficulty="hard"),
        *cases_of("failing-edits", "bent", failing_edits,
                  "claude-code codex roo openhands mini-swe-agent gemini-cli", **loop),
        *cases_of("failing-edits", "late", edits_that_match_late,
                  "claude-code codex cline swe-agent roo"),
        *cases_of("any-error", "blocked", any_error, "claude-code codex swe-agent cline deepagents",
                  **loop, difficulty="hard"),
        *cases_of("any-error", "silent", silent_commands, "claude-code codex mini-swe-agent",
                  difficulty="hard"),
        *cases_of("any-error", "way-out", errors_then_way_out, "opencode openhands gemini-cli"),
        *cases_of("unknown-tool", "gone", unknown_tool, "claude-code opencode openhands gemini-cli",
                  **loop, difficulty="easy"),
        *cases_of("unknown-tool", "known", unknown_then_known,
                  "claude-code roo codex deepagents"),
        *cases_of("empty-search", "spellings", empty_searches, "claude-code codex opencode",
                  **loop, difficulty="hard"),
        *cases_of("empty-search", "trail", searches_that_find, "claude-code gemini-cli swe-agent",
                  difficulty="hard"),
    ]  # fmt: skip
