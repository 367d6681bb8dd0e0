"""Issues of Python repositories: edits that change nothing, and edits that do."""

from __future__ import annotations

from collections.abc import Iterator

from bench.loops.field.cast import edit, grep, read, sh, todo
from bench.loops.field.run import LOOP, Run
from bench.loops.field.seventh.common import (
    FORWARD,
    MOVED,
    NEXT,
    RETEST,
    STILL,
    after,
    ask,
    body,
    change,
    changed,
    explore,
    git_log,
    half,
    hits,
    pytest_out,
    repo,
    snake,
    source,
    talk,
    text_of,
    words,
)


def _tries(run: Run) -> list[str]:
    """Return several ways to write one line."""
    noun = run.pick("value", "item", "entry", "part", "key")
    return [
        f"    if {noun} is None:",
        f"    if not {noun}:",
        f"    if {noun} is None or {noun} == '':",
        f"    if {noun} in (None, ''):",
        f"    if len({noun} or '') == 0:",
    ]


def _errors(run: Run) -> Iterator[str]:
    """Yield errors of assertions, each another."""
    while True:
        noun = run.pick("token", "region", "offset", "header", "count", "path", "tag")
        yield run.pick(
            f"AssertionError: assert {run.num(0, 90)} == {run.num(91, 200)}",
            f"KeyError: '{noun}_{run.num(1, 60)}'",
            f"AttributeError: 'NoneType' object has no attribute '{noun}'",
            f"TypeError: {snake(run)}() missing 1 required positional argument: '{noun}'",
            f"AssertionError: assert ['{noun}', 'b'] == ['{noun}', 'b{run.num(1, 99)}']",
            f"ValueError: invalid {noun}: '{run.hex(5)}'",
        )


@half.template(
    "same-failure",
    "claude-code swe-agent openhands qwen-code",
    "converging moving",
    "whole",
    "hard",
)
def variants(run: Run, way: str) -> None:
    """One condition is rewritten in turn in the same few ways; the test fails in one way."""
    at = repo(run, "python")
    chat = talk(run, way, f"You work in {at.root}.")
    chat.user(ask(run, at))
    explore(run, chat, at, 4, 9)
    test = f"test_{at.func}_{run.pick('empty', 'nested', 'unicode', 'order')}"
    passed = run.num(11, 60)
    errors = _errors(run)
    error = next(errors)
    command = f"cd {at.root} && python -m pytest {at.test} {run.pick('-q', '-x', '-q --tb=short')}"
    now, *tries = _tries(run)
    left = run.num(7, 12)
    names = [f"test_{one}" for one in dict.fromkeys(snake(run) for _ in range(left + 8))]
    for number in run.times(12, 18) if way == LOOP else range(left + 1):
        old, new = now, tries[number % len(tries)]
        if way == LOOP:
            if number == len(tries):
                run.begin()
            if number > len(tries):
                new = run.pick(*(one for one in tries if one != now))
            now = new
            failed = [(test, error)]
        elif way == "converging":
            failed = [(one, next(errors)) for one in names[: max(left - number, 0)]]
            old, new = chat.amend(at, at.func)
        else:
            old, new = chat.amend(at, at.func)
            failed = [(test, next(errors))] if number < left else []
        chat.act(
            words(run, after(number, f"{STILL}|" if way == LOOP else MOVED), NEXT),
            edit(f"{at.root}/{at.files[0]}", old, new),
        )
        say = words(run, RETEST, quiet=0.3)
        chat.act(say, sh(command, pytest_out(run, at.test, passed, failed), int(bool(failed)), 4))
        if way == LOOP and run.chance.random() < 0.2:
            chat.act(
                words(run, "Let me look at the test again.|What does it expect, exactly?"),
                sh(f"grep -n -A8 'def {test}' {at.test}", _expectation(test, error), 0),
            )
    chat.say(run.pick("The issue is fixed.", "I changed the condition; see the diff."))


def _expectation(test: str, error: str) -> str:
    return f"212:def {test}(store):\n213-    found = store.find('')\n214-    # {error[:48]}"


@half.template("stale-code", "openhands mini-swe-agent codex", "reinstalled printing")
def shadowed_package(run: Run, way: str) -> None:
    """The tests import an installed copy, so no edit of the source shows."""
    at = repo(run, "python")
    chat = talk(run, way)
    chat.user(ask(run, at))
    explore(run, chat, at, 3, 8)
    test, error = f"test_{at.func}", next(_errors(run))
    site = f"/usr/lib/python3.11/site-packages/{at.name}"
    command = f"cd {at.root} && python -m pytest {at.test} -k {test} -q"
    path = f"{at.root}/{at.files[0]}"
    errors = _errors(run)
    chat.act("Let me reproduce it.", sh(command, pytest_out(run, at.test, 0, [(test, error)]), 1))
    fixed, last = run.num(2, 4), run.num(11, 17)
    for number in range(last):
        if number == 3 and way == LOOP:
            run.begin()
        if way != LOOP and number == fixed:
            chat.act(
                "My print does not show up. Which file is imported?",
                sh(
                    f"python -c 'import {at.name}; print({at.name}.__file__)'",
                    f"{site}/__init__.py",
                ),
            )
            chat.act(
                "An installed copy. Install it in editable mode.",
                sh(
                    f"pip install -e {at.root}", f"Successfully installed {at.name}-{run.num(1, 9)}"
                ),
            )
        seen = way != LOOP and number >= fixed
        if seen and number > fixed + 4 and way == "reinstalled":
            module, name = f"tests/test_{snake(run)}.py", snake(run)
            faults = [(f"test_{name}", next(errors))] if run.chance.random() < 0.3 else []
            out = pytest_out(run, module, run.num(3, 50), faults)
            say = words(run, f"Passes now. Other tests import it too:|{FORWARD}|Next module.")
            chat.act(say, sh(f"cd {at.root} && python -m pytest {module} -q", out, len(faults), 3))
            if faults:
                where = f"{at.root}/{at.name}/{name}.py"
                chat.act(words(run, "A caller."), edit(where, *change(run, "python", name)))
            continue
        old, new = chat.amend(at, at.func)
        if run.chance.random() < 0.5 or way == "printing":
            new = f"{old}\n    {run.pick('print', 'log.warning')}('HERE {run.num(1, 99)}', self)"
        doubts = f"{STILL}|The print does not appear.|Strange.|" if not seen else MOVED
        chat.act(
            words(run, after(number, doubts), f"{NEXT}|Add some output."), edit(path, old, new)
        )
        failed = [(test, next(errors) if seen else error)]
        if way == "printing" and number == last - 1:
            failed = []
        tail = f"\nHERE {run.num(1, 99)} <{run.hex(4)}>" if seen and way == "printing" else ""
        chat.act(
            words(run, RETEST, quiet=0.3),
            sh(command, pytest_out(run, at.test, 0, failed) + tail, int(bool(failed)), 3),
        )
    chat.say(f"{at.func} should be correct now.")


_MISSES = {
    "claude-code": "<tool_use_error>String to replace not found in file.\nString: {old}"
    "</tool_use_error>",
    "openhands": "ERROR:\nNo replacement was performed, old_str `{old}` did not appear verbatim "
    "in {path}.",
    "gemini-cli": "Failed to edit, 0 occurrences found for old_string in {path}. No edits made. "
    "The exact text in old_string was not found. Use read_file tool to verify.",
    "opencode": "Error: oldString not found in content",
    "cline": "The SEARCH block:\n{old}\n...does not match anything in the file {path}.",
}


@half.template(
    "failed-edit",
    "claude-code openhands gemini-cli opencode",
    "migration recovers",
    "whole",
    "easy",
)
def text_not_found(run: Run, way: str) -> None:
    """The text to replace is not in the file; the model sends it again with other blanks."""
    at = repo(run, "python")
    chat = talk(run, way)
    chat.user(ask(run, at))
    explore(run, chat, at, 4, 8)
    path = f"{at.root}/{at.files[0]}"
    text = text_of(run, at, at.files[0])
    miss = _MISSES[run.form]
    lines = body(run, "python", at.func).rstrip().split("\n")
    new = "\n".join([*lines, "    # keep blanks"])
    spaced = [
        "\n".join(lines),
        "\n".join(f"    {line}" for line in lines),
        "\n".join(lines[:-1]),
        "\n".join(line.rstrip(":") for line in lines),
        "\n".join(f"\t{line}" for line in lines),
    ]
    if way == LOOP:
        for number in run.times(18, 30):
            if number == 2:
                run.begin()
            if number % run.num(3, 5) == 1:
                chat.act(
                    words(run, "I'll read the file again.|Check the exact text."), read(path, text)
                )
                continue
            old = run.pick(*spaced)
            chat.act(
                words(
                    run,
                    after(number, "The text did not match.|Whitespace again.|Sorry.|"),
                    "Let me fix the indentation.|I'll use the exact text.|Trying a smaller part.",
                ),
                edit(path, old, new, miss.format(old=old, path=path)),
            )
        return
    for number in run.times(14, 22):
        target = f"{at.root}/{at.name}/{snake(run)}_{number}.py"
        old, fresh = change(run, "python", snake(run))
        if (way == "recovers" and number % 3 == 1) or run.chance.random() < 0.1:
            chat.act(
                words(run, "Next place.|And here.|"),
                edit(target, old, fresh, miss.format(old=old, path=target)),
            )
            text = source(run, at)
            chat.act(words(run, "It is a bit different there."), read(target, text))
            old = text.rstrip().split("\n\n")[-1]
            fresh = changed(run, "python", old)
        chat.act(words(run, f"Now the call in {target}.|{FORWARD}"), edit(target, old, fresh))
    chat.act("All calls are changed.", sh("pytest -q", pytest_out(run, at.test, run.num(40, 90))))


@half.template("undoing", "codex mini-swe-agent claude-code", "bisect experiments")
def to_and_fro(run: Run, way: str) -> None:
    """Two fixes are put in and taken out in turn; each breaks what the other mends."""
    at = repo(run, "python")
    chat = talk(run, way)
    bisects = "\n\nFind the commit that broke it with git bisect before you change anything."
    speed = "\n\nAlso, it is too slow; try what you can think of, one at a time, and measure."
    chat.user(ask(run, at) + {"bisect": bisects, "experiments": speed}.get(way, ""))
    explore(run, chat, at, 4, 9)
    path = f"{at.root}/{at.files[0]}"
    command = f"cd {at.root} && pytest {at.test} -q"
    one, other = (f"test_{snake(run)}" for _ in range(2))
    errors = [next(_errors(run)) for _ in range(2)]
    old = body(run, "python", at.func)
    pair = [change(run, "python", at.func)[1], f"{old}    # see the issue\n"]
    passed = run.num(10, 40)
    count, speed_now = run.num(9, 14), run.dec(310, 480)
    for number in range(count):
        if way == "bisect":
            commit = run.hex(40)
            good = run.chance.random() < 0.5
            left = max(2 ** (count - number) // 2 - 1, 0)
            failed = [] if good else [(one, errors[0])]
            chat.act(
                words(run, RETEST),
                sh(command, pytest_out(run, at.test, passed + number, failed), int(not good), 3),
            )
            out = f"Bisecting: {left} revisions left to test after this (roughly {count - number} "
            mark = run.mix("good") if good else "bad"
            chat.act(
                words(run, f"This one is {mark}.|{mark}|"),
                sh(f"git bisect {mark}", f"{out}steps)\n[{commit}] {git_log(run, 1)[8:]}"),
            )
            continue
        if number == 2 and way == LOOP:
            run.begin()
        new = pair[number % 2]
        if way != LOOP:
            old, new = chat.amend(at, at.func)
        chat.act(
            words(
                run,
                "OK, back to the other approach.|Let me think.|",
                NEXT
                if way == LOOP
                else "Cache the lookup.|Avoid the copy.|Fewer allocations.|A tighter loop.",
            ),
            edit(path, old, new),
        )
        if way == LOOP:
            failed = [((one, other)[number % 2], errors[number % 2])]
            chat.act(
                words(run, RETEST), sh(command, pytest_out(run, at.test, passed, failed), 1, 3)
            )
            chat.act(
                words(run, "This breaks the other test. Revert.|No, that is worse. Undo.|Hmm."),
                sh(f"git checkout -- {at.files[0]}", "Updated 1 path from the index"),
            )
        else:
            speed_now *= run.dec(0.82, 1.04, 3)
            out = f"mean {speed_now:.1f} ms +- {run.dec(1, 9)} ms [20 runs]"
            chat.act(words(run, "Measure.|How fast now?|"), sh("python bench.py", out, 0, 20))
            keep = run.pick("git commit -qam 'Try'", f"git checkout -- {at.files[0]}")
            chat.act(words(run, "Keep it?|Noted.|"), sh(keep, ""))
            if keep.startswith("git checkout"):
                chat.texts[at.func] = old
    chat.say(run.pick("Done.", f"See the notes on {at.func}."))


@half.template("rereading", "claude-code opencode anthropic-mcp", "audit paging", "elided", "hard")
def read_again(run: Run, way: str) -> None:
    """Files that were read before are read again, window by window, and nothing is written."""
    at = repo(run, "python")
    chat = talk(run, way)
    review = f"Read all of {at.name} and write REVIEW.md with what you would change."
    chat.user(review if way == "audit" else ask(run, at))
    explore(run, chat, at, 7, 10)
    texts = {path: text_of(run, at, path) for path in at.files[:3]}
    if way == LOOP:
        run.begin()
    for number in run.times(18, 32):
        if way == LOOP:
            path = run.pick(*texts)
            say = words(
                run,
                "Let me look at|I need to see|I should check|Before I edit, let me read",
                [f"{path} again.", f"how {at.func} works in {path}.", "the code once more."],
                quiet=0.3,
            )
            chat.act(say, read(f"{at.root}/{path}", texts[path]))
        elif way == "audit":
            path = f"{at.root}/{at.name}/{snake(run)}_{number}.py"
            say = words(
                run, "Next file.|Noted: no tests for this.|A long function here.|", quiet=0.4
            )
            chat.act(say, read(path, source(run, at, run.num(2, 6))))
        else:
            low = number * 120 + 1
            say = words(run, "Further down.|Go on.|The next part.|Not here yet.", quiet=0.4)
            command = f"sed -n '{low},{low + 119}p' {at.root}/{at.files[0]}"
            chat.act(say, sh(command, source(run, at, run.num(4, 6))))
    chat.say("I have what I need." if way == LOOP else "The review is in REVIEW.md.")


@half.template("reverifying", "claude-code gemini-cli cline", "matrix stress flaky")
def verified_again(run: Run, way: str) -> None:
    """The issue is fixed and tested; the model tests, shows and sums up again and again."""
    at = repo(run, "python")
    chat = talk(run, way)
    more = {
        "matrix": "\n\nRun each test module on its own afterwards, one command each; some leak "
        "state.",
        "stress": f"\n\nThe test is said to be flaky. Run it {run.num(20, 30)} times with other "
        "seeds and tell me how often it fails.",
        "flaky": "\n\nCheck with each Python and Django that tox knows, one after the other.",
    }
    chat.user(ask(run, at) + more.get(way, ""))
    explore(run, chat, at, 4, 7)
    path = f"{at.root}/{at.files[0]}"
    old, new = chat.amend(at, at.func)
    passed = run.num(12, 70)
    suite = f"cd {at.root} && python -m pytest {at.test} -q"
    chat.act("Here is the fix.", edit(path, old, new))
    chat.act(words(run, RETEST), sh(suite, pytest_out(run, at.test, passed), 0, 4))
    chat.act("Plan:", todo(find_the_fault="completed", fix_it="completed", verify="in_progress"))
    diff = "\n".join(
        [f"diff --git a/{at.files[0]} b/{at.files[0]}", f"-{old[:60]}", f"+{new[:60]}"]
    )
    chat.act(words(run, "The diff:|What did I change?"), sh("git diff", diff))
    chat.act(words(run, "And the status.|"), sh("git status --short", f" M {at.files[0]}"))
    if way == LOOP:
        run.begin()
    for number in run.times(16, 28):
        if way == LOOP:
            say = words(
                run,
                "All tests pass.|The fix is complete.|Everything works.|The implementation is "
                "done.",
                "Let me verify once more.|One final check.|Let me double-check the change.|"
                "Let me make sure that nothing else broke.|Final verification:",
            )
            if run.chance.random() < 0.2:
                say = (
                    f"{run.pick('Summary of the change', 'What I did', 'To sum up')}:\n\n1. "
                    f"`{at.files[0]}`: {at.func} {run.pick('checks', 'handles', 'guards')} the "
                    f"{run.pick('empty', 'blank', 'missing')} case.\n2. All {passed} tests of "
                    f"{at.test} pass.\n\n"
                    f"{run.pick('Let me run them a last time.', 'One more look:')}"
                )
            act = run.pick(
                sh(suite, pytest_out(run, at.test, passed), 0, 4),
                sh(suite, pytest_out(run, at.test, passed), 0, 4),
                sh("git diff", diff),
                sh("git status --short", f" M {at.files[0]}"),
                read(path, new),
            )
        elif way == "matrix":
            module = f"tests/test_{snake(run)}.py"
            say = words(run, f"{FORWARD}|Now {module}.", quiet=0.4)
            act = sh(f"pytest -q {module}", pytest_out(run, module, run.num(3, 80)), 0, 5)
        elif way == "stress":
            bad = [(f"test_{at.func}", "TimeoutError")] if run.chance.random() < 0.2 else []
            say = words(run, f"Run {number + 1}.|Again with another seed.|", quiet=0.4)
            out = pytest_out(run, at.test, 1 - len(bad), bad)
            act = sh(f"{suite} -p randomly -p seed={run.num(1, 9999)}", out, len(bad), 6)
        else:
            env = f"py3{9 + number % 5}-django{42 + number // 5}"
            say = words(run, f"Now {env}.|{FORWARD}", quiet=0.3)
            act = sh(
                f"tox -e {env}", f"{env}: OK ({run.dec(8, 40)} seconds), {passed} passed", 0, 30
            )
        chat.act(say, act)
    chat.say(f"The fix of {at.func} is complete.")


@half.template("wrong-belief", "swe-agent codex openhands", "callers", "compacted", "hard")
def circular_search(run: Run, way: str) -> None:
    """The model is sure that a function exists, and greps for it under the same few names."""
    at = repo(run, "python")
    chat = talk(run, way)
    gone = f"_{snake(run)}_cache"
    removal = f"Remove each use of the deprecated helpers in {at.root}; there are many names."
    chat.user(ask(run, at) if way == LOOP else removal)
    chat.summary = lambda: (
        f"The task is about {at.func}. I believe that {gone} holds the state and must find it."
        if way == LOOP
        else f"{len(done)} helpers are gone: {', '.join(done)}. Go on with the rest."
    )
    done: list[str] = []
    name = ""
    explore(run, chat, at, 4, 8)
    names = [gone, gone.strip("_"), pascal_of(gone), f"{gone}(", f"def {gone}"]
    places = [".", at.name, "tests", f"{at.root}/{at.name}", at.files[0]]
    for number in run.times(20, 32):
        if way == LOOP:
            if number == 6:
                run.begin()
            name = run.pick(*names)
            say = words(
                run,
                after(
                    number,
                    "It must be somewhere.|It may be imported dynamically.|Perhaps in another "
                    "folder.|"
                    "Hmm, nothing.|The function has to be defined in this package.|Maybe the "
                    "name is a "
                    "bit different.",
                ),
                ["", f"Search for {name}.", "Let me grep again."],
            )
            chat.act(say, grep(name, "", run.pick(*places)))
            continue
        if number % 2 == 0 or not name:
            name = f"{snake(run)}_{number}"
        if number % 2:
            say = words(run, FORWARD, quiet=0.4)
            chat.act(say, edit(f"{at.root}/{run.pick(*at.files)}", f"{name}(x)", "convert(x)"))
            done.append(name)
        else:
            found = hits(run, at, name) if run.chance.random() < 0.8 else ""
            chat.act(words(run, f"Where is {name} used?|Next: {name}."), grep(name, found))
    chat.say("I could not find it." if way == LOOP else "All of them are gone.")


def pascal_of(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
