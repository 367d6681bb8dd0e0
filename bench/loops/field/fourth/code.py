"""Coding agents: edits that miss, types, tests, searches, plans, reading, checks."""

from __future__ import annotations

from bench.loops.field.cast import edit, grep, read, sh, todo
from bench.loops.field.fourth.habits import Voice, look_around
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("fourth")
template = HALF.template

_AREAS = ("billing", "search", "payouts", "catalog", "audit", "intake", "ledger", "shipping")
_NOUNS = ("Invoice", "Parcel", "Tariff", "Voucher", "Booking", "Meter", "Claim", "Depot")
_OH = ("Hmm.", "OK.", "Right.", "I see.", "Strange.", "Interesting.", "Still not there.", "Wait.")


def _miss(r: Run, path: str, old: str) -> str:
    """Return how a harness says that a text is not in a file."""
    match r.form:
        case "cline":
            return (
                f"The tool execution failed with the following error:\n<error>\nThe SEARCH block:\n"
                f"{old}\n...does not match anything in the file.\n</error>"
            )
        case "opencode":
            return "Error: oldString not found in content, or it was found multiple times"
        case "openhands":
            return (
                f"ERROR:\nNo replacement was performed, old_str `{old}` is not in {path} verbatim."
            )
    return f"<tool_use_error>String to replace not found in file.\nString: {old}</tool_use_error>"


def _pytest(r: Run, failed: dict[str, str], passed: int, note: str = "") -> str:
    """Return what pytest prints: of each test that failed, why."""
    lines = [
        "============================= test session starts ==============================",
        "platform linux -- Python 3.12.8, pytest-8.4.2, pluggy-1.6.0",
        f"Using --randomly-seed={r.num(10**8, 4 * 10**9)}",
        f"collected {passed + len(failed)} items",
        "",
    ]
    for name, why in failed.items():
        lines += [f"_______ {name.split('::')[-1]} _______", "", f"E       {why}", ""]
    if note:
        lines.append(note)
    if failed:
        lines.append(
            "=========================== short test summary info ============================"
        )
        lines += [f"FAILED {name} - {why}" for name, why in failed.items()]
    total = f"{len(failed)} failed, {passed} passed" if failed else f"{passed} passed"
    return "\n".join([*lines, f"========== {total} in {r.dec(0.8, 4.6)}s =========="])


@template(
    "edit-misses", "claude-code cline opencode openhands", "recovers many-files", difficulty="easy"
)
def stale_anchor(r: Run, way: str) -> None:
    """The text to replace is never found, as the file has tabs; it is read and tried again."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    path = f"internal/{area}/{noun.lower()}.go"
    limit, more = r.num(5, 30), r.num(31, 90)
    body = (
        f'package {area}\n\nimport (\n\t"context"\n\t"time"\n)\n\n'
        f"func (s *{noun}Store) Load(ctx context.Context, id string) (*{noun}, error) {{\n"
        f"\tctx, cancel := context.WithTimeout(ctx, {limit}*time.Second)\n\tdefer cancel()\n"
        f"\treturn s.repo.Get(ctx, id)\n}}"
    )
    c = r.chat()
    c.user(f"{noun} loads time out in staging, raise the limit to {more}s and run the tests.")
    look_around(r, c)
    if way == "many-files":
        c.act("I look for all stores with that limit.", grep("WithTimeout", path="internal"))
        for name in r.some(_NOUNS, 6):
            file = f"internal/{area}/{name.lower()}.go"
            text = body.replace(noun, name)
            old = f"ctx, cancel := context.WithTimeout(ctx, {limit}*time.Second)"
            new = old.replace(f"{limit}*", f"{more}*")
            c.act(f"Now {name}.", read(file, text))
            if r.chance.random() < 0.5:
                miss = _miss(r, file, old + "  ")
                c.act("", edit(file, old + "  ", new, miss))
            c.act(r.pick("", f"Raising it in {name}Store."), edit(file, old, new))
        c.act("Tests.", sh(f"go test ./internal/{area}/...", f"ok  {area}\t{r.dec(0.2, 3)}s"))
        c.say("All stores have the new limit.")
        return
    c.act(f"I'll look at {path}.", read(path, body))
    tries = 4 if way == "recovers" else r.num(17, 21)
    for number in range(tries):
        pad = r.pick("    ", "  ", "        ", "   ")
        old = f"{pad}ctx, cancel := context.WithTimeout(ctx, {limit}*time.Second)"
        if r.chance.random() < 0.5:
            old += f"\n{pad}defer cancel()"
        if number == 2:
            r.begin()
        said = voice(
            _OH,
            [
                "The string must match exactly, so I use fewer lines.",
                "Probably the indentation; I'll copy it as it is shown.",
                "Let me retry the edit with the exact text from the file.",
                "The edit did not apply. Trying with the surrounding line.",
                "I'll match a larger part of the function this time.",
            ],
        )
        said = said if number else "There is the limit; I change it."
        error = _miss(r, path, old)
        c.act(said, edit(path, old, old.replace(f"{limit}*", f"{more}*"), error))
        if number % 2:
            c.act(r.pick("Let me view the file again.", "Re-reading it.", ""), read(path, body))
    if way == LOOP:
        return
    shown = f"9\t\\tctx, cancel := context.WithTimeout(ctx, {limit}*time.Second)$"
    c.act("Are these tabs?", sh(f"sed -n '9l' {path}", shown))
    c.act("Tabs, yes.", sh(f"sed -i 's/{limit}\\*time.Second/{more}*time.Second/' {path}"))
    c.act("", sh(f"go test ./internal/{area}/...", f"ok  {area}\t{r.dec(0.2, 3)}s"))
    c.act("", sh("git diff --stat", f" {path} | 2 +-\n 1 file changed"))
    c.say(f"The limit is {more}s now, and the tests pass.")


@template("seesaw", "claude-code codex gemini-cli qwen-code", "fewer settles", difficulty="hard")
def two_type_errors(r: Run, way: str) -> None:
    """A type is made nullable, which breaks one file, and not nullable, which breaks another."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    part = r.pick("quantity", "dueAt", "weight", "discount", "region")
    types, one, two = (f"src/{area}/{name}.ts" for name in ("types", "import", "render"))
    c = r.chat()
    c.user(f"`pnpm typecheck` fails in {area} since the upgrade. Make it pass, no `any` please.")
    look_around(r, c)
    row, col, line = r.num(20, 90), r.num(5, 30), r.num(91, 180)

    def check(*errors: str) -> str:
        head = f"> web@4.{r.num(1, 9)}.0 typecheck\n> tsc --noEmit -p tsconfig.json\n\n"
        tail = f"Found {len(errors)} errors in {r.dec(3, 9)}s" if errors else ""
        return head + "\n".join([*errors, tail])

    narrow = (
        f"{one}({row},{col}): error TS2322: Type 'number | null' is not assignable to type "
        f"'number'. The expected type comes from property '{part}' of '{noun}'."
    )
    wide = f"{two}({line},{col}): error TS18047: '{noun.lower()}.{part}' is possibly 'null'."
    run = "pnpm typecheck"
    c.act("First the state of things.", sh(run, check(narrow), 2, r.dec(3, 9)))
    if way == "fewer":
        parts = [f"{name}{kind}" for name in ("unit", "net", "gross", "tax") for kind in ("A", "B")]
        for place, name in enumerate(parts):
            left = [narrow.replace(part, later) for later in parts[place + 1 :]]
            old, new = f"  {name}: number;", f"  {name}: number | null;"
            c.act(f"`{name}` comes from a nullable column.", edit(types, old, new))
            c.act("", sh(run, check(*left), 2 if left else 0, r.dec(3, 9)))
        c.say("The type check passes.")
        return
    old, new = f"  {part}: number;", f"  {part}: number | null;"
    rounds = 3 if way == "settles" else r.num(10, 12)
    for number in range(rounds):
        if number == 1:
            r.begin()
        c.act(
            voice(
                _OH,
                [
                    f"The import can have null, so `{part}` has to be nullable.",
                    f"`{noun}.{part}` should accept null, as the importer gives it.",
                    "The error is about null in the importer, I widen the type.",
                    f"I'll declare `{part}` as `number | null`.",
                ],
                ["", "That is the root cause.", "This way the compiler knows.", "A small change."],
            ),
            edit(types, old, new),
        )
        c.act(r.pick("", "Checking.", "Typecheck again."), sh(run, check(wide), 2, r.dec(3, 9)))
        if way == "settles" and number == 2:
            break
        c.act(
            voice(
                _OH,
                [
                    f"Now rendering complains. `{part}` is always there when we render.",
                    f"Null makes no sense in the view: `{part}` is a plain number.",
                    "The view does not expect null, so the type must not allow it.",
                    f"Making `{part}` required again is the cleanest fix.",
                ],
                ["", "No cast is needed then.", "I keep strict mode happy.", "Only one line."],
            ),
            edit(types, new, old),
        )
        c.act(r.pick("", "Let me verify.", "And check."), sh(run, check(narrow), 2, r.dec(3, 9)))
    if way == LOOP:
        return
    c.act(
        "Both are right: the importer needs a default instead.",
        edit(one, f"{part}: row.{part},", f"{part}: row.{part} ?? 0,"),
    )
    c.act("And the type stays narrow.", edit(types, new, old))
    c.act("", sh(run, check(), 0, r.dec(3, 9)))
    c.act("", sh("pnpm test --run", f"Test Files  {r.num(9, 40)} passed\nDuration {r.dec(3, 9)}s"))
    c.say(f"The importer writes 0 where `{part}` is missing.")


@template(
    "repaint", "openhands claude-code mini-swe-agent codex", "fewer moves", "compacted", "hard"
)
def same_assertion(r: Run, way: str) -> None:
    """A function is written again with other names and the same result."""
    voice = Voice(r)
    area = r.pick(*_AREAS)
    path, test = f"{area}/rounding.py", f"tests/test_{area}_rounding.py"
    want, got = f"{r.num(10, 99)}.{r.num(10, 49)}", f"{r.num(10, 99)}.{r.num(50, 99)}"
    cases = ["eur", "usd", "jpy", "chf", "sek", "kwd", "clp", "isk", "nok", "czk"]
    c = r.chat()
    c.user(f"{test} fails since we split rounding by currency. Fix {path}, not the test.")
    look_around(r, c)
    c.summary = lambda: (
        f"Goal: make {test} pass by fixing {path}. I have tried several versions of split(); the "
        "test still fails. Next: try another version."
    )
    source = (
        "def split(total, parts, digits=2):\n    step = round(total / parts, digits)\n"
        "    return [step] * parts"
    )
    c.act("Let me read it.", read(path, source))
    run = f"python -m pytest -q {test}"
    names = ["total", "amount", "value", "whole", "money", "gross", "figure"]
    steps = ["step", "share", "piece", "portion", "unit", "each", "chunk"]
    ways = ["[{s}] * {p}", "[{s} for _ in range({p})]", "list(repeat({s}, {p}))"]
    old, passed = source, r.num(20, 60)
    rounds = 10 if way != LOOP else r.num(11, 13)
    for number in range(rounds):
        if number == 2:
            r.begin()
        t, s, p = r.pick(*names), r.pick(*steps), r.pick("parts", "count", "n", "pieces")
        note = r.pick("", "    # even shares\n", f'    """Return {p} equal shares."""\n')
        if way == LOOP:
            back = r.pick(*ways).format(s=s, p=p)
            new = (
                f"def split({t}, {p}, digits=2):\n{note}    {s} = round({t} / {p}, digits)\n"
                f"    return {back}"
            )
            failed = {f"{test}::test_rest[eur]": f"AssertionError: assert {got} == {want}"}
            said = voice(
                [
                    "I think I understand now:",
                    "The problem is in how the shares are made:",
                    "Let me take a cleaner approach:",
                    "Looking at the assertion again:",
                    "The previous version was too complex:",
                ],
                [
                    "the step must be computed before the list.",
                    "the rounding has to be explicit.",
                    "I'll rewrite split so that the shares add up.",
                    "this version should give the right sum.",
                ],
                [
                    f"The test wants {want} and we return {got}.",
                    "That should satisfy the assertion.",
                    "Naming things properly will also make the intent obvious.",
                    "",
                ],
            )
        elif way == "fewer":
            new = old.replace(
                "    return", f"    {s}_{number} = fix({cases[number]!r})\n    return"
            )
            left = cases[number + 1 :]
            failed = {
                f"{test}::test_rest[{name}]": f"AssertionError: assert {got} == {want}"
                for name in left
            }
            said = f"{cases[number].upper()} has its own number of digits."
        else:
            new = old.replace("    return", f"    rest_{number} = {t}_left - {s}\n    return")
            now = f"{r.num(10, 99)}.{number}{r.num(1, 9)}"
            line = r.num(10, 70)
            failed = {f"{test}::test_rest[eur]": f"AssertionError: assert {now} == {want} ({line})"}
            if number == rounds - 1:
                failed = {}
            said = f"Closer: that was {now}, so the rest of step {number} was lost."
        c.act(said, edit(path, old, new))
        out = _pytest(r, failed, passed + (0 if failed else 1))
        c.act(r.pick("", "Run it.", "Test."), sh(run, out, bool(failed), r.dec(1, 5)))
        old = new
    if way != LOOP:
        c.say("The tests of rounding pass.")


@template("search", "claude-code gemini-cli opencode langgraph", "sweep callers")
def ghost_symbol(r: Run, way: str) -> None:
    """A symbol of a library is looked for in the project, in six spellings, round and round."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    name = f"{r.pick('resolve', 'derive', 'collect', 'project')}{noun}{r.pick('Key', 'Scope')}"
    c = r.chat()
    if way == LOOP:
        c.user(f"Our logs say '{name}: unexpected state'. Find out where that is raised, fix it.")
        look_around(r, c)
        snake = "".join(f"_{one.lower()}" if one.isupper() else one for one in name)
        spellings = [name, f"{name}\\(", f"function {name}", snake, f"def {snake}", "unexpected st"]
        for number, pattern in enumerate(spellings):
            c.act(r.pick("", f"Searching for `{pattern}`."), grep(pattern))
            if number == 5:
                r.begin()
        for _ in r.times(17, 22):
            pattern = r.pick(*spellings)
            where = r.pick(".", "src", f"src/{area}", f"src/{area}/", "./src", "packages")
            said = voice(
                ["It has to be somewhere.", "No match.", "Nothing yet.", "Let me think.", "Hm."],
                [
                    f"Let me search for `{pattern}` in {where}.",
                    "Perhaps it is spelled in another way.",
                    "Maybe in another folder.",
                    "I'll widen the search.",
                    f"Trying {where} this time.",
                ],
            )
            c.act(said, grep(pattern, path=where))
        return
    if way == "sweep":
        flags = [f"{one}_{kind}" for one in _AREAS for kind in ("beta", "v2")]
        listed = "\n".join(f"- {flag}" for flag in flags)
        c.user(f"Tell me which of these flags the code still uses:\n{listed}")
        look_around(r, c)
        for flag in flags:
            hit = f"src/{area}/flags.ts:{r.num(3, 90)}:  {flag}: false," if r.num(0, 5) == 0 else ""
            c.act(r.pick("", f"{flag}.", f"Next: {flag}"), grep(flag, hit, "src"))
        c.say("Most of the flags are unused; the list is above.")
        return
    c.user(f"Rename {name} to {name}Of everywhere, one package at a time.")
    look_around(r, c)
    for one in _AREAS:
        path = f"packages/{one}/index.ts"
        line = f"export const {one}Key = {name}(row.{one}Id);"
        c.act("", grep(name, f"{path}:{r.num(3, 90)}:{line}", f"packages/{one}"))
        c.act("", edit(path, line, line.replace(f"{name}(", f"{name}Of(")))
        c.act(r.pick("None left?", ""), grep(f"{name}\\(", "", f"packages/{one}"))
    c.say("All packages use the new name.")


@template("planning", "claude-code codex gemini-cli openhands", "worked", difficulty="easy")
def only_ever_plans(r: Run, way: str) -> None:
    """The plan is put in order again and again, and none of it is begun."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    items = {
        f"Read_the_{area}_module": "pending",
        f"Add_export_of_{noun}": "pending",
        "Write_tests_for_empty_input": "pending",
        "Update_the_docs": "pending",
        "Run_the_linter": "pending",
    }
    c = r.chat()
    c.user(f"Add a CSV export of {noun} objects to {area}: endpoint, tests, docs.")
    look_around(r, c)
    c.act("I'll plan this first.", todo(**items))
    if way == "worked":
        keys = list(items)
        for place, key in enumerate(keys):
            items[key] = "in_progress"
            c.act("", todo(**items))
            path = f"{area}/export_{place}.py"
            c.act(f"{key.replace('_', ' ')}.", edit(path, f"row_{place}", f"line_{place}"))
            c.act("", sh(f"pytest -q {area}", _pytest(r, {}, 20 + place), 0, r.dec(1, 4)))
            items[key] = "completed"
        c.act("", todo(**items))
        c.say("The export is there.")
        return
    for number in r.times(18, 22):
        keys = r.some(list(items), len(items))
        if number == 2:
            r.begin()
        state = r.pick("pending", "pending", "in_progress")
        plan = dict.fromkeys(keys, "pending") | {keys[0]: state}
        said = voice(
            ["Before I start,", "On reflection,", "To be safe,", "Good.", "Let me make sure:"],
            [
                "the order of the steps should be different.",
                "I'll update the plan to reflect the task.",
                "the list has to be in the right order.",
                "I refine the todo list.",
                "I organise the work.",
            ],
        )
        c.act(said, todo(**plan))


@template("rereading", "claude-code opencode gemini-cli anthropic-mcp", "parts edited", "elided")
def reads_in_circles(r: Run, way: str) -> None:
    """Results are cleared from the history, so files are read again, and no change is made."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    names = ("handler", "schema", "mapper", "queue", "errors")
    files = {
        f"app/{area}/{name}.py": "\n".join(
            f"{name}_{place} = load_{noun.lower()}({r.num(1, 900)})" for place in range(14)
        )
        for name in names
    }
    c = r.chat()
    c.user(f"Where does {noun} lose its currency on the way through app/{area}? Fix it.")
    look_around(r, c)
    if way == "parts":
        path = f"app/{area}/legacy.py"
        c.act("How large is it?", sh(f"wc -l {path}", f"4200 {path}"))
        for place in range(1, 4200, 300):
            text = "\n".join(f"{noun.lower()}_{place + n} = {r.num(1, 900)}" for n in range(8))
            said = r.pick("", "Next part.", "Not here, going on.")
            c.act(said, sh(f"sed -n '{place},{place + 299}p' {path}", text))
        c.say("It is lost in the last part, in the legacy writer.")
        return
    if way == "edited":
        path, text = next(iter(files.items()))
        for line in text.split("\n")[:9]:
            c.act(r.pick("", "How is it now?"), read(path, text))
            new = line.replace("load_", "load_priced_")
            c.act(r.pick("This one loses it.", "Keep the currency here."), edit(path, line, new))
            text = text.replace(line, new)
        c.act("", sh("pytest -q", _pytest(r, {}, r.num(40, 80)), 0, r.dec(1, 4)))
        c.say("Each load keeps the currency now.")
        return
    paths = cycle(files)
    for number in range(r.num(22, 26)):
        path = next(paths) if number < 10 else r.pick(*files)
        if number == 6:
            r.begin()
        said = voice(
            ["", "Let me look.", "I need the details.", "To see the whole picture,"],
            [
                f"I read {path}.",
                f"I should check {path.split('/')[-1]} for the currency.",
                "I go through the next module.",
                "I want to see how it is passed on.",
            ],
        )
        c.act(said, read(path, files[path]))


@template("verifying", "claude-code codex gemini-cli opencode", "soak stepwise", "compacted")
def never_finished(r: Run, way: str) -> None:
    """The work is done, and it is checked and checked."""
    voice = Voice(r)
    area, noun = r.pick(*_AREAS), r.pick(*_NOUNS)
    path, passed = f"{area}/{noun.lower()}.py", r.num(80, 400)
    diff = f" {path} | {r.num(4, 30)} +++---\n 1 file changed"
    c = r.chat()
    c.summary = lambda: (
        f"{noun} in {path} is changed and its tests pass. Make sure of it, then end."
    )
    if way == "soak":
        number = r.num(16, 18)
        c.user(f"The test of {noun} was flaky. Run it {number} times, one by one, and tell me.")
        look_around(r, c)
        for turn in range(number):
            out = _pytest(r, {}, 3)
            cmd = f"pytest -q tests/test_{noun.lower()}.py"
            c.act(r.pick("", f"Run {turn + 1} of {number}."), sh(cmd, out, 0, r.dec(1, 5)))
        c.say(f"{number} of {number} runs passed.")
        return
    c.user(f"Move the VAT rules out of {noun}.total() into a function of their own.")
    look_around(r, c)
    c.act("", edit(path, "    vat = self.net * RATE", "    vat = vat_of(self.net)"))
    if way == "stepwise":
        for rule in ("export", "reverse", "reduced", "zero", "books", "food", "import"):
            old, new = f"if self.{rule}: rate = 0", f"rate = {rule}_rate(self)"
            c.act(f"Now the rule for {rule}.", edit(path, old, new))
            c.act("", sh("pytest -q", _pytest(r, {}, passed), 0, r.dec(2, 9)))
        c.say("The rules have functions of their own.")
        return
    c.act("Now the tests.", sh("pytest -q", _pytest(r, {}, passed), 0, r.dec(2, 9)))
    c.act("", sh("git diff --stat", diff))
    c.act("", sh("git status --short", f" M {path}"))
    for number in r.times(18, 22):
        if number == 1:
            r.begin()
        said = voice(
            ["All green.", "The work is complete.", "Good.", "Everything passes.", "Great!"],
            [
                "Let me double-check that nothing else broke.",
                "One last verification.",
                "I'll confirm the final state.",
                "To be thorough I run the suite once more.",
                "Final check before I finish.",
            ],
        )
        what = r.pick(0, 0, 1, 2)
        if what == 0:
            cmd = r.pick("pytest -q", "python -m pytest", "pytest -q --no-header", "pytest")
            c.act(said, sh(cmd, _pytest(r, {}, passed), 0, r.dec(2, 9)))
        elif what == 1:
            c.act(said, sh("git diff --stat", diff))
        else:
            c.act(said, sh("git status --short", f" M {path}"))
