"""Agents at a terminal: they edit, test, search, read and plan."""

from __future__ import annotations

from bench.loops.field.cast import edit, grep, read, sh, todo, write
from bench.loops.field.run import LOOP, Half, Run, cycle
from bench.loops.field.third.speech import speech

HALF = Half("third")


def _sure(run: Run) -> str:
    """Return what a model says when it believes that this time it works."""
    return speech(
        run,
        "Ah, I see now.|That explains it.|Good catch.|Right.|Okay.|Hmm.|",
        "The cause is|It looks like the culprit is|I think the problem is|The root of this is",
        "the order of the calls.|a missing check.|a wrong assumption of mine.|a stale reference.",
        "Let me fix that.|Fixing it now.|This should do it.|One small change.",
    )


# editing

_KOTLIN = """    fun settle(order: Order): Receipt {
\t\tval total = order.lines.sumOf { it.net }
\t\tif (total <= Money.ZERO) throw EmptyOrder(order.id)
        val tax = taxes.of(order.PLACE).on(total)
\t\treturn Receipt(order.id, total + tax, clock.now())
    }"""


@HALF.template("edit", "claude-code codex opencode openhands", "lands")
def patch_context_miss(run: Run, way: str) -> None:
    """Edit a file of which one remembers tabs as spaces."""
    place = run.pick("shipTo", "billTo", "origin", "depot")
    path = f"server/src/main/kotlin/{run.pick('checkout', 'till', 'basket')}/Settlement.kt"
    chat = run.chat()
    chat.user(f"Tax must be computed before discounts, see {path}. The rate comes from {place}.")
    text = _KOTLIN.replace("PLACE", place)
    chat.act("I'll look at the function first.", read(path, text))
    olds = cycle(
        [
            f"{pad}val tax = taxes.of(order.{place}).on(total)\n{pad}return Receipt(order.id,"
            for pad in ("        ", "", "    ")
        ]
    )
    for number in range(run.num(20, 32) if way == LOOP else 4):
        if number == 3:
            run.begin()
        old, style = next(olds), run.pick("gross", "net", "subtotal")
        if run.form == "codex":
            error = f"apply_patch verification failed: Failed to find expected lines in {path}:"
            error += f"\n{old}"
        else:
            error = f"String to replace not found in file.\nString: {old}"
        new = old.replace(".on(total)", f".on(order.{style})")
        chat.act(_sure(run) if number % 2 else "", edit(path, old, new, error))
        if number % 3 == 2 and way == LOOP:
            chat.act("Let me re-read the exact lines.", read(path, text))
    if way == LOOP:
        return
    white = "\n".join(f"{line}$".replace("\t", "^I") for line in text.split("\n")[2:6])
    chat.act("Tabs! I'll show the white space.", sh(f"sed -n '3,6p' {path} | cat -A", white))
    for name in ("Settlement", "Quote", "Refund", "Voucher", "Invoice", "Preview"):
        other = path.replace("Settlement", name)
        line = f"        val tax = taxes.of(order.{place}).on(total)"
        chat.act("", read(other, f"class {name}(\n{text.replace('settle', name.lower())}\n)"))
        if name in ("Quote", "Voucher"):
            chat.act("", edit(other, f"{line};", line, "String to replace not found."))
        chat.act("", edit(other, line, line.replace("total", "order.gross")))
    chat.say("All six classes compute the tax before the discount now.")


def _pytest(run: Run, failed: list[str], total: int, error: str) -> str:
    body = "\n".join(
        f"____________________ {name} ____________________\n\n"
        f"    def {name}(ledger, clock):\n"
        f">       assert ledger.close(clock.day) == expected\nE       {error}\n\n"
        f"tests/test_ledger.py:{40 + len(name)}: AssertionError"
        for name in failed
    )
    end = "\n".join(f"FAILED tests/test_ledger.py::{name} - {error[:60]}" for name in failed)
    return (
        f"{'=' * 28} test session starts {'=' * 28}\nplatform linux -- Python 3.13.4, pytest-9.1\n"
        f"collected {total} items\n\ntests/test_ledger.py {'.' * (total - len(failed))}"
        f"{'F' * len(failed)} [100%]\n\n{body}\n{'=' * 20} short test summary info {'=' * 20}\n"
        f"{end}\n=== {len(failed)} failed, {total - len(failed)} passed in "
        f"{run.dec(3.1, 4.9)}s ==="
    )


@HALF.template(
    "test", "claude-code gemini-cli qwen-code mini-swe-agent", "fewer others", difficulty="hard"
)
def red_stays_red(run: Run, way: str) -> None:
    """Edit and test in turn, and the failure stays what it was."""
    total = run.num(31, 58)
    names = [
        f"test_{what}_{when}"
        for what in ("closing", "carry_over", "accrual", "reversal")
        for when in ("at_midnight", "in_leap_year", "across_zones", "on_holiday")
    ]
    names = run.some(names, 14)
    chat = run.chat()
    chat.user("pytest tests/test_ledger.py is red since the merge. Make it green, please.")
    error = "AssertionError: assert Decimal('1041.67') == Decimal('1041.66')"
    guesses = cycle(
        [
            ("ROUND_HALF_UP", "ROUND_HALF_EVEN"),
            ("quantize(CENT)", "quantize(CENT, ROUND_DOWN)"),
            ("ROUND_HALF_EVEN", "ROUND_HALF_UP"),
            ("day.date()", "day.astimezone(UTC).date()"),
            ("quantize(CENT, ROUND_DOWN)", "quantize(CENT)"),
            ("day.astimezone(UTC).date()", "day.date()"),
        ]
    )
    open_names = {"fewer": names, "others": names[:1]}.get(way, names[:2])
    out = _pytest(run, open_names, total, error)
    chat.act("", sh("python -m pytest tests/test_ledger.py -q", out, 1, 5))
    for number in range(run.num(16, 26) if way == LOOP else 14):
        if number == 6:
            run.begin()
        old, new = next(guesses)
        shown = open_names
        if way == "fewer":
            shown = names[number:]
            part = names[number].removeprefix("test_")
            old, new = f"return {part}(amount)", f"return {part}(amount).quantize(CENT)"
        elif way == "others":
            shown = [names[number]]
            error = f"AssertionError: assert Decimal('{run.num(20, 4000)}.{run.num(10, 99)}') == 0"
            old, new = f"total_{number} = sum(items)", f"total_{number} = sum(items, ZERO)"
        chat.act(_sure(run), edit("ledger/close.py", old, new))
        out = _pytest(run, shown, total, error)
        chat.act("", sh("python -m pytest tests/test_ledger.py -q", out, 1, run.dec(4, 6)))
    if way != LOOP:
        out = f"{'.' * total} [100%]\n{total} passed in {run.dec(3, 5)}s"
        chat.act("Once more.", sh("python -m pytest tests/test_ledger.py -q", out, 0, 5))
        chat.say("All green.")


@HALF.template("broken", "codex openhands swe-agent opencode", "mends", difficulty="hard")
def full_disk(run: Run, way: str) -> None:
    """Whatever one tries, the disk is full, and each program says so in its own words."""
    package = run.pick("polars", "pyarrow", "scipy", "duckdb")
    chat = run.chat()
    chat.user(f"Add {package} to the image of the reporting job, then run its tests.")
    tries = [
        (
            f"pip install {package}",
            f"Collecting {package}\n  Downloading {package}-1.42.0-cp313-manylinux.whl (38.2 MB)\n"
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on "
            "device",
        ),
        (
            f"uv pip install {package}",
            f"Resolved 4 packages in 212ms\nerror: Failed to extract archive\n  Caused by: failed "
            f"to write to file `/root/.cache/uv/archive-v0/{package}`: No space left on device "
            "(os error 28)",
        ),
        (
            "git stash",
            "error: unable to write file .git/objects/9c/pack: ENOSPC\nfatal: cannot "
            "save the current worktree state",
        ),
        (
            "python -m pytest -q tests/report",
            "INTERNALERROR> OSError: [Errno 28] No space left on "
            "device: '/srv/work/.pytest_cache/v/cache'",
        ),
        ("python -m venv /tmp/env", "Error: [Errno 28] No space left on device: '/tmp/env/bin'"),
        (f"echo {package} >> requirements.txt", "bash: echo: write error: No space left on device"),
        (
            f"apt-get install -y python3-{package}",
            "E: You don't have enough free space in "
            "/var/cache/apt/archives/.\ndebconf: unable to initialise frontend: Dialog",
        ),
        (
            f"docker build -t report --build-arg WITH={package} .",
            "ERROR: failed to solve: failed "
            "to copy files: write /var/lib/docker/overlay2/work: copy_file_range: no space left",
        ),
    ]
    for command, out in tries[: 8 if way == LOOP else 5]:
        chat.act(run.pick("", "I'll try another way."), sh(command, out, 1, run.dec(1, 9)))
    if way == LOOP:
        run.begin()
        for number in run.times(14, 26):
            command, out = run.pick(*tries)
            flag = run.pick(" 2>&1 | tail -5", " 2>&1", "; echo $?", " || true", "")
            if "pip" in command:
                flag = run.pick(" --no-cache-dir", " -v", " --quiet", " --retries 5", "")
            if number % 5 == 4:
                flag = f" # retry {number}"
            chat.act(
                speech(
                    run,
                    "Perhaps|Maybe|Possibly",
                    "a different flag|the cache|another tool|a retry",
                    "helps.|is the way round.|gets further.",
                ),
                sh(command + flag, out, 1, run.dec(1, 9)),
            )
        return
    chat.act("The disk is the cause of all of these.", sh("df -h /", "overlay 40G 40G 0 100% /"))
    chat.act("", sh("du -xsh /var/lib/docker/* | sort -h | tail -3", "27G overlay2\n3.1G tmp"))
    chat.act("", sh("docker system prune -af", f"Total reclaimed space: {run.num(19, 26)}.4GB"))
    for command, _ in tries:
        out = f"done in {run.dec(1, 20)}s: {run.hex(8)}"
        chat.act("", sh(command, out, 0, run.dec(2, 14)))
    chat.say("Docker's layers had filled the disk; the tests pass after a prune.")


_CARGO = """error[E0{code}]: {what}
  --> crates/{crate}/src/{file}.rs:{line}:{col}
   |
{line} |     let batch = self.queue.drain(..).map(|job| job.into_frame(&self.codec));
   |                 ^^^^^^^^^^ {hint}
"""


@HALF.template("broken", "claude-code gemini-cli mini-swe-agent", "crates", "compacted", "hard")
def borrow_checker_tour(run: Run, way: str) -> None:
    """Each fix brings back an error that an earlier fix had removed: five errors in a ring."""
    chat = run.chat()
    chat.user("`cargo check --workspace` must pass with edition 2024. Do not touch the tests.")
    where = {"crate": "relay", "file": "pump", "line": run.num(80, 190), "col": 21}
    chat.summary = lambda: (
        f"`cargo check` fails in crates/{where['crate']}/src/{where['file']}.rs because of the "
        "borrow of the codec. Tests must stay as they are. Next: fix it, and check again."
    )
    errors = [
        ("499", "cannot borrow `self.queue` as mutable more than once", "second mutable borrow"),
        (
            "502",
            "cannot borrow `self.codec` as immutable because it is also borrowed as mutable",
            "immutable borrow occurs here",
        ),
        (
            "507",
            "cannot move out of `self.codec` which is behind a mutable reference",
            "move occurs because it does not implement Copy",
        ),
        ("382", "use of moved value: `codec`", "value used here after move"),
        (
            "373",
            "closure may outlive the current function, but it borrows `codec`",
            "may outlive borrowed value `codec`",
        ),
    ]
    fixes = [
        ("self.queue.drain(..)", "std::mem::take(&mut self.queue).into_iter()"),
        ("&self.codec", "&self.codec.clone()"),
        ("&self.codec.clone()", "self.codec"),
        ("self.codec", "codec"),
        ("move |job|", "|job|"),
    ]
    crates = "relay codec store wire admin quota metric shard probe lease trace".split()
    for number in range(run.num(18, 27) if way == LOOP else 2 * len(crates)):
        if way != LOOP:
            where = {**where, "crate": crates[number // 2], "line": run.num(20, 400)}
            where["file"] = run.pick("lib", "pump", "frame", "pool", "actor")
        code, what, hint = errors[number % 5]
        out = _CARGO.format(code=code, what=what, hint=hint, **where)
        out = f"    Checking {where['crate']} v0.9.2 (/srv/work/crates/{where['crate']})\n{out}"
        out += "error: could not compile due to 1 previous error"
        if number == 6:
            run.begin()
        chat.act("", sh("cargo check --workspace", out, 101, run.dec(3, 14)))
        old, new = fixes[number % 5]
        path = f"crates/{where['crate']}/src/{where['file']}.rs"
        chat.act(_sure(run), edit(path, old, new))
    if way != LOOP:
        chat.act("", sh("cargo check --workspace", "    Finished `dev` profile in 31.20s", 0, 31))
        chat.say("The workspace passes.")


# cycles


@HALF.template("cycle", "claude-code codex mini-swe-agent cline", "each_commit")
def rebase_again(run: Run, way: str) -> None:
    """Rebase, meet the conflict, solve it, lose it in an abort, and rebase."""
    branch = run.pick("feat/ledger-v2", "anna/idempotency", "chore/drop-py310")
    path = run.pick("api/routes.py", "poetry.lock", "schema/events.avsc")
    chat = run.chat()
    chat.user(f"Rebase {branch} onto origin/main and push it.")
    subjects = cycle(
        f"{verb} {what}"
        for verb in ("Add", "Move", "Rename", "Type", "Test")
        for what in ("the event store", "the outbox", "retries")
    )
    if way == LOOP:
        subject = next(subjects)
        for number in run.times(5, 9):
            if number == 1:
                run.begin()
            base = "4f1c9e2"
            chat.act("", sh("git fetch origin", "", 0, run.dec(0.8, 2)))
            chat.act(
                "",
                sh(
                    "git rebase origin/main",
                    f"Auto-merging {path}\nCONFLICT (content): "
                    f"Merge conflict in {path}\nerror: could not apply {base}... {subject}",
                    1,
                ),
            )
            chat.act(
                "",
                read(
                    path,
                    f"<<<<<<< HEAD\nversion = 7\n=======\nversion = 8\n>>>>>>> {base} ({subject})",
                ),
            )
            chat.act("I take ours.", sh(f"git checkout --ours {path} && git add {path}"))
            chat.act(
                "",
                sh(
                    "GIT_EDITOR=true git rebase --continue",
                    "No changes - did you forget "
                    "to use 'git add'?\nIf there is nothing left to stage, chances are that "
                    "something else already introduced the same changes",
                    1,
                ),
            )
            chat.act(
                run.pick("I'd better start afresh.", "Something is off; abort and retry.", ""),
                sh("git rebase --abort", ""),
            )
        return
    for number in range(13):
        subject, base = next(subjects), run.hex(7)
        mark = f"<<<<<<< HEAD\nversion = {number}\n=======\nversion = {number + 1}\n>>>>>>> {base}"
        chat.act("", read(path, f"{mark} ({subject})"))
        chat.act("", edit(path, mark, f"version = {number + 1}"))
        out = f"[detached HEAD {run.hex(7)}] {subject}\nRebasing ({number + 2}/14)\nCONFLICT "
        out += f"(content): Merge conflict in {path}\nerror: could not apply {run.hex(7)}"
        chat.act("", sh(f"git add {path} && GIT_EDITOR=true git rebase --continue", out, 1))
    chat.act("", sh("GIT_EDITOR=true git rebase --continue", "Successfully rebased.", 0))
    chat.say("Fourteen commits are rebased and ready to push.")


@HALF.template("cycle", "claude-code gemini-cli openhands codex", "slow_boot")
def server_never_up(run: Run, way: str) -> None:
    """Start the server, find the port closed, kill it, and start it."""
    port = run.pick(3000, 5173, 8080)
    chat = run.chat()
    chat.user("Start the app locally and check that /health answers with the new build id.")
    why = run.pick(
        "Error: Cannot find module '@acme/telemetry'\nRequire stack:\n- /srv/work/src/index.js",
        "PrismaClientInitializationError: Can't reach database server at `db:5432`",
    )
    closed = f"curl: (7) Failed to connect to localhost port {port} after 0 ms: Connection refused"
    url = f"curl -sS http://localhost:{port}/health"
    if way == LOOP:
        for number in run.times(6, 11):
            if number == 1:
                run.begin()
            pid = run.num(4000, 60000)
            chat.act(
                run.pick("", "Starting the server in the background.", "Let me start it again."),
                sh(
                    f"npm run dev > /tmp/dev{run.pick('', '2', '.out')}.log 2>&1 & echo $!",
                    f"{pid}",
                ),
            )
            chat.act("", sh(f"sleep {run.pick(3, 5, 8, 10)}; {url}", closed, 7, 8))
            chat.act("", sh("tail -n 20 /tmp/dev.log", f"> dev\n> node src/index.js\n\n{why}", 0))
            chat.act("", sh(f"kill {pid}; fuser -k {port}/tcp", f"{pid}: no such process", 1))
        return
    chat.act("", sh("npm run dev > /tmp/dev.log 2>&1 & echo $!", f"{run.num(4000, 60000)}"))
    done = 0
    for number in run.times(9, 14):
        chat.act("", sh(f"sleep 10; {url}", closed, 7, 10))
        done += run.num(140, 420)
        log = f"[vite] optimizing dependencies… {done} modules\n[tsc] pass {number // 3 + 1}"
        chat.act("Still building.", sh("tail -n 2 /tmp/dev.log", log))
    chat.act("", sh(url, f'{{"status":"ok","build":"{run.hex(7)}"}}', 0, 0.1))
    chat.say("It is up, and answers with the new build.")


# testing again


@HALF.template("test", "opencode mini-swe-agent codex", "asked bisect", difficulty="hard")
def flake_hunt(run: Run, way: str) -> None:
    """Run a test again and again to see it fail, though it passes each time."""
    name = f"Test{run.pick('Lease', 'Gossip', 'Snapshot', 'Election')}Expires"
    command = f"go test ./internal/raft -run {name} -count=1 -race"
    chat = run.chat()

    def passed() -> str:
        took = run.dec(1.1, 1.9)
        return (
            f"--- PASS: {name} ({took}s)\nPASS\nok  \tacme.io/kv/internal/raft\t{took + 0.31:.3f}s"
        )

    def failed() -> str:
        at = run.num(60, 400)
        return (
            f"--- FAIL: {name} (2.{run.num(10, 99)}s)\n    lease_test.go:{at}: leader lost after "
            f"{run.num(110, 900)}ms\nFAIL\nFAIL\tacme.io/kv/internal/raft\t2.71s"
        )

    if way == LOOP:
        chat.user(f"{name} was red once in CI last week. Find out why and fix it.")
        chat.act("", grep(name, f"internal/raft/lease_test.go:88:func {name}(t *testing.T) {{"))
        for number in run.times(20, 34):
            if number == 4:
                run.begin()
            say = speech(
                run,
                "It passed.|Green again.|Passes here.|Still no failure.",
                "Let me run it once more|I'll try again|One more run|Running it again",
                "to be sure.|to catch the race.|and watch closely.|to reproduce it.",
            )
            chat.act(say if number else "", sh(command, passed(), 0, run.dec(2, 4)))
        return
    if way == "asked":
        runs = run.num(18, 24)
        chat.user(f"Run {name} {runs} times, one by one, and tell me how often it is red.")
        reds = set(run.some(range(5, runs), 2))
        for number in range(runs):
            out = failed() if number in reds else passed()
            say = f"Run {number + 1} of {runs}."
            chat.act(say, sh(command, out, int(number in reds), run.dec(2, 4)))
        chat.say(f"{len(reds)} of {runs} runs were red.")
        return
    chat.user(f"{name} got flaky between v1.8 and v1.9. Bisect it; three runs a commit will do.")
    chat.act("", sh("git bisect start v1.9 v1.8", "Bisecting: 118 revisions left to test"))
    for left in (59, 29, 14, 7, 3, 1, 0):
        bad = run.num(0, 1)
        for number in range(3):
            red = bool(bad and number == 2)
            chat.act("", sh(command, failed() if red else passed(), int(red), run.dec(2, 4)))
        mark = "bad" if bad else "good"
        out = f"Bisecting: {left} revisions left to test after this\n[{run.hex(40)}] Tune timers"
        chat.act("", sh(f"git bisect {mark}", out))
    chat.say("The timers' commit is the first bad one.")


@HALF.template("edit", "claude-code qwen-code cline openhands", "tuning", difficulty="easy")
def cannot_decide(run: Run, way: str) -> None:
    """Change a line and change it back."""
    key = run.pick("pool_size", "batch_rows", "prefetch", "max_inflight")
    path = "config/ingest.toml"
    chat = run.chat()
    chat.user(f"Ingest is slow. Choose a good {key} in {path}; `make bench` measures it.")
    low, high = 8, 64
    if way == LOOP:
        for number in run.times(18, 30):
            if number == 3:
                run.begin()
            old, new = (low, high) if number % 2 == 0 else (high, low)
            say = speech(
                run,
                "On second thought,|Wait,|Actually,|Thinking about it again,",
                f"{new} is|a {key} of {new} is|{new} rather than {old} seems",
                "safer.|the better choice.|what the docs suggest.|more in line with the host.",
            )
            chat.act(say, edit(path, f"{key} = {old}", f"{key} = {new}"))
        return
    old, best = 8, 0.0
    for new in (64, 8, 16, 32, 24, 28, 20, 26, 22, 8, 23):
        chat.act(f"Next: {new}.", edit(path, f"{key} = {old}", f"{key} = {new}"))
        rate = round(9000 - (new - 24) ** 2 * 5 + run.num(-90, 90))
        best, old = max(best, rate), new
        chat.act("", sh("make bench", f"rows/s  {rate}\np99 ms  {run.dec(20, 60)}", 0, 40))
    chat.say(f"About 24 is best: {best} rows a second.")


# reading and searching


def _code(run: Run, what: str, lines: int) -> str:
    names = ("load", "merge", "flush", "decode", "retry", "close", "index", "emit")
    return "\n".join(
        f"def {names[number % 8]}_{what}_{number}(item, *, limit={run.num(2, 900)}):\n"
        f'    """Return the {names[(number + 3) % 8]} of an item."""\n'
        f"    return item.{names[(number + 5) % 8]}(limit) if item else None\n"
        for number in range(lines)
    )


@HALF.template("reread", "claude-code cline opencode gemini-cli", "after_edits survey", "elided")
def reads_again(run: Run, way: str) -> None:
    """Read the same files in turn, as their texts are cleared from the history."""
    names = ["scheduler", "lease", "worker", "backlog"]
    chat = run.chat()
    chat.user("Explain where a job can be lost between the queue and the worker, and fix it.")
    files = {f"jobs/{name}.py": _code(run, name, 14) for name in names}
    if way == LOOP:
        paths = cycle(files)
        for number in run.times(20, 34):
            if number == 5:
                run.begin()
            path = next(paths)
            say = speech(
                run,
                "To understand the hand-over|Before I change anything|To be certain|Next,",
                f"I need to look at {path}.|let me check {path} again.|I'll read {path}.",
            )
            chat.act(say, read(path, files[path]))
        return
    if way == "survey":
        for number in run.times(18, 26):
            path = f"jobs/{run.pick(*names)}_{number}.py"
            chat.act("", read(path, _code(run, f"part{number}", run.num(6, 15))))
        chat.say("The lease is released before the result is stored: jobs/lease_3.py, line 7.")
        return
    paths = cycle(files)
    for number in range(12):
        path = next(paths)
        chat.act(run.pick("", f"Now {path}."), read(path, files[path]))
        old = files[path].split("\n")[number // 4 * 4]
        new = old.replace("item, *", f"item, lease_{number}, *")
        files[path] = files[path].replace(old, new)
        chat.act("", edit(path, old, new))
    chat.act("", sh("pytest -q jobs", f"{run.num(40, 90)} passed in 2.1s"))


@HALF.template("search", "codex qwen-code claude-code", "widening", difficulty="hard")
def search_synonyms(run: Run, way: str) -> None:
    """Search for the same in other words; the hits stay the same, or there are none."""
    thing = run.pick("invoice", "voucher", "tenant", "quota")
    chat = run.chat()
    chat.user(f"Where do we send the e-mail when a {thing} expires? I want to change its text.")
    stems = ("expire", "expiry", "expiration", "lapse", "timeout", "overdue", "end_of_life")
    sends = ("mail", "notify", "send", "deliver", "notice", "template", "smtp", "message")
    hits = (
        f"docs/adr/0014-{thing}.md:31:When a {thing} expires the owner is told by e-mail.\n"
        f"CHANGES.md:212:- Tell owners when their {thing} expires (#1881)."
    )
    asked: set[str] = set()
    for number in range(run.num(20, 32) if way == LOOP else 20):
        if number == 5:
            run.begin()
        one, two, pattern = "", "", ""
        while not pattern or pattern in asked:
            one, two = run.pick(*stems), run.pick(*sends)
            pattern = run.pick(
                f"{thing}.*({one}|expires)",
                f"(expires|{one}).*(e-mail|{two})",
                f"{one}_{two}|{thing} expires",
            )
        asked.add(pattern)
        if way == LOOP:
            out = hits.split("\n")[0] if pattern.startswith("(") else hits
        else:
            out = "\n".join(
                f"{run.pick('mailer', 'worker', 'billing', 'web')}/{two}_{run.pick(*stems)}.py:"
                f"{run.num(3, 600)}:    {one}_{two}(r{run.hex(4)})  # {thing} expires: e-mail"
                for _ in run.times(2, 7)
            )
        say = speech(
            run,
            "Not quite.|Let me search more broadly.|Perhaps it has another name.|",
            f"I'll look for {one}.|Trying another term.|Searching the whole repository.|",
        )
        chat.act(say.strip(), grep(pattern, out))
    if way != LOOP:
        chat.say(f"It is in mailer/notify_{stems[0]}.py, and two workers call it.")


# planning


@HALF.template("plan", "claude-code openhands opencode gemini-cli", "ticks")
def plan_rewritten(run: Run, way: str) -> None:
    """Write the plan again in other words, and do none of it."""
    chat = run.chat()
    chat.user("Move our cron jobs to the new scheduler. There are nine of them in ops/cron.")
    jobs = "backup rotate reindex digest invoice purge sync heartbeat report".split()
    if way == LOOP:
        chat.act("", sh("ls ops/cron", "\n".join(f"{job}.cron" for job in jobs)))
        for number in run.times(18, 28):
            if number == 2:
                run.begin()
            verbs = run.some(["inspect", "review", "analyse", "study", "map", "list"], 3)
            plan = {
                f"{verb}_{noun}": "pending"
                for verb, noun in zip(
                    verbs,
                    run.some(["the_cron_jobs", "the_scheduler", "dependencies", "risks"], 3),
                    strict=True,
                )
            }
            plan = {next(iter(plan)): "in_progress", **plan, "migrate_jobs": "pending"}
            plan[next(iter(plan))] = "in_progress"
            say = speech(
                run,
                "I'll refine the plan|Let me structure this better|A clearer plan is needed",
                "before I begin.|so that nothing is missed.|to be thorough.|first.",
            )
            chat.act(say, todo(**plan))
        return
    state = dict.fromkeys((f"move_{job}" for job in jobs), "pending")
    for job in jobs:
        state[f"move_{job}"] = "in_progress"
        chat.act("", todo(**state))
        chat.act("", write(f"ops/schedules/{job}.yaml", f"name: {job}\nat: {run.num(0, 23)}:15\n"))
        state[f"move_{job}"] = "completed"
    chat.act("", todo(**state))
    chat.say("All nine are moved.")


# after a compaction


@HALF.template(
    "forgotten", "claude-code codex opencode gemini-cli", "goes_on", "compacted", difficulty="hard"
)
def compact_amnesia(run: Run, way: str) -> None:
    """Do the same part of a migration after each compaction, as the summary leaves it out."""
    chat = run.chat()
    chat.user("Port all modules in app/handlers from Flask to FastAPI, with their tests.")
    modules = "users orders carts prices stock search labels refunds audit exports".split()
    done: list[str] = []

    def summary() -> str:
        if way == LOOP:
            return speech(
                run,
                "The user wants the handlers ported from Flask to FastAPI.",
                "Pending: port the handlers, starting with users.|Next step: begin with users.",
                "Nothing is blocked.|The tests live next to the handlers.",
            )
        return f"Porting handlers to FastAPI. Done: {', '.join(done)}. Next: {modules[len(done)]}."

    chat.summary = summary
    if way == LOOP:
        ported = "\n".join(
            f"@router.get('/users/{part}')\nasync def {part}(deps: Deps) -> User: ..."
            for part in ("list", "find", "add", "drop")
        )
        chat.act("", read("app/handlers/users.py", ported.replace("router", "bp")))
        for part in ("list", "find", "add", "drop"):
            old = f"@bp.get('/users/{part}')"
            chat.act("", edit("app/handlers/users.py", old, old.replace("bp", "router")))
        for number in range(4):
            if number == 1:
                run.begin()
            passed = f"7 passed in {run.dec(0.4, 0.9)}s"
            chat.act("I'll begin with users.", read("app/handlers/users.py", ported))
            chat.act("", grep("flask", "app/deps.py:1:# was: from flask import g", "app"))
            chat.act("", read("app/deps.py", "# was: from flask import g\nDeps = Annotated[...]"))
            chat.act("", sh("pytest -q tests/test_users.py", passed))
            chat.act("", read("tests/test_users.py", "def test_list(client): ...\n" * 7))
            chat.act("", sh("git diff --stat | tail -1", " 2 files changed, 9 insertions(+)"))
            chat.act("Users seems ported already.", sh("ls app/handlers", "\n".join(modules)))
            chat.act("", sh("pytest -q tests/test_users.py", passed))
            chat.act("", sh("git status --short", " M app/deps.py\n M app/handlers/users.py"))
        return
    for name in modules[:-1]:
        path = f"app/handlers/{name}.py"
        chat.act("", read(path, _code(run, name, run.num(3, 8)) + f"\n@bp.get('/{name}')"))
        chat.act("", edit(path, f"@bp.get('/{name}')", f"@router.get('/{name}')"))
        chat.act("", sh(f"pytest -q tests/test_{name}.py", f"7 passed in {run.dec(0.4, 0.9)}s"))
        done.append(name)
