"""Work about work: plans that are rearranged, notes that are kept, checks after the last check."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, todo, tool, write
from bench.loops.field.fifth.common import (
    CITIES,
    FIELDS,
    FIRMS,
    HALF,
    PEOPLE,
    Project,
    ask_to,
    earlier,
    look,
    maybe,
    onward,
    uuid,
)
from bench.loops.field.run import LOOP, Run


@HALF.template("plan", "claude-code gemini-cli", "works splits", difficulty="hard")
def plan_churn(run: Run, way: str) -> None:
    """Rewrite the plan, reorder it, mark the first item as begun, and begin nothing."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    chat.user(
        ask_to(run, f"add an audit log to {project.name}: schema, writer, reader, tests, docs.")
    )
    steps = [f"{project.verbs[n]}_{project.nouns[n]}" for n in range(9)]
    chat.act(look(run, "the code"), read(project.path(0), project.source(0)))
    chat.act("Now a plan.", todo(**dict.fromkeys(steps[:6], "pending")))
    if way == LOOP:
        for number in run.times(20, 26):
            if number == 3:
                run.begin()
            names = run.some(steps[:6], run.num(4, 6))
            if run.chance.random() < 0.4:
                names = [run.pick("the_", "properly_", "first_", "") + name for name in names]
            plan = dict.fromkeys(names, "pending") | {names[0]: run.pick("in_progress", "pending")}
            say = run.mix(
                "Let me refine the plan|I'll organise the tasks|I update "
                "the list|I restructure the plan",
                "before starting.|to be more precise.|so that it is clear what comes first.|"
                "to reflect the current state.|and then begin with the first item.",
            )
            chat.act(maybe(run, say, 0.8), todo(**plan))
        return
    state = dict.fromkeys(steps, "pending")
    for number, step in enumerate(steps):
        state[step] = "in_progress"
        if way == "splits" and number % 3 == 0:
            state |= {f"{step}_part_{part}": "pending" for part in ("one", "two")}
        chat.act(maybe(run, onward(run, step.replace("_", " "))), todo(**state))
        path, attr = project.path(number), run.pick(*FIELDS)
        if number:
            chat.act("", read(path, project.source(number)))
        chat.act("", edit(path, "return", f"audit.write({attr!r})\n    return"))
        if number % 2:
            out = project.tested([], project.total + number)
            chat.act(maybe(run, "Tests."), sh(project.command(), out, 0, run.dec(3, 9)))
        state |= dict.fromkeys([key for key in state if key.startswith(step)], "completed")
    chat.act("", todo(**state))
    chat.say("The audit log is in.")


@HALF.template("memory", "langgraph openai-agents", "facts corrections")
def keeps_in_mind(run: Run, way: str) -> None:
    """Save the same fact about the user in other words, and never answer."""
    chat = run.chat("You have search_notes, and save_memory for what is worth to be kept.")
    person, firm, city = run.pick(*PEOPLE), run.pick(*FIRMS), run.pick(*CITIES)
    day = run.pick("Tuesday", "Wednesday", "Thursday")
    first = person.split()[0]
    firms, cities = run.some(FIRMS, 12), run.some(CITIES, 12)
    kinds = ("needs 6 weeks", "delivers on Fridays", "wants prepayment", "has no ramp")
    needs = [run.pick(*kinds) for _ in firms]
    what = {
        LOOP: f"I am {person}, buyer at {firm} in {city}. When can I come for the visit?",
        "facts": f"I am {person}. Remember what I tell you about our suppliers: {firms[0]} in "
        f"{cities[0]} {needs[0]}.",
        "corrections": f"I am {person}, buyer at {firm}. Go through the "
        f"notes of suppliers and save "
        "for each what matters for my visit.",
    }[way]
    chat.user(what)
    notes = {"notes": [{"id": 1, "text": f"Visits are possible on {day}s, {run.num(9, 16)}:00."}]}
    chat.act("I look that up.", tool("search_notes", {"query": "visit"}, notes))
    if way == LOOP:
        facts = (
            f"{first} is a buyer at {firm} in {city}",
            f"User {person} works for {firm} ({city}) as a buyer",
            f"{person}: buyer, {firm}, {city}; wants to visit",
            f"{first} wants to visit; {firm}, {city}",
            f"The user's name is {person}; employer {firm}",
        )
        for number in run.times(20, 25):
            if number == 3:
                run.begin()
            args = {
                "content": facts[number] if number < 3 else run.pick(*facts),
                "type": "semantic",
            }
            out = f"Stored memory {uuid(run)}"
            say = run.pick(
                "", "", "I keep that in mind.", "Let me save this.", f"I note it, {first}."
            )
            chat.act(say, tool("save_memory", args, out))
        return
    for place, (other, where) in enumerate(zip(firms, cities, strict=True)):
        need = needs[place]
        if way == "corrections":
            found = {"notes": [{"id": place + 2, "text": f"{other}, {where}: {need}."}]}
            chat.act(maybe(run, onward(run, other)), tool("search_notes", {"query": other}, found))
        args = {"content": f"{other} in {where} {need}", "type": "semantic"}
        chat.act("", tool("save_memory", args, f"Stored memory {uuid(run)}"))
        if way == "facts":
            chat.say(f"Noted: {other} {need}.")
            run.wait(20, 200)
            if place == 11:
                chat.user("That is all of them, thank you.")
                break
            after, there, need = firms[place + 1], cities[place + 1], needs[place + 1]
            chat.user(
                run.pick(f"{after} in {there} {need}.", f"Next: {after}, {there}. It {need}.")
            )
    chat.say("I have kept all of it.")


@HALF.template("finish", "codex mini-swe-agent", "checklist reports")
def last_check(run: Run, way: str) -> None:
    """Say that all is done, verify it for the last time, say so again, verify it again."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    what = {
        LOOP: f"add a --dry-run flag to {project.name}.",
        "checklist": f"go through RELEASE.md of {project.name} and verify "
        f"each point before we ship.",
        "reports": f"run each of the nine reports of {project.name} with the new flag and compare.",
    }[way]
    chat.user(ask_to(run, what))
    flag = 'parser.add_argument("--dry-run", action="store_true")'
    chat.act(look(run, "the command line"), read("cli.py", project.source(0)))
    if way == LOOP:
        chat.act("I add the flag.", edit("cli.py", "parser = make()", f"parser = make()\n{flag}"))
        chat.act("", sh(project.command(0), project.tested([], 12), 0, 4))
        usage = (
            f"usage: {project.name} [-h] [--dry-run] file\n\noptions:\n  --dry-run  write nothing"
        )
        checks = (
            ("python cli.py --help", usage),
            ("git diff --stat", " cli.py | 1 +\n 1 file changed, 1 insertion(+)"),
            ("grep -n 'dry' cli.py", f"{len(usage)}:{flag}"),
        )
        for number in run.times(20, 25):
            if number == 3:
                run.begin()
            say = run.mix(
                "All done.|The flag is implemented.|Everything works as "
                "expected.|The task is complete.",
                "A final check before I submit.|Let me verify it one last time.|"
                "Just to be sure, one more look.|"
                "One last verification.|I confirm that nothing is missed.",
            )
            if run.chance.random() < 0.4:
                act = sh(project.command(), project.tested([]), 0, run.dec(3, 9))
            else:
                cmd, out = run.pick(*checks)
                act = sh(cmd, out)
            chat.act(say, act)
        return
    for number, noun in enumerate(project.nouns):
        rows = run.num(100, 9000)
        if way == "reports":
            first = sh(f"python cli.py report {noun} > a.txt; wc -l a.txt", f"{rows} a.txt", 0, 3)
            chat.act(maybe(run, onward(run, f"the report on {noun}s")), first)
            cmd = f"python cli.py report {noun} --dry-run > b.txt; diff a.txt b.txt | wc -l"
            chat.act("", sh(cmd, str(number % 3), 0, 3))
            continue
        version = f"{run.num(1, 9)}.{run.num(0, 20)}"
        cmd = run.pick(
            f"python -m {project.name}.{noun} --version",
            f"pip show {project.name}-{noun} | head -2",
        )
        chat.act(
            maybe(run, onward(run, f"point {number + 1}, {noun}")), sh(cmd, f"{noun} {version}")
        )
        if number % 2:
            done = edit("RELEASE.md", f"- [ ] {noun} {version}", f"- [x] {noun} {version}")
            chat.act(maybe(run, "That is in order."), done)
        else:
            out = project.tested([], 10 + number)
            chat.act("", sh(project.command(number), out, 0, run.dec(1, 4)))
    chat.say("Each point is verified.")


@HALF.template("rewrite", "gemini-cli crewai", "chapters feedback")
def same_file_again(run: Run, way: str) -> None:
    """Write the same report anew, in nearly the same words, instead of handing it in."""
    chat = run.chat()
    firm, month = run.pick(*FIRMS), run.pick("May", "June", "August", "October")
    cities = run.some(CITIES, 12)
    sales = {city: run.num(90, 4000) for city in cities}
    what = {
        LOOP: f"write report.md on the sales of {firm} in {month}, half a page.",
        "chapters": f"write a page on the sales of {firm} in {month} for "
        f"each of: {', '.join(cities)}.",
        "feedback": f"write report.md on the sales of {firm} in {month}. "
        f"I tell you what to change.",
    }[way]
    chat.user(ask_to(run, what) if way != "feedback" else what)
    table = "\n".join(f"{city},{count}" for city, count in sales.items())
    chat.act("The numbers first.", read("sales.csv", f"city,units\n{table}"))
    best, least = max(sales, key=lambda c: sales[c]), min(sales, key=lambda c: sales[c])
    chat.act("", sh("awk -F, '{s+=$2} END {print s}' sales.csv", str(sum(sales.values()))))

    def report(variant: int, about: str = "") -> str:
        verb = ("rose", "grew", "went up", "increased")[variant % 4]
        close = ("", "\n\nWe recommend to look at this again.", "\n")[variant % 3]
        return (
            f"# Sales of {firm} in {month}\n\n{about}Sales {verb} to "
            f"{sum(sales.values())} units. {best} "
            f"was strongest with {sales[best]}, {least} weakest with {sales[least]}.{close}"
        )

    if way == LOOP:
        for number in run.times(19, 27):
            if number == 2:
                run.begin()
            say = run.mix(
                "Now I write the report.|I have all the data; writing it "
                "down.|Let me improve the wording.|"
                "I'll finalise the report.|The report should be more concise.",
            )
            chat.act(maybe(run, say, 0.8), write("report.md", report(run.num(0, 11))))
            if run.chance.random() < 0.2:
                chat.act("", read("sales.csv", f"city,units\n{table}"))
        return
    for number, city in enumerate(cities):
        text = f"{city} sold {sales[city]} units, {sales[city] * 100 // sales[best]}% of {best}. "
        if way == "chapters":
            chat.act(
                maybe(run, onward(run, city)), write(f"{city.lower()}.md", f"# {city}\n\n{text}")
            )
            continue
        chat.act(maybe(run, "I change that."), write("report.md", report(len(city), text)))
        chat.say(f"report.md now begins with {city}.")
        run.wait(60, 600)
        if number == 11:
            chat.user("Good, leave it like that.")
            break
        other = cities[number + 1]
        chat.user(run.pick(f"Say more on {other}.", f"Begin with {other} please.", f"And {other}?"))
    chat.say("All pages are written." if way == "chapters" else "The report stays as it is.")


@HALF.template("format", "swe-agent mini-swe-agent", "slips")
def without_an_action(run: Run, way: str) -> None:
    """Answer with words where the harness wants a command, and be told so each time."""
    project = Project(run, "py")
    chat = run.chat()
    bug = project.failure(0)
    earlier(run, chat, project)
    chat.user(ask_to(run, f"repair what makes {bug.name} fail in {project.name}; then submit."))
    fence = "mswea_bash_command" if run.form == "mini-swe-agent" else ""
    wants = (
        f"Format error: there must be EXACTLY ONE action in a block of "
        f"three backticks ({fence or 'bash'}), "
        "found 0 of them. Write your answer anew, with a discussion "
        "and one action. If you are done, "
        "submit with the command that the instructions name."
    )

    def slip(done: str, *closes: str) -> None:
        """Say something without a command, and hear of it."""
        words = run.mix(
            "You are right, I am sorry.|My apologies for that.|I see.|Understood.|Of course.",
            [done],
            closes,
        )
        chat.say(words)
        chat.user(wants)

    chat.act(look(run, "the test"), read(bug.path, project.source(0, 1)))
    chat.act("It fails:", sh(project.command(0), project.tested([bug], 12), 1, 3))
    if way == LOOP:
        chat.act("The sum is off.", edit(project.path(0), bug.got, bug.wanted))
        chat.act("", sh(project.command(0), project.tested([], 12), 0, 3))
        for number in run.times(19, 27):
            if number == 2:
                run.begin()
            slip(
                run.pick(
                    f"{bug.name} passes now.",
                    f"All changes to {project.path(0)} are made.",
                    "The fix is complete and was tested.",
                    "Since every edge case is covered, nothing else is needed.",
                ),
                "I submit the solution.",
                "The task is finished.",
                "I will submit now.",
            )
        return
    for number in range(8):
        path, attr = project.path(number), run.pick(*FIELDS)
        chat.act(maybe(run, look(run, path)), read(path, project.source(number)))
        if number % 3 == 1:
            slip(f"I want to change how {attr} is summed in {path}.", "That should do.", "Like so:")
        chat.act(maybe(run, f"I change `{path}`."), edit(path, "LIMIT", f"{attr.upper()}_LIMIT"))
        left = [bug._replace(got=f"{float(bug.got) + number:g}")] if number < 7 else []
        out = project.tested(left, 12 + number)
        chat.act("", sh(project.command(0), out, bool(left), run.dec(1, 4)))
    chat.act("I submit.", sh("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "", 0, 0.1))
