"""Agents that talk: to themselves, to each other, to customers."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, tool
from bench.loops.field.run import LOOP, Half, Run, cycle
from bench.loops.field.wire import User

HALF = Half("first")

FOLK = ("Maren", "Tobias", "Ines", "Yusuf", "Petra", "Oskar", "Lucía", "Anouk", "Kofi", "Wei")


@HALF.template("only talk", "cline langgraph autogen gemini-cli", "chapters")
def empty_plans(r: Run, way: str) -> None:
    c, what = r.chat(), r.pick("importer", "scheduler", "mail queue", "audit log")
    parts = r.some(
        ("aim", "model", "input", "limits", "errors", "tests", "release", "costs", "staff"), 9
    )
    c.user(f"Build the {what} as described in SPEC.md.")
    if way == "chapters":
        for number, part in enumerate(parts):
            c.say(f"Chapter {number + 1}, {part}: the {what} keeps its {part} in {r.hex(6)}. " * 3)
            c.user(f"Good. Continue with the next chapter after {part}.")
        c.say(f"That was the last chapter on the {what}.")
        return
    nudge = (
        "[ERROR] You did not use a tool in your previous response! Please retry "
        "with a tool use.\n\n"
        "# Next Steps\nIf you have completed the task, use attempt_completion. Otherwise continue."
    )
    for turn in r.times(14, 18):
        if turn == 1:
            r.begin()
        c.say(
            r.mix(
                "I apologize for the confusion.|You're right, I should act.|Understood.|Of course.",
                f"I will now start to build the {what}.|Next I will create the "
                f"files of the {what}.",
                "First I'll read SPEC.md, then write the code, then the "
                "tests.|My plan: read, write, test.",
                "Let me begin.|Starting now.|Here we go.",
            )
        )
        c.user(nudge)


def _two(r: Run, left: str, right: str, task: str, lines: list[tuple[str, str]]) -> None:
    """Play a chat of two agents, each with its own view of it."""
    one, two = r.chat(system=f"You are {left}."), r.chat(system=f"You are {right}.")
    one.user(task, "admin")
    for first, second in lines:
        one.say(first)
        two.user(first, left)
        two.say(second)
        one.user(second, right)


@HALF.template("thanks", "autogen autogen langgraph gemini-api", "sections reviews")
def polite_pair(r: Run, way: str) -> None:
    left, right = r.pick(("writer", "editor"), ("coder", "tester"), ("planner", "analyst"))
    topic = r.pick("the release notes", "the outage report", "the onboarding guide")
    lines = []
    for number, name in enumerate(r.some(FOLK, 9)):
        if way == "sections":
            lines.append(
                (
                    f"Section {number + 1} of {topic}, on the work of {name}: "
                    f"ticket {r.hex(5)} cost "
                    f"{r.num(2, 40)} hours and saved {r.num(2, 90)} a week.",
                    f"Section {number + 1} is fine; I moved {r.hex(4)} before the "
                    f"figures of {name}.",
                )
            )
        elif way == "reviews":
            lines.append(
                (
                    f"Draft {number + 1}: mended the {r.num(2, 9)} points on {name}.",
                    f"Still {9 - number} open points, the next is about {name}'s table {r.hex(3)}.",
                )
            )
        else:
            thanks = r.mix(
                "Thank you!|Thanks a lot!|Much appreciated!", "You are welcome.|Great work."
            )
            bye = r.mix("Have a great day!|All the best!|Let me know if you need anything else.")
            back = r.mix(
                "You're welcome!|My pleasure!|Glad to help!", "It was nice to work with you."
            )
            if not number:
                thanks = f"Here is the final text of {topic}. {thanks}"
            lines.append((f"{thanks} {bye}", f"{back} {bye}"))
    r.begun = 2 if way == LOOP else None
    _two(r, left, right, f"Write {topic} together. Say TERMINATE when it is done.", lines)


@HALF.template("handing back", "openai-agents openai-agents langgraph", "cases")
def handoff_circle(r: Run, way: str) -> None:
    c = r.chat(system="You are the desk. Hand over to billing or to tech where it is their case.")
    order = f"R-{r.num(10_000, 99_999)}"
    c.user(f"I was charged for {order} and the download does not work.")
    desks = cycle(("billing", "tech"))
    for turn in r.times(16, 19):
        desk = next(desks)
        if turn == 2:
            r.begin()
        if way == "cases":
            case = f"R-{r.num(10_000, 99_999)}"
            c.user(
                f"Next in the queue is {case}: {r.pick('a refund', 'no login', 'double charge')}."
            )
            c.act("", tool(f"transfer_to_{desk}", {"case": case}, {"assistant": desk}))
            c.say(f"{desk} has settled {case}: code {r.hex(4)}.")
            continue
        why = r.mix("this is|it looks like", "a matter of|a case for", desk)
        c.act("", tool(f"transfer_to_{desk}", {"case": order, "reason": why}, {"assistant": desk}))


@HALF.template(
    "delegated again", "claude-code opencode anthropic-mcp gemini-cli", "fan-out samples"
)
def sub_task(r: Run, way: str) -> None:
    main, area = r.chat(), r.pick("billing", "search", "profile", "export")
    prompt = (
        f"Find where the {area} module opens its database connection, and report file and line."
    )
    name = "Task" if r.form == "claude-code" else "delegate"
    main.user(f"Add a retry to the database connection of {area}.")
    missing = f"I found no place where {area} opens a connection; db/ is not in this checkout."

    def child(ask: str, answer: str, path: str) -> None:
        sub = r.chat(system="You are a sub-agent. Report what you find in one message.")
        sub.user(ask)
        sub.act(
            "",
            sh(
                f"ls {path}",
                "LICENSE\nREADME.md\nsrc\nsrc/http.py\nsrc/mail.py\nsrc/util.py"
                if way == LOOP
                else f"conn_{r.hex(3)}.py",
            ),
        )
        sub.say(answer)

    if way == "fan-out":
        modules = [f"{area}-{n}" for n in range(7)]
        asks = [prompt.replace(area, module) for module in modules]
        main.act(
            "One for each part.",
            *(tool(name, {"prompt": ask}, f"src/{r.hex(3)}.py") for ask in asks),
        )
        clock = r.clock
        for ask, module in zip(asks, modules, strict=True):
            r.clock = clock + r.dec(0, 1)
            child(ask, f"It is in src/{module}.py, line {r.num(2, 90)}.", module)
    elif way == "samples":
        main.act("Seven opinions.", *(tool(name, {"prompt": prompt}, f"v{n}") for n in range(7)))
        clock = r.clock
        for number in range(7):
            r.clock = clock + r.dec(0, 1)
            child(prompt, f"Opinion {number}: conn_{r.hex(3)}.py, as of line {r.num(2, 90)}.", area)
    else:
        for turn in r.times(8, 10):
            if turn == 1:
                r.begin()
            say = r.mix(
                "I need|Let me get", "an agent|a sub-agent", "to find|to locate", "it.|the place."
            )
            main.act(say, tool(name, {"prompt": prompt}, missing, takes=20))
            child(prompt, missing, r.pick("db", "./db", "src/db/.."))
    if way != LOOP:
        r.wait(15)
        main.act("", edit("src/db.py", "connect()", "retry(connect)"))
        main.say("The connection is tried three times now.")


@HALF.template(
    "same message", "anthropic-mcp openai-agents crewai claude-code", "recipients reminders"
)
def mail_again(r: Run, way: str) -> None:
    c, who = r.chat(), r.pick(*FOLK)
    date = f"{r.num(2, 27)} March"
    c.user(
        f"Invite all {len(FOLK)} guests to the review on {date}."
        if way == "recipients"
        else f"Invite {who} to the review on {date}, and tell me when it is sent."
    )
    subject = f"Review on {date}"
    text = f"we meet on {date} at 10:00 in room {r.num(1, 9)}. Please confirm.\n\nKind regards"
    sent = lambda: {"status": "sent", "id": f"<{r.hex(12)}@mx>", "at": r.stamp()}  # noqa: E731
    if way == "recipients":
        for name in FOLK:
            args = {
                "to": f"{name.lower()}@acme.test",
                "subject": subject,
                "body": f"Dear {name},\n{text}",
            }
            c.act("Next guest.", tool("send_email", args, sent()))
        c.say("All are invited.")
        return
    args = {"to": f"{who.lower()}@acme.test", "subject": subject, "body": f"Dear {who},\n{text}"}
    c.act("I send it.", tool("send_email", args, sent()))
    if way == "reminders":
        for day in range(5):
            c.say("It is sent.")
            r.wait(86_000)
            c.user(f"Day {day + 1}: {who} has not answered. Send it again, please.")
            c.act("I send it again.", tool("send_email", args, sent()))
        c.say("Sent.")
        return
    r.begin()
    for turn in r.times(14, 18):
        body = r.mix("Dear|Hello|Hi", who) + f",\n{text}" if turn % 2 else args["body"]
        say = r.mix("Now I'll|Let me|I will", "send the invitation|send the email", f"to {who}.")
        c.act(say, tool("send_email", {**args, "body": body}, sent()))


@HALF.template("support bot", "langgraph openai-agents gemini-api crewai", "asks-again queue")
def lost_order(r: Run, way: str) -> None:
    c, order = (
        r.chat(system="You serve the customers of a shop for lamps."),
        f"L{r.num(10**6, 10**7)}",
    )
    c.user(f"Where is my parcel? Order {order}.")
    none = {"error": "NOT_FOUND", "message": f"no order {order}", "trace": r.hex(8)}
    if way == "asks-again":
        for _ in range(5):
            c.act("", tool("track", {"order": order}, {"state": "in transit", "as_of": r.stamp()}))
            c.say(f"Your parcel {order} is on its way; it should be there on Friday.")
            r.wait(600, 4000)
            c.user(
                r.pick(
                    "Where is my parcel?", "And now? Where is it?", "Still nothing. Where is it?"
                )
            )
        c.say("It will be there on Friday. I asked the carrier to call you.")
        return
    if way == "queue":
        for number in range(10):
            other = f"L{r.num(10**6, 10**7)}" if number else order
            if number:
                c.user(f"Good morning, where is {other}?")
            c.act(
                "", tool("find_order", {"id": other}, {**none, "message": f"no order {other}"}, 1)
            )
            c.say(f"I cannot find {other}. Could you check the number?")
        return
    tools = (
        ("find_order", {"id": order}),
        ("find_order", {"id": order.lower()}),
        ("track", {"order": order}),
        ("find_order", {"id": order[1:]}),
        ("track", {"order": f"#{order}"}),
    )
    for turn, (name, args) in zip(r.times(17, 21), cycle(tools), strict=False):
        if turn == 5:
            r.begin()
        say = r.mix("One moment, I|Please hold, I", "look it up|search for it", "again.|for you.")
        c.act(say, tool(name, args, none, 1))


@HALF.template("review round", "autogen autogen langgraph", "improves")
def review_round(r: Run, way: str) -> None:
    """A coder and a reviewer: the same objection to the same code."""
    name = r.pick("slugify", "clamp", "chunked", "parse_size")
    coder, critic = (r.chat(system=f"You are the {who}.") for who in ("coder", "reviewer"))
    points = (
        "empty input",
        "negative numbers",
        "type hints",
        "a docstring",
        "unicode",
        "a test",
        "speed",
    )
    task = f"Write the function {name}. The reviewer has to say APPROVED."
    coder.user(task, "user_proxy")
    critic.items.append(User(task, "user_proxy"))
    turns = len(points) if way == "improves" else r.num(9, 11)
    for turn in range(turns):
        if turn == 1:
            r.begin()
        point = points[turn] if way == "improves" else points[0]
        body = f"    # handles {', '.join(points[:turn])}\n" if way == "improves" else ""
        say = r.mix("Here is the improved version:|I addressed your feedback:|Updated code:")
        code = f"{say}\n```python\ndef {name}(value):\n{body}    return value\n```"
        coder.say(code)
        critic.user(code, "coder")
        verdict = r.mix("Not yet:|Almost, but:|Please revise:", f"it does not cover {point}.")
        critic.say(verdict)
        coder.user(verdict, "reviewer")
    if way == "improves":
        coder.say("```python\n# final\n```")


@HALF.template("user repeats", "claude-code gemini-cli opencode cline", "humans")
def continue_please(r: Run, way: str) -> None:
    """A driver that says `continue` to an agent that is done; a user who asks for more."""
    c, site = r.chat(), r.pick("docs site", "landing page", "changelog page")
    c.user(f"Mend the broken link on the {site}.")
    c.act("", read("site/index.md", "[guide](guied.md)"))
    c.act("", edit("site/index.md", "guied.md", "guide.md"))
    c.say("The link is mended.")
    for turn in range(6) if way == "humans" else r.times(15, 19):
        if turn == 1:
            r.begin()
        if way == "humans":
            page = f"site/{r.hex(4)}.md"
            c.user("Continue with the next page.")
            c.act("", edit(page, "guied.md", "guide.md"))
            c.say(f"Mended on {page} too.")
            continue
        c.user("Continue working on the task. If you are done, say so.")
        c.say(
            r.mix("The task is|Everything is|All work is", "complete:|done:", "the link is mended.")
        )
