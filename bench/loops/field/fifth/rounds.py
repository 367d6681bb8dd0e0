"""Rounds that end where they began: two rules, two options, and polish on what shines."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, todo
from bench.loops.field.fifth.common import (
    FIELDS,
    HALF,
    Project,
    ask_to,
    bundle_log,
    earlier,
    idea,
    maybe,
    onward,
)
from bench.loops.field.fifth.repairs import open_both
from bench.loops.field.run import LOOP, Run

RULES = (
    ("line-too-long", "function-call-argument-newline"),
    ("prefer-const", "no-const-assign"),
    ("no-else-return", "consistent-return"),
    ("arrow-parens", "prettier/prettier"),
    ("sort-imports", "import/order"),
)


@HALF.template("ping-pong", "claude-code qwen-code mini-swe-agent", "shrinks")
def two_rules(run: Run, way: str) -> None:
    """Please one rule of a linter, then the other, which undoes it."""
    project = Project(run, "ts")
    chat = run.chat()
    earlier(run, chat, project)
    chat.user(ask_to(run, f"get `npm run lint` of {project.name} to exit with 0."))
    first, second = run.pick(*RULES)
    count = run.num(11, 14)

    def report(rows: list[tuple[str, int, str]]) -> str:
        head = f"> {project.name}@2.{count}.0 lint\n> eslint . --max-warnings 0\n"
        body = "".join(
            f"\n/srv/work/{path}\n  {line}:{line % 7 + 3}  error  {about_rule(rule)}  {rule}\n"
            for path, line, rule in rows
        )
        tail = f"\n✖ {len(rows)} problem(s), {len(rows)} of them errors" if rows else ""
        return f"{head}{body}{tail}\nDone in {run.dec(2, 6)}s."

    def about_rule(rule: str) -> str:
        return rule.replace("-", " ").replace("/", ": ").capitalize() + " violated"

    rows = [(project.path(n % 9), 12 + 9 * n, run.pick(*RULES)[n % 2]) for n in range(count)]
    line = run.num(20, 90)
    shapes = (
        f"const {project.nouns[0]} = {project.function(0)}(found, LIMIT);",
        f"let {project.nouns[0]} =\n  {project.function(0)}(\n    found,\n    LIMIT,\n  );",
    )
    if way == LOOP:
        extra = [(project.path(1), 4, "no-unused-vars")]
        chat.act(
            "I see what it says.",
            sh("npm run lint", report([*extra, (project.path(0), line, first)]), 1, 4),
        )
        chat.act("The unused import first.", edit(project.path(1), "import { a } from 'a';", ""))
        for number in run.times(9, 13):
            if number == 2:
                run.begin()
            rule = (first, second)[number % 2]
            chat.act(
                maybe(
                    run,
                    run.mix(
                        "One problem is left.|Only one error now.|Just this one:|Almost there,",
                        [f"`{rule}` at line {line}."],
                    ),
                ),
                sh("npm run lint", report([(project.path(0), line, rule)]), 1, run.dec(2, 6)),
            )
            chat.act(
                maybe(
                    run,
                    run.mix(
                        "I rewrite the statement|I reformat the call|Let me change this line",
                        [f"for {rule}."],
                    ),
                ),
                edit(project.path(0), shapes[number % 2], shapes[1 - number % 2]),
            )
            if run.chance.random() < 0.25:
                chat.act(
                    "", read(project.path(0), project.source(0) + "\n" + shapes[1 - number % 2])
                )
        return
    for number, (path, at, rule) in enumerate(rows):
        left = f"{count - number} left."
        chat.act(maybe(run, left), sh("npm run lint", report(rows[number:]), 1, run.dec(2, 6)))
        chat.act(
            maybe(run, f"`{rule}` in line {at}."),
            edit(path, f"x{number}(a)", f"x{number}(a, {at})"),
        )
    chat.act("Last check.", sh("npm run lint", report([]), 0, 4))
    chat.say("`npm run lint` exits with 0.")


@HALF.template("seesaw", "codex openhands", "bisect sweep")
def apply_and_revert(run: Run, way: str) -> None:
    """Turn an option on, which breaks A; turn it off, which breaks B; and so on."""
    project = Project(run, "ts")
    chat = run.chat()
    earlier(run, chat, project)
    option = run.pick(
        "strictNullChecks", "esModuleInterop", "isolatedModules", "useDefineForClassFields"
    )
    fn, other = project.function(1), project.function(2)
    errors = {
        True: f"{project.path(1)}(41,7): error TS2322: Type 'undefined' is not assignable to type "
        f"'string'.\n\n41       {fn}: value?.label,\n         {'~' * len(fn)}\n\n"
        f"  {project.path(3)}:12:3\n    12   {fn}: string;\n         {'~' * len(fn)}\n"
        f"    The expected type comes from property '{fn}', declared here on type 'Row'",
        False: f"{project.path(2)}(9,22): error TS2531: Object is possibly 'null'.\n\n"
        f"9   const first = {other}(found).id;\n                  {'~' * len(other)}\n",
    }
    what = {
        LOOP: f"make `npm run build` of {project.name} work with the new compiler.",
        "bisect": f"find the commit that made the build of {project.name} "
        f"slow with git bisect; good "
        f"is v1.{run.num(2, 9)}, bad is main.",
        "sweep": f"measure how long the build of {project.name} takes for 1 to 14 worker threads.",
    }[way]
    chat.user(ask_to(run, what))
    chat.act(
        "The configuration first.",
        read("tsconfig.json", f'{{"compilerOptions": {{"{option}": false}}}}'),
    )
    if way == LOOP:
        state = False
        for number in run.times(11, 15):
            old, new = str(state).lower(), str(not state).lower()
            state = not state
            if number == 2:
                run.begin()
            say = idea(run, f"`{option}`, it has to be {new}")
            change = edit("tsconfig.json", f'"{option}": {old}', f'"{option}": {new}')
            chat.act(maybe(run, say), change)
            found = f"{errors[state]}\n\nFound 1 error. ({run.dec(6, 19)}s)"
            out = f"> tsc -p . && node build.mjs\n\n{found}"
            chat.act(maybe(run, "Build.", 0.4), sh("npm run build", out, 2, run.dec(6, 19)))
            if state and run.chance.random() < 0.3:
                state = False
                cmd = "git checkout -- tsconfig.json && npm run build 2>&1 | tail -3"
                back = sh(cmd, errors[False], 2, run.dec(6, 19))
                chat.act(maybe(run, "That made it worse, I go back."), back)
        return
    if way == "sweep":
        base = run.dec(60, 90)
        for number in range(1, 15):
            seconds = base / min(number, 8) + run.dec(2, 4) + max(0, number - 8) * 0.4
            built = f"built 214 modules in {seconds:.1f}s (peak {300 + 70 * number} MB)"
            log = bundle_log(project, 214, seconds)
            out = f"> node build.mjs --threads={number}\n{log}\n{built}"
            chat.act(
                maybe(run, f"{number} threads."),
                sh(f"npm run build -- --threads={number}", out, 0, seconds),
            )
        chat.say("Eight threads are best; more cost memory and gain nothing.")
        return
    left = run.num(1500, 1990)
    chat.act(
        "I begin the bisection.",
        sh("git bisect start main v1.1", f"Bisecting: {left} revisions left to test after this"),
    )
    commit = run.hex(40)
    while left:
        bad = run.chance.random() < 0.5
        seconds = run.dec(40, 55) if bad else run.dec(11, 15)
        out = f"built 214 modules in {seconds}s"
        chat.act(
            maybe(run, f"Build at {commit[:8]}."),
            sh("npm ci --silent && npm run build 2>&1 | tail -1", out, 0, seconds),
        )
        left, tried, commit = left // 2, commit, run.hex(40)
        rest = (
            f"Bisecting: {left} revisions left to test after this"
            if left
            else f"{tried} is the first bad commit"
        )
        word = "bad" if bad else "good"
        chat.act(
            maybe(run, f"{seconds} s is {word}."),
            sh(
                f"git bisect {word}",
                f"{rest}\n[{commit}] "
                f"{run.pick('Move', 'Bump', 'Split', 'Inline')} {run.pick(*project.nouns)}",
            ),
        )
    chat.say("Found: it is the commit above, which turned on source maps.")


@HALF.template("long-work", "claude-code opencode", "session port", "compacted", difficulty="hard")
def polish_forever(run: Run, way: str) -> None:
    """Tidy what is tidy: add a comment, remove it, run the tests, which pass all along."""
    project = Project(run, size=15)
    chat = run.chat()
    done: dict[str, str] = {}
    what = {
        LOOP: f"clean up {project.path(0)}; do not change what it does.",
        "session": f"add paging to all list functions of {project.name}, with tests.",
        "port": f"port {project.name} from the old logging to "
        f"structured logging, module by module.",
    }[way]
    chat.summary = lambda: (
        f"The user asked to {what} Finished: {', '.join(done) or 'nothing yet'}. "
        "The tests passed at the last run. I go on with the next one."
    )
    chat.user(ask_to(run, what))
    chat.act(
        "A plan first.", todo(read_the_code="in_progress", change_it="pending", test_it="pending")
    )
    chat.act("", sh(project.command(), project.tested([]), 0, 5))
    if way == LOOP:
        open_both(run, chat, project, 0)
        name = project.function(0)
        line = f"# {run.pick('Ordered', 'Kept', 'Merged')} by {run.pick(*FIELDS)}."
        for number in run.times(9, 12):
            if number == 2:
                run.begin()
            added = number % 2 == 0
            pair = (f"    {name}(found)", f"    {line}\n    {name}(found)")
            old, new = pair if added else pair[::-1]
            say = run.pick(
                "A short comment helps here.", "I say how it is ordered, for the reader."
            )
            if not added:
                say = run.pick("The comment is redundant, I drop it.", "The name says it already.")
            chat.act(maybe(run, say), edit(project.path(0), old, new))
            chat.act(
                maybe(run, "Still green?", 0.5),
                sh(project.command(0), project.tested([], 14), 0, run.dec(1, 4)),
            )
            chat.act(
                maybe(
                    run,
                    run.pick(
                        "I read it once more with fresh eyes.",
                        "How does it look now?",
                        "Is it consistent?",
                    ),
                ),
                read(project.path(0), project.source(0) + f"\n{new}"),
            )
        return
    for number in run.times(7, 10):
        open_both(run, chat, project, number)
        fn, attr = project.function(number), run.pick(*FIELDS)
        new = (
            f"{fn}(found, offset={number}, limit=50)"
            if way == "session"
            else f'log.info("{fn}", {attr}={attr})'
        )
        chat.act(
            maybe(run, onward(run, f"`{fn}`")), edit(project.path(number), f"{fn}(found)", new)
        )
        if way == "session":
            chat.act("", edit(project.test(number), "# more", f"assert {fn}(sample, offset=1)"))
        if number % 2 == 1:
            bug = project.failure(number)
            chat.act(
                "The tests of it.",
                sh(project.command(number), project.tested([bug], 12), 1, run.dec(1, 4)),
            )
            chat.act(
                maybe(run, idea(run, f"the default of {attr}")),
                edit(project.path(number), f"= {bug.got}", f"= {bug.wanted}"),
            )
        more = 2 * number + 2 if way == "session" else 0
        chat.act(
            maybe(run, "All tests:", 0.4),
            sh(project.command(), project.tested([], project.total + more), 0, run.dec(3, 9)),
        )
        done[f"{project.verbs[number % 9]}_{project.nouns[number]}"] = "completed"
        chat.act("", todo(**done, the_rest="in_progress"))
    chat.say(
        "Everything is ported and tested." if way == "port" else "All list functions take pages."
    )
