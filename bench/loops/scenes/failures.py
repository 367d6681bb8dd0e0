"""Coding agents whose commands and edits fail: in a loop, or on the way to success."""

from __future__ import annotations

from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Run, Turn, edit, read, shell, write
from bench.loops.scenes.scene import end, look_around, more, task
from bench.loops.scenes.world import Code, hexes

_FAILING = {
    "typescript": (
        "npm run build",
        "> {p}@1.4.0 build\n> tsc -p .\n\nsrc/index.ts(12,8): error "
        "TS2307: Cannot find module '@{p}/shared' or its corresponding type declarations.",
    ),
    "python": (
        "alembic upgrade head",
        "sqlalchemy.exc.OperationalError: (psycopg2.OperationalError) "
        'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection '
        "refused\n(Background on this error at: https://sqlalche.me/e/20/e3q8)",
    ),
    "rust": (
        "cargo build --release",
        "   Compiling {p}-sys v0.3.1\nerror: linker `cc` not found\n"
        "  |\n  = note: No such file or directory (os error 2)\n\nerror: could not compile",
    ),
    "go": (
        "go build ./...",
        "go: example.com/{p}/core@v1.2.0: reading https://proxy.example.com/{p}: "
        "403 Forbidden (request {h})",
    ),
}
_ANYWHERE = (
    (
        "docker compose up -d db",
        "Error response from daemon: driver failed programming external "
        "connectivity on endpoint {p}-db-1 ({h}): Bind for 0.0.0.0:5432 failed: port is already "
        "allocated",
    ),
    (
        "git push origin HEAD",
        "remote: Permission to {p}/{p}.git denied to ci-bot.\nfatal: unable to "
        "access 'https://git.example.com/{p}/{p}.git/': The requested URL returned error: 403",
    ),
)


def same_failure(rng: Random) -> list[Run]:
    """The same command fails to the letter; or the error is another one, or waits help."""
    code = Code(rng)
    command, error = rng.choice((_FAILING[code.language], *_ANYWHERE))
    about, wanted, parrot = f"`{command}`", task(rng, code), rng.random() < 0.3

    def attempt(voice: Voice, shown: str = "", wait: float = 1) -> Turn:
        text = shown or error.format(p=code.project, h=hexes(rng, 12))
        return Turn(voice("retry", about), (shell(command, text, 1),), wait=wait)

    voice = Voice(rng, parrot=parrot)
    start = look_around(rng, code, voice)
    loop = start + [attempt(voice) for _ in range(more(rng) + 1)]
    runs = [Run(wanted, loop, len(start) + 1, difficulty="easy")]

    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for at in range(rng.randint(4, 8)):
        path = code.files[at]
        honest.append(attempt(voice, f"error: {path}:{at + 3}: unknown name {code.functions[at]}"))
        honest.append(Turn(voice("read", path), (read(path, code.source(at)),)))
        honest.append(Turn(voice("edit", path), (edit(path, *code.change(at, at)),)))
    honest.append(Turn(voice("run", about), (shell(command, "done"),)))
    runs.append(Run(wanted, [*honest, end(rng, f"{about} works again")]))
    voice = Voice(rng)
    second = look_around(rng, code, voice)
    second += [attempt(voice, wait=60 * 2**at) for at in range(3)]
    second.append(Turn(voice("retry", about), (shell(command, "done"),)))
    return [*runs, Run(wanted, [*second, *_work(rng, code, voice, rng.randint(4, 9))])]


def _work(rng: Random, code: Code, voice: Voice, rounds: int) -> list[Turn]:
    """Return work that gets on: a file is read and changed, and tests are run."""
    turns: list[Turn] = []
    left = rounds
    for at in range(rounds):
        path = code.files[at % 8]
        turns.append(Turn(voice("read", path), (read(path, code.source(at, at)),)))
        turns.append(Turn(voice("edit", path), (edit(path, *code.change(at, at)),)))
        left -= 1
        report = code.report(code.functions[: min(left, 8)], 40)
        turns.append(
            Turn(voice("run", "the tests"), (shell(code.test_command, report, int(left > 0)),))
        )
    return [*turns, end(rng, f"the change to {code.functions[0]} is in, and the tests pass")]


_FLAGS = (
    "--no-cache-dir --user --upgrade --verbose --force-reinstall --no-deps --pre --isolated "
    "--prefer-binary --no-build-isolation --use-pep517 --no-input"
).split()


def variants(rng: Random) -> list[Run]:
    """The same failing call with other flags and paths; or each failure is another one."""
    code = Code(rng)
    package = f"{code.project}-{rng.choice(code.nouns)}"
    error = (
        f"ERROR: Could not find a version that satisfies the requirement {package} (from versions: "
        f"none)\nERROR: No matching distribution found for {package}"
    )
    voice, wanted = Voice(rng), f"Get the tests running. They need the package {package}."
    start = look_around(rng, code, voice)
    loop = list(start)
    for _ in range(more(rng) + 1):
        flags = " ".join(rng.sample(_FLAGS, rng.randint(0, 3)))
        tool = rng.choice(("pip install", "pip3 install", "python -m pip install"))
        name = rng.choice((package, f"'{package}'", package.replace("-", "_"), package))
        command = " ".join(f"{tool} {flags} {name}".split())
        loop.append(Turn(voice("retry", "the installation"), (shell(command, error, 1),)))
    runs = [Run(wanted, loop, len(start) + 1)]

    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for noun in code.nouns:
        missing = f"ModuleNotFoundError: No module named '{code.project}_{noun}'"
        honest.append(Turn(voice("run", "the tests"), (shell(code.test_command, missing, 1),)))
        install = f"pip install {code.project}-{noun}"
        output = f"Successfully installed {code.project}-{noun}-{rng.randint(1, 9)}.0"
        honest.append(Turn(voice("do", f"{code.project}-{noun}"), (shell(install, output),)))
    honest.append(Turn(voice("run", "the tests"), (shell(code.test_command, code.report([], 31)),)))
    return [*runs, Run(wanted, [*honest, end(rng, "all dependencies are installed")])]


def same_error(rng: Random) -> list[Run]:
    """Whatever is tried, the error is the same; or each place is another one, and one is right."""
    code = Code(rng)
    if rng.random() < 0.5:
        error = (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker "
            "daemon running?"
        )
        tries = [f"docker {verb}" for verb in ("ps", "info", "version", "images", "ps -a")]
        tries += [
            f"docker {verb} {code.project}-{noun}"
            for noun in code.nouns
            for verb in ("inspect", "start", "logs", "restart")
        ]
    else:
        error = "bash: cannot create temp file for here-document: No space left on device"
        tries = [
            f"cat > check_{n}.sh <<'EOF'\ngrep -n {v} {f}\nEOF"
            for n, f in zip(code.nouns, code.files, strict=True)
            for v in code.verbs
        ]
    wanted = task(rng, code)
    voice = Voice(rng)
    start = look_around(rng, code, voice)
    order = rng.sample(tries, min(len(tries), more(rng) + 2))
    loop = start + [Turn(voice("retry", "this"), (shell(one, error, 1),)) for one in order]
    runs = [Run(wanted, loop, len(start) + 2, difficulty="hard")]

    voice = Voice(rng)
    honest = look_around(rng, code, voice) + [
        Turn(
            voice("search", f"the settings of {noun}"),
            (
                shell(
                    f"cat /etc/{code.project}/{noun}.conf",
                    f"cat: /etc/{code.project}/{noun}.conf: No such file or directory",
                    1,
                ),
            ),
        )
        for noun in code.nouns
    ]
    found = shell(f"cat /opt/{code.project}/conf.d/main.conf", "listen = 8080\nworkers = 4")
    honest += [Turn(voice("search", "it under /opt"), (found,))]
    honest += _work(rng, code, voice, rng.randint(3, 6))
    first = [Turn(voice("retry", "this"), (shell(one, error, 1),)) for one in order[:3]]
    repaired = shell(
        "sudo /usr/local/bin/repair-host && df -h / | tail -1", "/dev/vda1 40G 12G 28G"
    )
    voice = Voice(rng)
    second = look_around(rng, code, voice) + first
    second += [Turn(voice("do", "the host itself"), (repaired,))]
    second += [Turn(voice("retry", "this"), (shell(one, "ok"),)) for one in order[:3]]
    second += _work(rng, code, voice, rng.randint(3, 6))
    return [*runs, Run(wanted, honest, difficulty="hard"), Run(wanted, second)]


def edit_missing(rng: Random) -> list[Run]:
    """An edit whose old text is not in the file, again and again; or it is read, and then lands."""
    code = Code(rng)
    wanted = task(rng, code)
    path, old = code.files[0], code.source(0).splitlines()[-1]
    voice = Voice(rng)
    start = [*look_around(rng, code, voice), Turn("", (read(path, code.source(0)),))]
    loop = list(start)
    for _ in range(more(rng) + 1):
        guess = rng.choice(("", "    ", "\t")) + old.strip().replace("l", rng.choice("lL"))
        guess += rng.choice((" ", "", "\n", ";"))
        error = f"String to replace not found in file.\nString: {guess}"
        loop.append(
            Turn(
                voice("retry", f"the edit of {path}"), (edit(path, guess, "return limited", error),)
            )
        )
    runs = [Run(wanted, loop, len(start) + 1)]
    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for at in range(rng.randint(5, 8)):
        path, text = code.files[at], code.source(at)
        line = text.splitlines()[-1]
        for wrong in [line.upper(), line + " "][: rng.randint(0, 2)]:
            error = f"String to replace not found in file.\nString: {wrong}"
            honest.append(Turn(voice("edit", path), (edit(path, wrong, "limited", error),)))
        honest.append(Turn(voice("read", path), (read(path, text),)))
        honest.append(Turn(voice("edit", path), (edit(path, line, line + "  # limited"),)))
    honest.append(Turn(voice("run", "the tests"), (shell(code.test_command, code.report([], 40)),)))
    return [*runs, Run(wanted, [*honest, end(rng, "the limit is passed everywhere")])]


def _tested(code: Code, voice: Voice, change: Turn, failed: list[str], why: str) -> list[Turn]:
    report = shell(code.test_command, code.report(failed, 24, why), int(bool(failed)))
    return [change, Turn(voice("run", "the tests"), (report,))]


def revert(rng: Random) -> list[Run]:
    """One change breaks one test, its reversal another, and so on; or each value is a new one."""
    code = Code(rng)
    wanted = task(rng, code)
    path = code.files[0]
    one, other = code.limit(0, 10), code.limit(0, rng.randint(31, 60))
    voice = Voice(rng)
    loop = start = look_around(rng, code, voice)
    for at in range(more(rng) // 2 + 2):
        old, new = (one, other) if at % 2 == 0 else (other, one)
        change = Turn(voice("edit", path), (edit(path, old, new),))
        loop = loop + _tested(code, voice, change, [code.functions[at % 2]], f"got {at % 2}")
    runs = [Run(wanted, loop, len(start) + 4, difficulty="hard")]
    voice = Voice(rng)
    honest, low, high, old = look_around(rng, code, voice), 0, 4096, one
    goal = rng.randint(100, 4000)
    while high - low > 1:
        middle = (low + high) // 2
        new = code.limit(0, middle)
        change = Turn(voice("edit", "the limit"), (edit(path, old, new),))
        why = f"queue overflowed at {middle}"
        honest += _tested(code, voice, change, code.functions[:1] if middle > goal else [], why)
        low, high, old = (low, middle, new) if middle > goal else (middle, high, new)
    return [*runs, Run(wanted, [*honest, end(rng, f"the largest safe limit is {low}")])]


def unmoved(rng: Random) -> list[Run]:
    """Changes and tests in turn, and the report never moves; or it moves slowly."""
    code = Code(rng)
    wanted, path = task(rng, code), code.files[0]
    is_plain = rng.random() < 0.5
    failed, why = code.functions[:2], f"expected {rng.randint(3, 9)}, got 2"
    voice = Voice(rng)
    loop = start = look_around(rng, code, voice)
    styles = [f"{code.comment} {text}" for text in ("keep the order", "limit first", "see below")]
    for at in range(more(rng) // 2 + 4):
        old, new = styles[(at + 2) % 3], styles[at % 3]
        if not is_plain:
            old, new = f"{old} ({at})", f"{new} ({at + 1})"
        change = Turn(voice("edit", f"the comment in {path}"), (edit(path, old, new),))
        loop = loop + _tested(code, voice, change, failed, why)
    runs = [Run(wanted, loop, len(start) + 6, difficulty="medium" if is_plain else "hard")]
    voice = Voice(rng)
    honest, left, at = look_around(rng, code, voice), 8, 0
    while left > 0:
        left, at = left - rng.choice((0, 1, 1)), at + 1
        path = code.files[at % 8]
        change = Turn(voice("edit", path), (edit(path, *code.change(at, at)),))
        honest += _tested(
            code, voice, change, code.functions[:left], f"expected {at + 2}, got {at}"
        )
    return [*runs, Run(wanted, [*honest, end(rng, "all tests pass")], difficulty="hard")]


def script(rng: Random) -> list[Run]:
    """A script is written again with the same mistake and run; or it is written for each table."""
    code = Code(rng)
    wanted = f"Write a script that loads the {code.nouns[0]}s of last year into the database."
    text = f"import csv\nfor row in csv.reader(open('{code.nouns[0]}.csv')):\n    insert(row[9])\n"
    error = 'Traceback (most recent call last):\n  File "/work/app/load.py", line 3, in <module>\n'
    error += "    insert(row[9])\nIndexError: list index out of range"
    voice = Voice(rng)
    start = look_around(rng, code, voice)
    loop = list(start)
    for at in range(more(rng) // 2 + 2):
        words = text + (f"# attempt {at}\n" if rng.random() < 0.5 else "")
        loop += [
            Turn(voice("edit", "load.py"), (write("load.py", words),)),
            Turn(voice("run", "the script"), (shell("python load.py", error, 1),)),
        ]
    runs = [Run(wanted, loop, len(start) + 2)]
    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for noun in code.nouns:
        name = f"load_{noun}.py"
        honest += [
            Turn(voice("edit", name), (write(name, text.replace(code.nouns[0], noun)),)),
            Turn(
                voice("run", name),
                (shell(f"python {name}", f"{rng.randint(100, 9000)} rows loaded"),),
            ),
        ]
    return [*runs, Run(wanted, [*honest, end(rng, "all tables are loaded")])]


PLOTS = (
    Plot("same_failure", same_failure, "claude_code codex gemini_cli/trimmed cline mini_swe_agent"),
    Plot("variants", variants, "opencode codex swe_agent/elided openhands"),
    Plot("same_error", same_error, "claude_code mini_swe_agent gemini_cli codex/trimmed"),
    Plot("edit_missing", edit_missing, "claude_code/elided cline opencode openhands"),
    Plot("revert", revert, "codex claude_code swe_agent gemini_cli"),
    Plot("unmoved", unmoved, "openhands codex opencode/elided claude_code mini_swe_agent"),
    Plot("script", script, "gemini_cli cline/trimmed swe_agent codex"),
)
