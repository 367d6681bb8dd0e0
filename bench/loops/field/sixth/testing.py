"""Tests and builds: failures that stay, runs that tell nothing new."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import HALF, NOUNS, Project, Voice, do, quiet


@HALF.template("same-failure", "claude-code codex swe-agent", "nearer found", difficulty="medium")
def change_without_effect(run: Run, way: str) -> None:
    """One small change after the other, and the test fails with the same words."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    at = run.num(0, 7)
    path, got = project.path(at), f"{at * 3 + run.num(1, 2)}.{run.num(1, 9)}0"
    chat.user(
        f"{project.case(at)} fails on main. Find out why and mend {project.name}. The test itself "
        "is right."
    )
    project.survey(chat, 5, 8, at)
    say = Voice(
        run,
        "<^edit>[Let me|I'll] [try|change] the [rounding|comparison|limit|order of these lines].",
        "<^edit>[Found it|I see the problem|This must be it]: the [age|limit|id] check is "
        "[wrong|off].",
        "<^edit>[Still|It still] [failing|fails]. [Maybe|Perhaps] it's the [rate|filter|boundary].",
        "<^sh>[Now|OK now] the test should [pass|be green].",
        "<^sh>[Let me|I'll] [run|rerun] the test [again|to confirm|now].",
        "<^edit>[Hmm|Interesting], [same|the same] [result|value]. [Trying|Let me try] "
        "[another|a new] way.",
        first="[I think|It seems] the filter is wrong.",
    )
    command = project.only(at)
    lines = project.body(at).split("\n")
    if way in (LOOP, "found"):
        for number in range(run.num(9, 14) if way == LOOP else 3):
            if number == 2:
                run.begin()
            old, new = run.chance.choice(project.variants(at))
            place = project.body(at).split("\n").index(old)
            if lines[place] == new:
                new = old
            do(chat, say, edit(path, lines[place], new))
            lines[place] = new
            out = project.failed([at], got, total=9)
            do(chat, say, sh(command, out, code=1, takes=run.dec(1, 6)))
            if run.chance.random() < 0.15:
                text = project.source(at).replace(project.body(at), "\n".join(lines))
                do(chat, say, read(path, text))
        if way == LOOP:
            return
        chat.act("Where do the items come from?", project.reading(at + 3))
        chat.act("What makes them filters too early.", project.change(at + 3))
        quiet(chat, sh(command, project.passed(9), takes=run.dec(1, 6)))
        project.work(chat, run.num(8, 14), at + 4)
        chat.say(f"The cause was in {project.path(at + 3)}; all tests pass.")
        return
    failing = [*[place for place in range(9) if place != at][: run.num(6, 8)], at]
    while failing:
        do(chat, say, project.change(failing[0]))
        if run.chance.random() < 0.25:
            same = project.failed(failing, total=42)
            do(chat, say, sh(project.command, same, code=1, takes=run.dec(3, 6)))
            do(chat, say, project.reading(failing[0]))
            do(chat, say, project.change(failing[0]))
        failing.pop(0)
        out = project.failed(failing, total=42) if failing else project.passed(42)
        do(chat, say, sh(project.command, out, code=bool(failing), takes=run.dec(3, 6)))
    chat.say("The cause was the filter that they all copy; all tests pass.")


@HALF.template("rerun", "codex claude-code qwen-code", "flake matrix", difficulty="hard")
def tests_run_again(run: Run, way: str) -> None:
    """The suite is run with other flags again and again, and nothing is changed between."""
    project = Project(run, "py")
    chat = run.chat()
    project.earlier(chat)
    at = run.num(0, 7)
    case = project.case(at)
    times = run.num(18, 26)
    chat.user(
        {
            LOOP: f"CI says that {case} fails. Fix it.",
            "flake": f"{case} fails now and then. Run it {times} times, one by one with another "
            "seed each, and tell me how often and with which seeds it fails. Change nothing.",
            "matrix": f"{case} fails in some set-ups of our matrix. Run the suite with each "
            "Python and each version of the driver, and fix what you find.",
        }[way]
    )
    project.survey(chat, 3, 6, at)
    say = Voice(
        run,
        "[Let me|I'll] [run|rerun] [it|the test] [with more detail|again|verbosely|once more].",
        "[Let me|I'll] [get|see] the [full|whole] [traceback|output|error].",
        "[Next|Another] run.",
        "<-vv|tb=>[I need|I want] to [see|understand] [exactly why it fails|the failure] "
        "[better|first].",
        "<^sh>[Running|Let me run] [only this test|just the one|it in isolation].",
        empty=0.35,
    )
    if way == LOOP:
        flags = (
            "pytest -x {}",
            "pytest -q {}",
            "pytest -vv {}",
            "pytest {} --tb=short",
            "pytest {} --tb=long -vv",
            "python -m pytest {} -s",
            "pytest {} -x --no-header -p no:cacheprovider",
            "cd /srv/work && pytest {} 2>&1 | tail -40",
        )
        for number in range(run.num(17, 30)):
            if number == 3:
                run.begin()
            command = run.chance.choice(flags).format(case)
            out = project.failed([at], total=1)
            do(chat, say, sh(command, out, code=1, takes=run.dec(0.8, 4)))
        return
    if way == "flake":
        fails = []
        for number in range(times):
            seed = run.num(1, 99999)
            bad = run.chance.random() < 0.2
            fails += [seed] * bad
            out = project.failed([at], total=1) if bad else f".\n1 passed in {run.dec(0.4, 2)}s"
            out = f"Using --randomly-seed={seed}\n{out}"
            command = f"pytest -q -p randomly --randomly-seed={seed} {case}"
            words = ("", "Next.", "Another run.", f"Seed {seed}.", f"Run {number + 1} of {times}.")
            text = run.pick(*words)
            chat.act(text, sh(command, out, code=bad, takes=run.dec(1, 3)))
        chat.say(f"{len(fails)} of {times} runs failed, with the seeds {fails}.")
        return
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        for driver in run.some(("psycopg 3.1", "psycopg 3.2", "asyncpg 0.29", "asyncpg 0.30"), 3):
            tox = f"tox -e py{version.replace('.', '')}-{driver.replace(' ', '')} -- -q"
            bad = run.chance.random() < 0.35
            where = [run.num(0, 8)]
            out = project.failed(where) if bad else project.passed()
            text = f"py{version} with {driver}" if run.chance.random() < 0.4 else ""
            chat.act(text, sh(tox, f"{out}\n  {driver}: took {run.dec(9, 40)}s", bad, 20.0))
            if bad:
                chat.act(f"{driver} differs here.", project.change(where[0]))
                quiet(chat, sh(tox, project.passed(), takes=19.0))
    chat.say("All cells of the matrix pass.")


@HALF.template("import", "mini-swe-agent openhands responses-kept", "next venv", difficulty="easy")
def package_in_another_python(run: Run, way: str) -> None:
    """A package is installed, and the interpreter that runs the tests does not see it."""
    project = Project(run, "py")
    chat = run.chat()
    project.earlier(chat)
    packages = run.some(
        [
            "orjson",
            "freezegun",
            "pydantic-settings",
            "structlog",
            "httpx",
            "tenacity",
            "boto3",
            "sqlalchemy",
            "redis",
            "respx",
            "faker",
            "hypothesis",
            "jinja2",
            "croniter",
            "pytest-mock",
            "typer",
        ],
        9,
    )
    chat.user(f"Set up {project.name} in this container and get its test suite to run.")
    project.survey(chat, 3, 5)
    say = Voice(
        run,
        "<pip3? install|-m pip install>[Let me|I'll] install [it|the package|the missing module].",
        "<pytest -q>[It is|It's] [already installed|there]. [Let me|I'll] [try|run] the tests "
        "[again|now].",
        "<pip install>[Still|It still] [cannot be imported|is not found]. [Let me|I'll] "
        "[reinstall|force it].",
        "<show|list>[Let me|I'll] check [where it is installed|that it is installed].",
        "<pip.* (-U|--user)>[Perhaps|Maybe] [upgrading|reinstalling|a user install] [helps|will "
        "do it].",
    )

    first = Voice(run, "[Let me|I'll] run the tests [once|first] [to see what is missing|].")

    def missing(package: str) -> str:
        module = package.replace("-", "_")
        return (
            f"ImportError while loading conftest '/srv/work/tests/conftest.py'.\n"
            f"tests/conftest.py:{run.num(3, 3) + 4}: in <module>\n    import {module}\n"
            f"E   ModuleNotFoundError: No module named '{module}'"
        )

    one = packages[0]
    site = "/usr/local/lib/python3.12/site-packages"
    if way != "next":
        ways = (
            (f"pip install {one}", f"Requirement already satisfied: {one} in {site}"),
            (f"pip3 install -U {one}", f"Requirement already satisfied: {one} in {site}"),
            (f"pip show {one}", f"Name: {one}\nVersion: 2.{len(one)}.1\nLocation: {site}"),
            (f"python3 -m pip install {one}", f"Requirement already satisfied: {one} in {site}"),
            (f"pip install --user {one}", f"Requirement already satisfied: {one} in {site}"),
            (f"pip list | grep -i {one}", f"{one}      2.{len(one)}.1"),
        )
        do(chat, first, sh("pytest -q", missing(one), code=4, takes=run.dec(0.5, 2)))
        for number in range(run.num(10, 15) if way == LOOP else 3):
            command, out = run.chance.choice(ways)
            if number == 2:
                run.begin()
            do(chat, say, sh(command, out, takes=run.dec(0.7, 3)))
            do(chat, say, sh("pytest -q", missing(one), code=4, takes=run.dec(0.5, 2)))
        if way == LOOP:
            return
        chat.act(
            "Which Python runs the tests?", sh("head -1 $(which pytest)", "#!/opt/ci/bin/python")
        )
        done = f"Successfully installed {one}-3.{run.num(0, 9)}.1"
        chat.act("Another one.", sh(f"/opt/ci/bin/python -m pip install {one}", done, takes=3.0))
        quiet(chat, sh("pytest -q", project.failed([1, 4]), code=1, takes=7.0))
        project.work(chat, run.num(8, 14), 1)
        chat.say("The suite runs, in the interpreter of /opt/ci.")
        return
    for package in packages[: run.num(6, 9)]:
        do(chat, say, sh("pytest -q", missing(package), code=4, takes=run.dec(0.5, 2)))
        size, version = run.num(40, 900), f"{run.num(1, 4)}.{run.num(0, 30)}.{run.num(0, 9)}"
        out = (
            f"Collecting {package}\n  Downloading {package}-{version}-py3-none-any.whl "
            f"({size} kB)\nInstalling collected packages: {package}\n"
            f"Successfully installed {package}-{version}"
        )
        do(chat, say, sh(f"pip install {package}", out, takes=run.dec(2, 9)))
    quiet(chat, sh("pytest -q", project.failed([2, 5]), code=1, takes=7.0))
    chat.act(
        "The suite runs; two real failures are left.", read(project.path(2), project.source(2))
    )
    chat.say("The suite runs now. Two tests fail for reasons of their own.")


@HALF.template("type-errors", "opencode codex cline", "falling", difficulty="hard")
def errors_that_trade_places(run: Run, way: str) -> None:
    """One type error is cured by a cast that causes another, whose cure brings back the first."""
    project = Project(run, "ts")
    chat = run.chat()
    project.earlier(chat)
    a, b = run.some(range(9), 2)
    word = project.words[a].title()
    chat.user(f"`npx tsc --noEmit` reports errors in {project.name}. Fix them all; no `any`.")
    project.survey(chat, 4, 7, a)
    kinds = (
        f"error TS2345: Argument of type '{word} | undefined' is not assignable to parameter of "
        f"type '{word}'.",
        f"error TS2322: Type '{word}' is not assignable to type '{word} & {{ id: string }}'.",
        f"error TS18048: 'item.{project.words[b]}' is possibly 'undefined'.",
        "error TS2532: Object is possibly 'undefined'.",
        f"error TS2339: Property '{project.words[b]}Id' does not exist on type '{word}'.",
        "error TS7006: Parameter 'item' implicitly has an 'any' type.",
    )
    say = Voice(
        run,
        "<^edit>[Let me|I'll] [make it optional|add the type|narrow the type] [in the "
        "entity|here].",
        "<^edit>[Now|OK], [a different|another] error. [Let me|I'll] [fix|address] [that|it].",
        "<^sh>[Let me|I'll] [run|check with] tsc [again|now].",
        "<^sh>[That|This] [should|ought to] [do it|satisfy the compiler].",
        "<^edit>[The|This] [cast|optional field] [caused|brings] [this|a new one]. "
        "[Adjusting|I'll adjust].",
        first="[I'll|Let me] begin with the first.",
    )
    if way == LOOP:
        spots = [(project.path(a), run.num(9, 60)), (project.path(b), run.num(9, 60))]
        text = f"  {project.words[b]}: {word};"
        forms = (text, text.replace(":", "?:"))
        for number in range(run.num(9, 14)):
            if number == 2:
                run.begin()
            path, row = spots[number % 2]
            do(chat, say, edit(spots[0][0], forms[number % 2], forms[1 - number % 2]))
            out = (
                f"{path}({row},{row % 9 + 5}): {kinds[number % 2]}\n\nFound 1 error in {path}:{row}"
            )
            do(chat, say, sh("npx tsc --noEmit", out, code=2, takes=run.dec(4, 9)))
        return
    errors = [
        (project.path(run.num(0, 8)), run.num(9, 140), run.pick(*kinds)) for _ in run.times(11, 17)
    ]
    while errors:
        path, row, _ = errors[0]
        if run.chance.random() < 0.3:
            do(chat, say, read(path, project.source(project.words.index(path.split("/")[1]))))
        old = f"  {run.pick(*NOUNS)}: {word};"
        do(
            chat,
            say,
            edit(
                path,
                old,
                old.replace(";", run.pick(" | null;", " | undefined;", "[];", " | string;")),
            ),
        )
        gone = run.num(1, 3)
        errors = errors[gone:]
        if run.chance.random() < 0.25:
            errors.insert(0, (project.path(run.num(0, 8)), run.num(9, 140), run.pick(*kinds)))
        out = "\n".join(f"{at}({line},{line % 9 + 5}): {kind}" for at, line, kind in errors[:6])
        total = f"\n\nFound {len(errors)} errors." if errors else ""
        text = say()
        chat.act(text, sh("npx tsc --noEmit", out + total, 2 * bool(errors), run.dec(4, 9)))
    chat.say("tsc reports nothing any more.")
