"""Edits and tests: fixes that miss, edits that do not land, rules that contradict each other."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh
from bench.loops.field.fifth.common import (
    FIELDS,
    HALF,
    Project,
    ask_to,
    earlier,
    idea,
    look,
    maybe,
    once_more,
    onward,
    together,
)
from bench.loops.field.run import LOOP, Chat, Run


def open_both(run: Run, chat: Chat, project: Project, number: int) -> None:
    """Look at a module and at its test."""
    path, test = project.path(number), project.test(number)
    text = f"{project.source(number, 1)}\n# {project.failure(number).name}"
    say = maybe(run, look(run, f"`{path}`"))
    together(run, chat, say, read(path, project.source(number)), read(test, text))


@HALF.template("edit-test", "claude-code codex gemini-cli", "closer features")
def fix_that_misses(run: Run, way: str) -> None:
    """Change one line back and forth between a few ideas; the test fails as before."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    bugs = [project.failure(number) for number in range(run.num(6, 8))]
    what = {
        LOOP: f"make {bugs[0].name} in {project.name} pass.",
        "closer": f"get the test suite of {project.name} green again, "
        f"it broke with the last merge.",
        "features": "work through the list in NOTES.md, one change with tests for each entry.",
    }[way]
    chat.user(ask_to(run, what))
    attrs = [run.pick(*FIELDS) for _ in bugs]
    if way == "features":
        notes = [
            f"- {project.function(n)}: leave out entries without {attr}"
            for n, attr in enumerate(attrs)
        ]
        chat.act("I start with the list.", read("NOTES.md", "\n".join(notes)))
    else:
        left = bugs[:1] if way == LOOP else bugs
        chat.act(
            "I run the tests first.", sh(project.command(), project.tested(left), 1, run.dec(3, 9))
        )
    if way == LOOP:
        open_both(run, chat, project, 0)
        _miss(run, chat, project)
        return
    for number in range(len(bugs)):
        open_both(run, chat, project, number)
        attr = attrs[number]
        if project.language == "py":
            old, new = "    return ", f"    found = drop_empty(found, {attr!r})\n    return "
        else:
            old, new = (
                "  return ",
                f"  found = found.filter((one) => one.{attr} != null);\n  return ",
            )
        why = idea(run, f"`{project.function(number)}` counts entries without {attr}")
        chat.act(maybe(run, why), edit(project.path(number), old, new))
        if way == "features":
            chat.act(
                "", edit(project.test(number), "# end", f"{project.function(number)}([])\n# end")
            )
        left = bugs[number + 1 :] if way == "closer" else []
        total = project.total + (number if way == "features" else 0)
        chat.act(
            maybe(run, run.pick("Run the tests again.", "Does that help?", "Now the tests:")),
            sh(project.command(), project.tested(left, total), bool(left), run.dec(3, 9)),
        )
        if way == "features":
            chat.act(
                "",
                sh(
                    f"git commit -qam 'Skip entries without {attr}' && git log --oneline -1",
                    f"{run.hex(7)} Skip entries without {attr}",
                ),
            )
    chat.say(f"All {project.total} tests pass now; {len(bugs)} functions were changed.")


def _miss(run: Run, chat: Chat, project: Project) -> None:
    """Try the same few ideas in turn."""
    bug, attr = project.failure(0), run.pick(*FIELDS)
    total = f"total.{attr}"
    ideas = {
        "py": (
            f"    return round({total}, 2)",
            f"    return Decimal(str({total})).quantize(CENT)",
            f"    return math.floor({total} * 100) / 100",
            f"    return float(f'{{{total}:.2f}}')",
        ),
        "ts": (
            f"  return Number({total}.toFixed(2));",
            f"  return Math.round({total} * 100) / 100;",
            f"  return Math.floor({total} * 100) / 100;",
            f"  return +{total}.toPrecision(6);",
        ),
    }[project.language]
    lines = run.some(ideas, run.num(2, 4))
    now = f"    return {total}" if project.language == "py" else f"  return {total};"
    flags = ("", "", " -x", " --tb=short") if project.language == "py" else ("", "", " --bail=1")
    words = ("Test again.", "Now it should pass.", "Let me verify.", "Checking.")
    causes = (
        f"the rounding of {attr}",
        f"that {project.function(0)} rounds twice",
        "a float that is not exact",
        f"the order in which {attr} is summed",
        "the fixture, which expects the raw number",
    )
    for number in run.times(14, 18):
        if number == len(lines) + 1:
            run.begin()
        others = [one for one in lines if one != now]
        new = lines[number] if number < len(lines) else run.pick(*others)
        say = maybe(run, idea(run, run.pick(*causes)), 0.8)
        chat.act(say, edit(project.path(0), now, new))
        now = new
        cmd, out = project.command(0) + run.pick(*flags), project.tested([bug], 14)
        chat.act(maybe(run, run.pick(*words), 0.5), sh(cmd, out, 1, run.dec(1, 4)))
        if run.chance.random() < 0.2:
            chat.act("", read(project.path(0), project.source(0) + f"\n{new}"))


def _not_found(form: str, path: str, old: str) -> str:
    """Return how an agent's tool words that a text is not in a file."""
    if form == "cline":
        return (
            "The tool execution failed:\n<error>\nThe SEARCH block:\n"
            f"{old}\n...does not match anything in the file {path}.\n</error>"
        )
    if form in ("gemini-cli", "qwen-code"):
        return (
            f"Failed to edit, 0 occurrences found for old_string in {path}. No edits made. Ensure "
            "you're not escaping content incorrectly and check whitespace and indentation."
        )
    return f"String to replace not found in {path}.\nString: {old}"


@HALF.template("edit-fails", "gemini-cli cline qwen-code", "lands")
def edit_not_found(run: Run, way: str) -> None:
    """Try to replace a text that is not there as the model writes it (tabs, line ends)."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    old_name, new_name = project.function(0), f"{project.function(0)}_v2"
    chat.user(ask_to(run, f"rename {old_name} to {new_name} wherever it is used."))
    users = [project.path(n) for n in range(9)]
    hits = "\n".join(f"{path}:{run.num(20, 200)}:    {old_name}(found)" for path in users)
    chat.act("Where is it used?", sh(f"grep -rn {old_name} .", hits))
    sorry = (
        "I apologize, the replacement failed.|I see, my previous edit did not match.|"
        "The text must have changed.|You are right to expect this to work.|"
        "The indentation was wrong in my edit."
    )
    plan = (
        "I'll read the file again to get the exact text.|Let me re-read it first.|"
        "Let me check the file once more."
    )
    rounds = run.times(12, 16) if way == LOOP else range(9)
    for number in rounds:
        place = min(number, 2) if way == LOOP else number
        path, spaces = users[place], "  " * run.num(1, 4)
        old = f"{spaces}{run.pick('return ', 'kept = ', '')}{old_name}(found)"
        new = old.replace(old_name, new_name)
        source = f"{project.source(place)}\n\t{old_name}(found)\r"
        if way == LOOP and number == 4:
            run.begin()
        say = run.mix(sorry, plan) if way == LOOP and number > 2 else onward(run, f"`{path}`")
        chat.act(maybe(run, say if number else "I open the first."), read(path, source))
        fails = number > 1 if way == LOOP else way == "lands" and number % 3 != 2
        chat.act(
            maybe(run, f"Now I replace it in `{path}`.", 0.4),
            edit(path, old, new, _not_found(run.form, path, old) if fails else ""),
        )
        if fails and way == "lands":
            chat.act(
                run.mix(sorry, "This file has tabs; with these it matches.|I take one line less."),
                edit(path, f"\t{old_name}(found)", f"\t{new_name}(found)"),
            )
    if way != LOOP:
        chat.act("All of them. The tests:", sh(project.command(), project.tested([]), 0, 6))
        chat.say(f"{old_name} is now {new_name} in nine files; the tests pass.")


@HALF.template("rerun", "openhands claude-code swe-agent", "counting mended", difficulty="easy")
def hope_for_green(run: Run, way: str) -> None:
    """Run the same failing test again and again, with other flags, and change nothing."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    bug = project.failure(0)
    what = {
        LOOP: f"find out why {bug.name} fails in CI and repair it.",
        "counting": f"{bug.name} is flaky. Run it on its own with PYTHONHASHSEED from 1 to 24 and "
        "give me a table of the outcomes, we want to see how often it fails.",
        "mended": "make the suite pass under Python 3.14. Fix one failure after the other.",
    }[way]
    chat.user(ask_to(run, what))
    chat.act(
        look(run, "the layout"),
        sh(
            "git status -sb && ls",
            f"## main...origin/main\nNOTES.md  {project.name}  tests  pyproject.toml",
        ),
    )
    target = f"{bug.path}::{bug.name}"
    if way == LOOP:
        chat.act("Here is the test.", read(bug.path, project.source(0, 1)))
        flags = ("-x", "-x -vv", "--tb=short", "-p no:cacheprovider", "-rA", "-x --lf", "-s", "")
        for number in run.times(20, 28):
            if number == 2:
                run.begin()
            flag = run.pick(*flags)
            chat.act(
                maybe(run, once_more(run, run.pick("the test", "this test", f"{bug.name}")), 0.75),
                sh(
                    f"python -m pytest {flag} {target}".replace("  ", " "),
                    project.tested([bug], 1),
                    1,
                    run.dec(1, 5),
                ),
            )
        return
    if way == "counting":
        for number in range(1, 25):
            fails = run.chance.random() < 0.3
            worse = bug._replace(got=f"{float(bug.got) + run.num(0, 9) / 4:g}")
            chat.act(
                maybe(run, f"Seed {number} of 24.", 0.5),
                sh(
                    f"PYTHONHASHSEED={number} python -m pytest -q {target}",
                    project.tested([worse] if fails else [], 1),
                    fails,
                    run.dec(1, 5),
                ),
            )
        chat.say("The table is above: it fails in about a third of the runs.")
        return
    for number in range(9):
        one = project.failure(number)
        chat.act(
            maybe(run, "The first failure that is left:"),
            sh(
                "python -m pytest -x -q",
                project.tested([one], 20 + 7 * number),
                1,
                run.dec(1, 5),
            ),
        )
        chat.act(
            maybe(run, idea(run, f"how `{project.function(number)}` rounds under 3.14")),
            edit(project.path(number), f"step={one.got}", f"step={one.wanted}"),
        )
    chat.act("And now all of them.", sh("python -m pytest -q", project.tested([], 90), 0, 11))
    chat.say("The suite passes under 3.14. I changed nine modules, each in one place.")
