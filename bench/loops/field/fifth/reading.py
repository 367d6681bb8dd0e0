"""Readers who forget: the same files in turn, after each compaction, or when results are gone."""

from __future__ import annotations

from itertools import chain

from bench.loops.field.cast import Act, edit, grep, read, sh, tool, write
from bench.loops.field.fifth.common import (
    FIELDS,
    FIRMS,
    HALF,
    Project,
    ask_to,
    asked_before,
    earlier,
    look,
    maybe,
    onward,
)
from bench.loops.field.run import LOOP, Run, cycle


@HALF.template("cycle", "claude-code opencode cline", "review questions")
def same_shelf(run: Run, way: str) -> None:
    """Read two to six places in turn, to understand them at last, and never write a word."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    file = f"docs/{project.nouns[0]}.md"
    what = {
        LOOP: f"describe in {file} how {project.name} handles a {project.nouns[0]}.",
        "review": f"review {project.name} file by file, and note what you find in REVIEW.md.",
        "questions": f"help me to understand {project.name}. What does {project.path(0)} do?",
    }[way]
    chat.user(ask_to(run, what) if way != "questions" else what)
    chat.act(look(run, "the layout"), sh("ls", "README.md\ndocs\nsrc\ntests"))
    if way == LOOP:
        places: list[Act] = [
            *(read(project.path(number), project.source(number)) for number in range(3)),
            grep(project.function(0), f"{project.path(1)}:31:  {project.function(0)}(found)"),
            sh(f"git log --oneline -3 -- {project.path(0)}", f"{run.hex(7)} Split {project.name}"),
            read(project.test(0), project.source(0, 2)),
        ]
        places = run.some(places, run.num(2, 6))
        reasons = (
            "I need the full picture before I write.",
            f"Now I understand; let me check {project.function(0)} once more.",
            "To be sure, I look at this part.",
            "I have enough context now, only this is missing.",
            "Before writing I verify one detail.",
            "Let me look at how this is used.",
        )
        total = run.num(20, 34)
        for number, act in zip(range(total), cycle(places), strict=False):
            if number == len(places):
                run.begin()
            chat.act(maybe(run, run.pick(*reasons), 0.6), act)
        return
    for number in range(9):
        path, other = project.path(number), project.nouns[(number + 1) % 9]
        if way == "review":
            chat.act(maybe(run, onward(run, path)), read(path, project.source(number)))
            chat.act("", read(project.test(number), project.source(number, 1)))
            attr = run.pick(*FIELDS)
            note = f"- `{path}`: {attr} of a {other} may be negative in {project.function(number)}."
            chat.act(maybe(run, "One remark."), sh(f"echo '{note}' >> REVIEW.md", ""))
            continue
        path = project.path(number % 4)
        chat.act(maybe(run, look(run, path)), read(path, project.source(number % 4)))
        if number % 2:
            hit = f"{project.path(2)}:{run.num(9, 99)}:  {project.function(number)}(found)"
            chat.act("", grep(project.function(number), hit))
        chat.say(
            f"`{project.function(number)}` takes "
            f"{project.nouns[number]}s and returns the one whose "
            f"{run.pick(*FIELDS)} is largest; a {other} is made of it later."
        )
        run.wait(30, 300)
        question = run.mix(
            "And|Okay, and|Thanks. And",
            "what is|where do we need|why is there|who calls",
            [f"{project.function(number + 1)} in {project.path((number + 1) % 4)}?"],
        )
        chat.user(question)
    chat.say(
        "REVIEW.md has nine remarks." if way == "review" else "It is called by the nightly job."
    )


@HALF.template(
    "re-reading", "claude-code codex gemini-cli openhands", "moves chapters", "compacted", "hard"
)
def after_each_summary(run: Run, way: str) -> None:
    """Read the same plan and files after each compaction, and get no further than the last time."""
    project = Project(run)
    chat = run.chat()
    plan = "\n".join(
        f"{number + 1}. {project.verbs[number]} {project.nouns[number]}s with a schema, with a test"
        for number in range(9)
    )
    chat.user(ask_to(run, f"implement PLAN.md in {project.name}, all nine items."))
    done = [0]

    def summary() -> str:
        finished = f"Done so far: {done[0]} of 9 items." if done[0] else "No item is finished yet."
        return (
            f"The user wants PLAN.md implemented in {project.name}. {finished} I have read "
            f"{project.path(done[0])} and {project.path(done[0] + 1)} "
            f"and understand the structure. "
            f"Next step: implement item {done[0] + 1}."
        )

    chat.summary = summary
    chat.act("I begin with the plan.", read("PLAN.md", plan))
    chat.act("", read("README.md", project.source(8, 1)))
    if way == LOOP:
        chat.act("The first item.", edit(project.path(0), "LIMIT", "SCHEMA_LIMIT"))
        chat.act("", sh(project.command(0), project.tested([], 12), 0, 3))
        done[0] = 1
        files = [project.path(number) for number in (1, 2, 3)]
        acts = [
            read("PLAN.md", plan),
            *(read(path, project.source(number)) for number, path in enumerate(files, 1)),
            sh("git status --short", f" M {project.path(0)}"),
            read(project.test(1), project.source(1, 2)),
            grep(
                project.function(1), f"{files[1]}:{len(plan) % 90}:  {project.function(1)}(found)"
            ),
            sh(f"git diff --stat {project.path(0)}", f" {project.path(0)} | 2 +-"),
        ]
        chat.act("", acts[1])
        chat.act("", acts[2])
        chat.act("", acts[3])
        for number in run.times(26, 36):
            if number == 2:
                run.begin()
            act = acts[number % 9] if number % 9 < len(acts) else run.pick(*acts)
            first = number % 9 in (0, 1)
            say = "I pick up where I left off." if first else run.pick("", look(run, "the details"))
            chat.act(maybe(run, say), act)
        return
    for number in range(9):
        if way == "moves":
            chat.act("I continue with the plan.", read("PLAN.md", plan))
        path = project.path(number)
        chat.act(maybe(run, look(run, path), 0.5), read(path, project.source(number)))
        if way == "chapters":
            text = f"# {project.nouns[number].capitalize()}\n\n" + project.source(number)[:400]
            chat.act("", write(f"docs/{number + 1}.md", text))
        attr = run.pick(*FIELDS)
        chat.act(maybe(run, f"Item {number + 1}."), edit(path, "LIMIT", f"{attr.upper()}_LIMIT"))
        bug = project.failure(number)
        out = project.tested([bug] if number % 3 == 1 else [], 12 + number)
        chat.act("", sh(project.command(number), out, number % 3 == 1, run.dec(1, 4)))
        if number % 3 == 1:
            chat.act("One is off.", edit(project.test(number), bug.wanted, bug.got))
            out = project.tested([], 12 + number)
            chat.act("", sh(project.command(number), out, 0, run.dec(1, 4)))
        done[0] = number + 1
    chat.say("All nine items of PLAN.md are implemented and tested.")


@HALF.template("elided", "claude-code langgraph", "glossary compare", "elided", "hard")
def cleared_results(run: Run, way: str) -> None:
    """Read what is cleared by the time that it is needed, and read it again."""
    chat = run.chat()
    asked_before(run, chat)
    firms = run.some(FIRMS, 12)
    seed = run.hex(6)
    what = {
        LOOP: f"compare the contracts of {', '.join(firms[:6])} and "
        f"write a table of notice periods.",
        "glossary": "translate the twelve contracts to French, with the words of glossary.md.",
        "compare": "write one line for each of the twelve contracts to notice.csv: firm, months.",
    }[way]
    chat.user(ask_to(run, what))
    paths = [f"contracts/{firm.split()[0].lower()}.md" for firm in firms]
    chat.act("Which are there?", sh("ls contracts", "\n".join(paths)))

    def contract(number: int) -> str:
        months = (len(firms[number]) + int(seed, 16)) % 9 + 1
        rent, day = 400 + 37 * number, number * 2 + 1
        return (
            f"# Agreement with {firms[number]}\n\n1. Term. It begins on {day} March and runs for "
            f"{months * 6} months.\n2. Rent. {rent} EUR a month, due on "
            f"the {day}th.\n3. Notice. Either "
            f"side may end it with {months} months' notice in "
            f"writing.\n4. Place. The courts of the "
            f"lessor's seat decide.\n5. Deposit. {rent * 2} EUR, no interest. Ref {seed}-{number}."
        )

    glossary = "notice: préavis\nlessor: bailleur\ndeposit: dépôt\nterm: durée\nrent: loyer"
    if way == LOOP:
        total = run.num(24, 34)
        for number in range(total):
            if number == 6:
                run.begin()
            place = number % 6
            say = run.mix(
                "I need the notice period of|Let me get|I no longer have|Back to",
                [f"{firms[place]}"],
                "for the table.|before I write.|once more.|to compare it with the others.",
            )
            chat.act(maybe(run, say), read(paths[place], contract(place)))
        return
    for number, path in enumerate(paths):
        if way == "glossary":
            chat.act(maybe(run, "The glossary, for the words.", 0.4), read("glossary.md", glossary))
        chat.act(maybe(run, onward(run, firms[number])), read(path, contract(number)))
        months = contract(number).split("with ")[2].split(" ")[0]
        if way == "glossary":
            text = f"# Contrat avec {firms[number]}\n\n3. Préavis. {months} mois par écrit."
            chat.act("", write(path.replace("contracts", "fr"), text))
        else:
            row = f"{firms[number]},{months}"
            chat.act(maybe(run, f"{months} months."), sh(f"echo '{row}' >> notice.csv", ""))
    chat.say("All twelve are done.")


@HALF.template("trimmed", "langgraph anthropic-mcp", "rows tickets", "trimmed", "hard")
def short_memory(run: Run, way: str) -> None:
    """Start anew whenever the first steps have left the window: a cycle longer than the memory."""
    chat = run.chat()
    firms = run.some(FIRMS, 14)
    chat.user(ask_to(run, f"check the credit of our customers: {'; '.join(firms)}."))
    ids = {firm: f"C-{run.num(10000, 99999)}" for firm in firms}
    notes = {firm: run.dec(300, 800, 0) for firm in firms}

    def steps(firm: str) -> list[tuple[str, Act]]:
        id, note = ids[firm], notes[firm]
        orders = [{"order": f"{id}-{n}", "total": note * n + 17.5} for n in range(1, 4)]
        found = {"customer": id, "name": firm, "since": 2009 + int(note) % 14}
        bureau = {"customer": id, "score": note, "defaults": int(note) % 3, "as_of": "2026-10-31"}
        return [
            (f"First I look up {firm}.", tool("find_customer", {"name": firm}, found)),
            ("Its orders.", tool("list_orders", {"customer": id}, orders)),
            ("What the bureau says.", tool("credit_report", {"customer": id}, bureau)),
        ]

    def verdict(firm: str) -> Act:
        word = "good" if notes[firm] > 550 else "watch"
        return tool("set_rating", {"customer": ids[firm], "rating": word}, {"ok": True})

    if way == LOOP:
        for firm in firms[:2]:
            for say, act in steps(firm):
                chat.act(maybe(run, say), act)
            chat.act(f"{firm} is rated.", verdict(firm))
        circle = list(chain.from_iterable(steps(firm) for firm in firms[2:5]))[: run.num(7, 9)]
        total = run.num(26, 34)
        for number, (say, act) in zip(range(total), cycle(circle), strict=False):
            if number == len(circle):
                run.begin()
            chat.act(maybe(run, say, 0.7), act)
        return
    for firm in firms if way == "rows" else firms[:11]:
        for say, act in steps(firm):
            chat.act(maybe(run, say, 0.5), act)
        if way == "tickets" and notes[firm] < 600:
            text = f"{firm} has a score of {notes[firm]:.0f}; please call them."
            made = {"ticket": run.num(1000, 9999)}
            chat.act("That needs a person.", tool("open_ticket", {"text": text}, made))
        chat.act(maybe(run, f"{firm} is rated."), verdict(firm))
    chat.say("All customers have a rating now.")


@HALF.template("repeat", "opencode claude-code qwen-code", "commits watches", difficulty="easy")
def what_has_changed(run: Run, way: str) -> None:
    """Ask for the same state of a folder again and again, with nothing done in between."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    what = {
        LOOP: f"commit what is finished in {project.name}, in sensible commits.",
        "commits": f"commit the changes in {project.name}, one commit for each file.",
        "watches": f"migrate the nine files in {project.name} to the new headers; tell me after "
        "each what git sees.",
    }[way]
    chat.user(ask_to(run, what))
    files = [project.path(number) for number in range(9)]
    stat = "\n".join(f" {path} | {run.num(2, 40)} +-" for path in files)
    chat.act(
        maybe(run, "What has changed?"),
        sh("git diff --stat", "" if way == "watches" else stat),
    )
    if way == LOOP:
        for path in files[:2]:
            out = f"[main {run.hex(7)}] Update {path}\n 1 file changed"
            chat.act(onward(run, path), sh(f"git commit -m 'Update {path}' {path}", out))
        left = files[2:]
        short = "## main\n" + "\n".join(f" M {path}" for path in left)
        status = (
            "On branch main\nYour branch is ahead of 'origin/main' by 2 commits.\n\n"
            "Changes not staged for commit:\n"
            + "\n".join(f"\tmodified:   {path}" for path in left)
            + '\n\nno changes added to commit (use "git add" and/or "git commit -a")'
        )
        outs = {
            "git status": status,
            "git status -sb": short,
            "git status && git diff --stat | tail -1": f"{status}\n {len(left)} files changed",
        }
        cmds = run.some(["git status", *outs], run.num(1, 3))
        for number in run.times(20, 28):
            if number == 2:
                run.begin()
            say = run.mix(
                "Let me check|I check|Let me see|Now I look at",
                "the state of the repository|what is left|the current status|the working tree",
                "before I go on.|again.|first.|to decide about the next commit.",
            )
            cmd = run.pick(*cmds)
            chat.act(maybe(run, say, 0.6), sh(cmd, outs[cmd]))
        return
    for number, path in enumerate(files):
        if way == "watches":
            chat.act(maybe(run, onward(run, path)), read(path, project.source(number)))
            chat.act("", edit(path, "LIMIT", "MAXIMUM"))
            state = "\n".join(f" M {one}" for one in files[: number + 1])
            chat.act("", sh("git status --short", state))
            continue
        head = f"{project.verbs[number].capitalize()} {project.nouns[number]}s in one pass"
        out = f"[main {run.hex(7)}] {head}\n 1 file changed, {run.num(2, 40)} insertions(+)"
        chat.act(maybe(run, onward(run, path)), sh(f"git commit -m '{head}' {path}", out))
        state = "\n".join(f" M {one}" for one in files[number + 1 :])
        chat.act(maybe(run, "What is left?", 0.4), sh("git status --short", state))
    chat.say("That is all of it.")
