"""Coding agents: builds, tests, edits, files, plans."""

from __future__ import annotations

from bench.loops.field.cast import Act, edit, grep, read, sh, todo, write
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("first")

PROJECTS = ("ledgerly", "parcelbox", "tidewater", "quillpad", "orchardist", "bluebarn")
KOTLIN = ("InvoiceMapper", "TariffService", "RouteIndex", "StockReader", "LabelPrinter")


def _gradle(r: Run, errors: list[str]) -> Act:
    spent = r.num(9, 38)
    lines = "\n".join(f"e: file:///srv/app/src/main/kotlin/{error}" for error in errors)
    failed = (
        f"> Task :compileKotlin FAILED\n{lines}\n\nFAILURE: Build failed with an exception.\n\n"
        "* What went wrong:\nExecution failed for task ':compileKotlin'.\n> A failure occurred "
        "while executing org.jetbrains.kotlin.compilerRunner.GradleCompilerRunnerWithWorkers\n"
        "   > Compilation error. See log for more details\n\n* Try:\n> Run with --stacktrace option"
        f" to get the stack trace.\n\nBUILD FAILED in {spent}s\n2 actionable tasks: 1 executed"
    )
    good = (
        f"> Task :compileKotlin\n> Task :build\n\nBUILD SUCCESSFUL in {spent}s\n7 actionable tasks"
    )
    return sh("./gradlew build --console=plain", failed if errors else good, bool(errors), spent)


@HALF.template("same failure", "claude-code codex opencode gemini-cli", "mended lock")
def kotlin_build(r: Run, way: str) -> None:
    c, name = r.chat(), r.pick(*KOTLIN)
    lines = sorted(r.num(14, 210) for _ in range(6))
    faults = [
        f"{name}.kt:{line}:{r.num(5, 40)} {what}"
        for line, what in zip(
            lines,
            (
                "Unresolved reference 'toMinor'.",
                "Type mismatch: inferred type is String? but String was expected",
                "'when' expression must be exhaustive. Add the 'is Refund' branch.",
                "Overload resolution ambiguity between candidates",
                "No value passed for parameter 'zone'.",
                "Smart cast to 'Account' is impossible",
            ),
            strict=True,
        )
    ]
    c.user(
        f"The build of {r.pick(*PROJECTS)} is red since the upgrade to Kotlin 2.4. Get it green."
    )
    c.act("I'll look at what the compiler says.", sh("git status --short", " M build.gradle.kts"))
    if way == "mended":
        for number in range(6):
            c.act("The build still fails; next error.", _gradle(r, faults[number:]))
            path = f"src/main/kotlin/{name}.kt"
            c.act("Mending this one.", edit(path, f"val a{number} = x", f"val a{number} = y"))
        c.act("Building once more.", _gradle(r, []))
    elif way == "lock":
        held = "Timeout waiting to lock build logic queue. It is currently in use by another Gradle"
        for _ in range(3):
            text = f"{held} instance.\nOwner PID: 40112\nOur PID: {r.num(50_000, 60_000)}"
            c.act(
                "Another build holds the lock; again in a moment.", sh("./gradlew build", text, 1)
            )
            r.wait(40, 90)
        c.act("Again.", sh("./gradlew build", f"BUILD SUCCESSFUL in {r.num(20, 60)}s"))
        for part in r.some(("api", "core", "cli", "pdf", "mail", "jobs", "web"), 6):
            text = f"> Task :{part}:test\n\nBUILD SUCCESSFUL in {r.num(4, 30)}s"
            c.act("And its tests.", sh(f"./gradlew :{part}:test", text))
    else:
        c.act("", _gradle(r, faults[:2]))
        r.begin()
        for _ in r.times(14, 20):
            say = r.mix("Let me|I'll|Now I'll", "run the build|build", "again.|to see the errors.")
            c.act(say, _gradle(r, faults[:2]))
    if way != LOOP:
        c.say("The build is green again.")


@HALF.template("missing tool", "claude-code openhands mini-swe-agent qwen-code", "found")
def no_javac(r: Run, way: str) -> None:
    c = r.chat()
    user = r.pick("agent", "runner", "dev")
    denied = (
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)"
    )
    dns = "Temporary failure in name resolution"
    ways = [
        ("javac -version", "bash: javac: command not found", 127),
        ("which java javac", "", 1),
        ("sudo apt-get install -y openjdk-21-jdk", f"sudo: {user} is not in the sudoers file.", 1),
        ("apt-get install -y openjdk-21-jdk-headless", f"{denied}\nE: are you root?", 100),
        ("curl -sSL https://get.sdkman.io | bash", f"curl: (6) Could not resolve host: {dns}", 6),
        ("wget -q https://aka.ms/jdk21.tar.gz", f"wget: unable to resolve host: {dns}", 4),
        ("pip install install-jdk", f"WARNING: Retrying: NewConnectionError: {dns}", 1),
        ("conda install -c conda-forge openjdk", "bash: conda: command not found", 127),
        ("npm i -g node-jdk", f"npm error code EAI_AGAIN\nnpm error getaddrinfo: {dns}", 1),
        ("docker run --rm openjdk:21 javac -version", "bash: docker: command not found", 127),
        ("find / -name 'javac*' -type f 2>/dev/null", "", 1),
        ("ls /usr/lib/jvm", "ls: cannot access '/usr/lib/jvm': No such file or directory", 2),
        ("snap install openjdk", "error: cannot communicate with server: dial unix: no file", 1),
        ("apk add openjdk21", "bash: apk: command not found", 127),
        ("nix-shell -p jdk21", "bash: nix-shell: command not found", 127),
        (
            "export JAVA_HOME=/usr/lib/jvm/default && $JAVA_HOME/bin/javac -version",
            "No such file",
            127,
        ),
        (
            "python3 -c 'import jdk; jdk.install(\"21\")'",
            "ModuleNotFoundError: No module named 'jdk'",
            1,
        ),
        ("brew install openjdk@21", "bash: brew: command not found", 127),
        ("ecj -version", "bash: ecj: command not found", 127),
        ("git clone https://github.com/adoptium/jdk21u", f"fatal: unable to access: {dns}", 128),
        ("su -c 'apt install default-jdk'", "su: Authentication failure", 1),
        (
            "dpkg -x openjdk-21.deb ~/jdk",
            "dpkg-deb: error: failed to read archive: No such file",
            2,
        ),
    ]
    c.user("Add a unit test for LeapSecondTable.java and make sure that it passes.")
    c.act("I write the test first.", write("test/LeapSecondTableTest.java", "class T { /* … */ }"))
    c.act("Now compile.", sh("javac -d out test/*.java", "bash: javac: command not found", 127))
    first = 7 if way == "found" else len(ways)
    for number, (cmd, out, code) in enumerate(ways[:first]):
        if number == 6:
            r.begin()
        say = r.mix("Let me try|I'll try|Maybe I can use", "another way.|a different approach.")
        c.act(say, sh(cmd, out, code, r.dec(0.1, 6)))
    if way == "found":
        home = f"/opt/jdk-21.0.{r.num(2, 9)}"
        c.act("Perhaps under /opt.", sh("ls /opt", home.removeprefix("/opt/")))
        c.act("Here it is.", sh(f"{home}/bin/javac -d out test/*.java"))
        c.act("", sh(f"{home}/bin/java -cp out org.junit.runner.JUnitCore T", "OK (3 tests)"))
        c.say("The test passes with the JDK under /opt.")


def _pytest(r: Run, failed: list[str], passed: int, why: str) -> Act:
    lines = "\n".join(f"FAILED tests/test_calendar.py::{name} - {why}" for name in failed)
    frame = f"\n    def test():\n>       assert got == want\nE       {why}\n" if failed else ""
    text = (
        f"{'F' * len(failed)}{'.' * passed}  [100%]\n=== FAILURES ===\n{frame}\n"
        f"=== short test summary info ===\n{lines}\n{len(failed)} failed, {passed} passed in "
        f"{r.dec(0.6, 4)}s"
    )
    return sh("python -m pytest -q tests/test_calendar.py", text, bool(failed), r.dec(1, 5))


@HALF.template("unchanged failure", "codex claude-code swe-agent cline", "fewer others")
def calendar_test(r: Run, way: str) -> None:
    c, module = r.chat(), f"src/{r.pick(*PROJECTS)}/calendar.py"
    names = [f"test_{name}" for name in r.some(("dst", "leap", "utc", "week", "iso", "eom"), 5)]
    why = f"AssertionError: assert {r.num(3, 9)}:00 == {r.num(10, 12)}:00"
    ideas = ("fold=1", "tzinfo=UTC", ".astimezone(zone)", "zone.utcoffset(now)", ".replace(fold=0)")
    c.user("tests/test_calendar.py fails since we dropped pytz. Please repair calendar.py.")
    c.act(
        "I read the module.",
        read(
            module,
            "from datetime import datetime, timedelta\n\nfrom .zones import Zone, load_zones\n\n"
            "ZONES = load_zones()\n\n\ndef convert(now: datetime, zone: Zone) -> datetime:\n"
            '    """Return the time in a zone."""\n    if now.tzinfo is None:\n        now = now.'
            "replace(tzinfo=ZONES['UTC'])\n    return now + zone.offset\n\n\ndef weeks(first: "
            "datetime, last: datetime) -> int:\n    return (last - first) // timedelta(days=7)\n",
        ),
    )
    c.act("And run the tests.", _pytest(r, names, 21, why))
    number = 5 if way != LOOP else r.num(9, 12)
    for turn, idea in zip(range(number), cycle(ideas), strict=False):
        if turn == 2:
            r.begin()
        say = r.mix("I see|Now I see|The problem is clear:", "the conversion drops the offset.")
        c.act(say, edit(module, f"now + step{turn}", f"now.with_({idea}) + step{turn + 1}"))
        left = names[turn + 1 :] if way == "fewer" else names
        other = f"{r.pick('TypeError', 'KeyError', 'ValueError')}: case {turn} of {idea}"
        done = way == "others" and turn == number - 1
        c.act(
            "Running the tests.",
            _pytest(r, [] if done else left, 21, [why, other][way == "others"]),
        )
    if way != LOOP:
        c.say("All tests of the calendar pass.")


@HALF.template("undo and redo", "opencode claude-code qwen-code gemini-cli", "settles options")
def module_resolution(r: Run, way: str) -> None:
    c, file = r.chat(), r.pick("tsconfig.json", "packages/web/tsconfig.json")
    lib = r.pick("@acme/icons", "p-throttle", "@nano/forms", "lodash-es")
    told = {
        "bundler": f"src/app.ts(3,21): error TS2307: Cannot find module '{lib}/node'.",
        "node16": f"src/app.ts(1,19): error TS1479: '{lib}' is an ECMAScript module.",
        "classic": f"src/app.ts(1,19): error TS2792: Cannot find module '{lib}'.",
        "nodenext": f"src/main.ts(9,3): error TS2834: '{lib}': relative paths need extensions.",
        "node10": f"error TS5107: 'node10' is deprecated, used by {lib}.",
    }
    values = cycle(("bundler", "node16") if way == LOOP else told)
    c.user(f"`npx tsc --noEmit` complains about {lib}. Make it type-check.")
    before = next(values)
    c.act("", read(file, f'{{"compilerOptions": {{"moduleResolution": "{before}"}}}}'))
    for turn in range({LOOP: r.num(9, 12), "settles": 2, "options": 5}[way]):
        after = next(values)
        if turn == 2:
            r.begin()
        say = r.mix("I'll switch|Let me change|Set it", f"moduleResolution to {after}.")
        old, new = (f'"moduleResolution": "{value}"' for value in (before, after))
        c.act(say, edit(file, old, new))
        c.act("Check.", sh("npx tsc --noEmit", told[after], 2, r.dec(3, 9)))
        before = after
    if way != LOOP:
        c.act("The types must come from a path map.", edit(file, "{}", f'"paths": {{"{lib}": []}}'))
        c.act("Check.", sh("npx tsc --noEmit", "", 0, 6))
        for package in r.some(("web", "admin", "mail", "shared", "docs"), 4):
            c.act("Its neighbours too.", sh(f"npx tsc --noEmit -p packages/{package}", "", 0, 6))
        c.say("It type-checks.")


@HALF.template("reading again", "claude-code codex openhands opencode", "many after-edits")
def session_bug(r: Run, way: str) -> None:
    c = r.chat()
    names = r.some(("store", "cookie", "token", "login", "guard", "expiry", "routes", "hash"), 4)
    files = [f"internal/session/{name}.go" for name in names]
    more = [f"internal/{folder}/{n}.go" for folder in ("api", "mail", "jobs") for n in names]
    c.user("Users are logged out at midnight. Find out why and mend it.")
    texts = {
        path: (
            f"package session\n\n// {path}\nfunc {path.split('/')[-1][:-3].title()}"
            f"(now time.Time) bool {{\n\treturn now.Day() != {r.num(1, 28)}\n}}\n"
        )
        * r.num(1, 4)
        for path in files + more
    }
    for path in files:
        c.act(r.mix("I read|Reading", f"{path}."), read(path, texts[path]))
    if way == "many":
        for path in more:
            c.act("Next file of the request path.", read(path, texts[path]))
    elif way == "after-edits":
        for number in range(5):
            path = files[number % 2]
            c.act(
                "Compare instants, not days.",
                edit(path, f"Day() // {number}", f"Unix() // {number}"),
            )
            texts[path] += f"// checked {number}\n"
            c.act("I look at it again as a whole.", read(path, texts[path]))
    else:
        r.begin()
        for _, path in zip(r.times(15, 22), cycle(files), strict=False):
            say = r.mix(
                "Let me look at|I need to understand|To be sure I re-read|Let me review",
                f"{path}",
                "once more.|in detail.|to see how it fits.|before I change anything.",
            )
            c.act(say, read(path, texts[path]))
    if way != LOOP:
        c.act("That is the fix.", edit(files[0], "now.Day()", "now.Sub(s.Start)"))
        c.act("", sh("go test ./internal/session/", "ok  \tinternal/session\t0.21s"))
        c.say("Sessions now end after a span and not at midnight.")


@HALF.template("plan churn", "claude-code gemini-cli opencode qwen-code", "works")
def todo_list(r: Run, way: str) -> None:
    c = r.chat()
    steps = r.some(("add_model", "write_migration", "add_route", "add_tests", "update_docs"), 4)
    c.user("Add a table for gift cards with a route to redeem them.")
    c.act("I'll plan this first.", todo(**dict.fromkeys(steps, "pending")))
    if way == "works":
        for number, step in enumerate(steps):
            state = dict.fromkeys(steps[:number], "completed") | {step: "in_progress"}
            state |= dict.fromkeys(steps[number + 1 :], "pending")
            c.act("Next.", todo(**state))
            c.act(f"I do it: {step}.", write(f"app/{step}.py", f"# {step}\nVALUE = {number}"))
            c.act("Run.", sh("make check", f"{30 + number} passed in {r.dec(2, 4)}s"))
        c.act("All is done.", todo(**dict.fromkeys(steps, "completed")))
        c.say("Gift cards can be redeemed at POST /gift-cards/redeem.")
        return
    r.begin()
    for number in r.times(14, 19):
        state = dict.fromkeys(steps, "pending")
        if number % 2:
            state[steps[0]] = "in_progress"
        say = r.mix(
            "Let me|I should", "refine|update|reorganize", "the plan|the list", "first.|now."
        )
        c.act(say, todo(**state))


@HALF.template("verify again", "codex claude-code cline openhands", "stress suites")
def go_verify(r: Run, way: str) -> None:
    c, package = r.chat(), r.pick("ring", "lease", "quorum", "wal")
    good = f"ok  \tgithub.com/acme/{package}\t"
    ask = f"Mend the off-by-one in {package}/index.go."
    if way == "stress":
        ask += " The test was flaky: run it 14 times after that with -race, and report any failure."
    c.user(ask)
    c.act("", read(f"{package}/index.go", "func at(i int) int {\n\treturn (i + 1) % size\n}"))
    c.act("There it is.", edit(f"{package}/index.go", "(i + 1) % size", "i % size"))
    c.act("Test.", sh(f"go test ./{package}", f"{good}{r.dec(0.1, 2, 3)}s"))
    if way == "stress":
        for number in range(14):
            test = sh(f"go test -race -count=1 ./{package}", f"{good}{r.dec(2, 4, 3)}s", takes=4)
            c.act(f"Run {number + 1} of 14.", test)
    elif way == "suites":
        for other in r.some(("raft", "kv", "rpc", "cli", "web", "snap", "log", "disk", "auth"), 7):
            text = f"ok  \tgithub.com/acme/{other}\t{r.dec(0.1, 2, 3)}s"
            c.act("Nothing else may break.", sh(f"go test ./{other}", text))
    else:
        c.say(f"Done: index.go is mended, and the tests of {package} pass.")
        c.user("Please continue until the task is complete.")
        r.begin()
        for number in r.times(14, 18):
            say = r.mix(
                "Everything is in place.|The fix is complete.|The work is done.",
                "Let me verify once more.|One final check.|Let me double-check the tests.",
            )
            flag = "" if number % 3 else " -count=1"
            c.act(say, sh(f"go test{flag} ./{package}", f"{good}{r.dec(0.1, 2, 3)}s"))
    if way != LOOP:
        c.say("All runs passed.")


@HALF.template("stuck at the end", "claude-code codex opencode gemini-cli", "through rename")
def typing_modules(r: Run, way: str) -> None:
    c = r.chat()
    names = [f"{a}_{b}" for a in ("load", "send", "sync", "mask") for b in ("rows", "mail", "keys")]
    c.user("Add type hints to all modules in etl/, one by one, and keep `mypy --strict` green.")
    for name in r.some(names, 12):
        c.act(
            f"{name} is next.",
            edit(f"etl/{name}.py", "def main(a):", f"def main(a: {name.title()}):"),
        )
        c.act("", sh(f"mypy --strict etl/{name}.py", "Success: no issues found in 1 source file"))
    if way == "rename":
        for name in names * 2:
            sed = f"sed -i 's/OldRow/Row/g' etl/{name}.py tests/test_{name}_{r.hex(3)}.py"
            c.act("The same rename here.", sh(sed))
    elif way == LOOP:
        line = r.num(40, 90)
        fault = (
            f'etl/plugins.py:{line}: error: Argument 1 to "register" has incompatible type '
            '"Callable[[Any], T]"; expected "Callable[[Row], T]"  [arg-type]\n'
            "Found 1 error in 1 file (checked 1 source file)"
        )
        for turn in r.times(9, 11):
            if turn == 2:
                r.begin()
            guess = r.pick("cast(Any, f)", "Callable[..., T]", "type: ignore", "ParamSpec('P')")
            c.act("This should satisfy mypy.", edit("etl/plugins.py", f"register({turn})", guess))
            c.act("Check.", sh("mypy --strict etl/plugins.py", fault, 1))
    if way != LOOP:
        c.act(
            "", sh("mypy --strict etl", f"Success: no issues found in {r.num(20, 40)} source files")
        )
        c.say("All of etl/ is typed.")


@HALF.template("compacted", "claude-code codex gemini-cli openhands", "onward", "compacted", "hard")
def borrow_checker(r: Run, way: str) -> None:
    c = r.chat()
    what, line = r.pick("cache", "arena", "graph", "lexer"), r.num(60, 240)
    c.user(f"Make crates/{what} compile without unsafe, and get its benchmarks running.")
    done: list[str] = []
    c.summary = lambda: (
        f"1. Task: make crates/{what} compile without unsafe.\n2. Done so far: "
        f"{', '.join(done) or 'looked at the code'}.\n3. Next: mend src/{what}.rs and build again."
    )
    if way == LOOP:
        fault = (
            f"error[E0499]: cannot borrow `self.{what}` as mutable more than once at a time\n  --> "
            f"crates/{what}/src/{what}.rs:{line}:17\n   |\n{line} |   let node = "
            f"self.{what}.get_mut();"
            "\n   |              ^^^^ second mutable borrow occurs here\nerror: could not compile"
        )
        for turn in r.times(11, 13):
            if turn == 3:
                r.begin()
            new = r.pick("split_at_mut", "RefCell", "mem::take", "a scope", "indices", "clone()")
            c.act(f"I restructure with {new}.", edit(f"src/{what}.rs", f"/*{turn}*/", f"/*{new}*/"))
            c.act("Build.", sh(f"cargo build -p {what}", fault, 101, r.dec(4, 20)))
        return
    for turn, name in enumerate(
        r.some(("node", "edge", "pool", "iter", "scan", "drop", "test"), 7)
    ):
        done.append(f"{name}.rs compiles")
        c.act(f"Now {name}.rs.", edit(f"src/{name}.rs", "unsafe {", "{"))
        fault = f"error[E05{r.num(10, 99)}]: in {name}.rs, `{name}` does not live long enough"
        c.act("Build.", sh(f"cargo build -p {what}", f"{fault}\n{7 - turn} errors left", 101, 9))
        c.act("A lifetime mends it.", edit(f"src/{name}.rs", f"&{name}", f"&'a {name}"))
    c.act("", sh(f"cargo build -p {what}", "Finished `dev` profile in 8.1s"))
    c.say("It compiles without unsafe.")


@HALF.template(
    "kept history", "responses-kept responses-kept responses-kept", "drains", difficulty="hard"
)
def helm_values(r: Run, way: str) -> None:
    c, chart = r.chat(), r.pick("gateway", "ingest", "billing", "search")
    hosts = [f"{chart}-{n}" for n in range(13)]
    c.user(f"Bring release {chart} to chart 4.2 on the clusters {hosts[0]} to {hosts[-1]}.")
    c.act("", sh("helm list -A", f"{chart}  prod  {r.num(10, 60)}  deployed  {chart}-4.1.0"))
    if way == "drains":
        for host in hosts:
            text = f'Release "{chart}" has been upgraded. Happy Helming!\nSTATUS: deployed'
            c.act("Next cluster.", sh(f"helm upgrade {chart} ./chart --kube-context {host}", text))
        c.say("All clusters run chart 4.2.")
        return
    fault = (
        f"Error: UPGRADE FAILED: template: {chart}/templates/ingress.yaml:{r.num(9, 40)}:24: nil "
        "pointer evaluating interface {}.className\n\nUse --debug flag to render out invalid YAML\n"
        f"HISTORY: REVISION 11 superseded {chart}-4.0.2 Upgrade complete\n        "
        " REVISION 12 failed"
        f" {chart}-4.2.0 Upgrade failed\nhint: values of the key ingress are taken from values.yaml"
    )
    for turn in r.times(16, 20):
        if turn == 3:
            r.begin()
        flag = r.pick("--wait", "--atomic", "--force", "--reset-values", "--install", "--debug")
        say = r.mix("Try|Retrying", "with other flags.|again.|it slightly differently.")
        c.act(say, sh(f"helm upgrade {chart} ./chart {flag}", fault, 1, r.dec(1, 7)))


@HALF.template("searching code", "codex claude-code mini-swe-agent openhands", "narrows", "elided")
def dead_flag(r: Run, way: str) -> None:
    c, flag = r.chat(), r.pick("new_checkout", "fast_export", "beta_search", "dark_totals")
    hits = "\n".join(f"web/{n}.rb:{r.num(4, 90)}:  if Flag.on?(:{flag})" for n in ("cart", "pay"))
    c.user(f"Remove the feature flag {flag} and all that only it enables.")
    c.act("", grep(flag, hits, "web"))
    words = (flag, f":{flag}", f"{flag}?", f"'{flag}'", f"Flag.on.*{flag}", flag[:6], flag.upper())
    if way == LOOP:
        r.begin()
        for _, word in zip(r.times(14, 19), cycle(words), strict=False):
            say = r.mix("Let me find|I'll search for", "all uses|every reference", "first.|of it.")
            c.act(say, grep(word, hits, r.pick("web", "web/", "./web")))
        return
    for number, word in enumerate(words):
        c.act("Where else?", grep(word, f"lib/{number}_{r.hex(3)}.rb:{r.num(1, 99)}: {word}", "."))
        c.act("Remove it there.", edit(f"lib/{number}.rb", word, ""))
    c.say(f"The flag {flag} is gone.")
