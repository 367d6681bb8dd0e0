"""Several agents: thanks without end, tasks passed to and fro, critics who say the same."""

from __future__ import annotations

from bench.loops.field.cast import read, sh, todo, tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import (
    CITIES,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    Project,
    Voice,
    do,
    quiet,
)


@HALF.template("thanks", "autogen autogen", "review bargain", difficulty="easy")
def thanks_without_end(run: Run, way: str) -> None:
    """The task is done, and two agents thank each other and say goodbye, again and again."""
    firm, topic = run.pick(*FIRMS), run.pick("newsletter", "press release", "offer", "job advert")
    left = run.chat(f"You are Writer. You write texts for {firm}.")
    right = run.chat(f"You are Editor. You review texts for {firm} and ask for changes.")
    items = run.some(NOUNS, 12)
    task = f"Work out a {topic} about our {items[0]}s. Mention price, date and place."
    left.user(task, "Admin")
    right.user(task, "Admin")

    def turn(by: str, text: str) -> None:
        speaker, other = (left, right) if by == "Writer" else (right, left)
        speaker.say(text)
        other.user(text, by)
        run.wait(0.2, 1)

    prices = [run.num(9, 900) for _ in range(12)]
    turn(
        "Writer",
        f"{firm} presents the new {items[0]} from {run.pick(*CITIES)}, at {prices[0]} EUR.",
    )
    turn("Editor", "Good start. Please add the date, and why one should care.")
    turn("Writer", f"From {run.num(2, 28)} March: a {items[0]} that lasts, for {prices[0]} EUR.")
    points = run.num(2, 4) if way == LOOP else run.num(6, 9) if way == "review" else 0
    for place in range(1, points):
        word = items[place]
        turn("Editor", f"Point {place}: what does the {word} do for {run.pick(*PEOPLE)}?")
        gain = f"saves {run.num(2, 60)} minutes a week and costs {prices[place]}"
        turn("Writer", f"Added: the {word} {gain}. {run.pick('', 'Is that what you meant?')}")
    if way == LOOP:
        turn("Editor", "That has all we need. I approve it as it is.")
        thanks = Voice(
            run,
            "[Thank you|Thanks] [so much|very much|] for the [kind words|great collaboration]!",
            "[You're|You are] [very|most|] welcome! [It was|It's been] a pleasure [working with "
            "you|].",
            "[Likewise|Same here]! [Have a great day|All the best], and [goodbye|take care]!",
            f"[I look|Looking] forward to [our next|the next] {topic}. [Goodbye|Bye for now]!",
            "[Goodbye|Bye]! [Don't hesitate to|Please] reach out [any time|whenever you need me].",
            "[Wonderful|Great]! If there is anything else, [let me know|I'm here].",
            empty=0,
        )
        for number in range(run.num(18, 30)):
            if number == 2:
                run.begin()
            turn(("Writer", "Editor")[number % 2], thanks())
        return
    if way == "bargain":
        high, low = run.num(900, 2000), run.num(300, 600)
        turn("Editor", f"Now the fee. I can pay {low} for the {topic}.")
        for number in range(run.num(4, 6)):
            high -= run.num(20, 70)
            low += run.num(20, 60)
            ask = run.pick("with two rounds of changes", "with a picture", "within three days")
            turn("Writer", f"I could do it for {high}, {ask}.")
            turn("Editor", f"{low} is what I have{', if ' + ask if number % 2 else ''}.")
        turn("Writer", f"Agreed at {(high + low) // 2}. TERMINATE")
        return
    turn("Editor", "All points are settled; I approve. TERMINATE")


@HALF.template("handoff", "openai-agents langgraph", "parts", difficulty="medium")
def case_passed_to_and_fro(run: Run, way: str) -> None:
    """Each of two agents holds the other to be responsible, and hands the case over."""
    firm = run.pick(*FIRMS)
    a, b = run.pick(("billing", "accounts"), ("sales", "support"), ("claims", "policies"))
    first = run.chat(f"You are the {a} agent of {firm}. Hand over what is not yours.")
    second = run.chat(f"You are the {b} agent of {firm}. Hand over what is not yours.")
    items = run.some(NOUNS, 9)
    id = f"C-{run.num(1000, 99999)}"
    ask = f"My {items[0]} was charged twice, and the {items[1]} is in the wrong name. ({id})"
    first.user(ask)
    quiet(first, tool("get_customer", {"id": id}, {"id": id, "name": run.pick(*PEOPLE)}))
    for word in items[: run.num(2, 4)]:
        row = {"item": word, "amount": run.dec(3, 400), "state": "paid", "ref": run.hex(6)}
        quiet(first, tool("get_charges", {"id": id, "item": word}, row))
    say = Voice(
        run,
        "[This|The case] [belongs to|is one for] [the other team|my colleagues]. "
        "[Transferring|I'll transfer] it.",
        "[I can't|I cannot] [change|see] [this|that] [here|from my side]. [Handing|I'll hand] "
        "over.",
        "[The|This] customer [needs|should talk to] [the right|another] [team|agent].",
        "[Let me|I'll] [connect you|pass this on] [right away|now].",
    )
    if way == LOOP:
        second.user(f"Handed over by {a}: {ask}")
        for number in range(run.num(17, 28)):
            if number == 3:
                run.begin()
            one, name = ((first, b), (second, a))[number % 2]
            note = run.pick("see history", "not ours", f"case {id}", "please check")
            out = {"assistant": f"{name.title()} agent"}
            do(one, say, tool(f"transfer_to_{name}", {"note": note}, out, takes=0.1))
            run.wait(0.2, 1)
            (second, first)[number % 2].user(f"Handed over by {(a, b)[number % 2]}: {ask}")
        return
    second.user(f"Handed over by {a}: {ask}")
    for place, word in enumerate(items[: run.num(6, 9)]):
        one, name = ((first, b), (second, a))[place % 2]
        args = {"id": id, "item": word, "reason": run.pick("double charge", "wrong name")}
        one.act(f"The {word} first.", tool("correct", args, {"done": True, "ref": run.hex(8)}))
        out = {"assistant": f"{name.title()} agent"}
        note = f"{word} is corrected; next is {items[(place + 1) % 9]}"
        do(one, say, tool(f"transfer_to_{name}", {"note": note}, out, takes=0.1))
        (second, first)[place % 2].user(f"Handed over by {(a, b)[place % 2]}: {note}")
    second.say(f"All is corrected for {id}.")


@HALF.template("critic", "autogen langgraph", "better", difficulty="hard")
def critic_who_says_the_same(run: Run, way: str) -> None:
    """A critic asks for what the draft has no source for; the draft comes back as it was."""
    firm, topic = run.pick(*FIRMS), run.pick("market entry", "loyalty scheme", "shop move")
    writer = run.chat("You write a plan. Improve it as the critic says.")
    critic = run.chat("You are a critic. Say APPROVED if the plan is good, otherwise what lacks.")
    city = run.pick(*CITIES)
    writer.user(f"Write a plan of one page for the {topic} of {firm} in {city}.")
    words = run.some(NOUNS, 12)
    facts = {
        w: f"{w.title()}s cost {run.num(3, 90)} thousand and bring {run.num(2, 40)} %."
        for w in words
    }
    lacks = run.mix("market data|figures on competitors|a risk table", "with sources|with numbers")
    remarks = Voice(
        run,
        f"[The plan|It] is [clear|well made], but it [lacks|still lacks] {lacks}. [Please|Do] "
        "add [it|that].",
        f"[I miss|What is missing is] {lacks}. [Revise|Please revise].",
        f"[Better|Good], [yet|but] without {lacks} I [cannot|can't] approve [it|this].",
        f"Not [yet|quite] there: {lacks} [is|is still] [needed|missing].",
        empty=0,
    )
    heads = Voice(
        run,
        "[Here is|This is] the [revised|improved] plan[|, with your remarks in it].",
        "[Thank you|Thanks] for the [remarks|feedback]. [The|Here is the] new version.",
        "[I have|I've] [reworked|revised] the plan [as you said|accordingly].",
        empty=0,
    )
    base = f"{topic.title()} of {firm} in {city}. "
    plan = base + " ".join(facts[word] for word in words[:4])
    honest = run.num(3, 5) if way == LOOP else run.num(7, 8)
    rounds = honest + (run.num(9, 14) if way == LOOP else 0)
    for number in range(rounds):
        if number < honest:
            plan = base + " ".join(facts[word] for word in words[: 3 + number])
            need = words[3 + number]
            remark = run.mix(
                "Good.|Better.|I like it.|That is a start.",
                [
                    f"What about {need}s? Add them.",
                    f"Now say what {need}s cost.",
                    f"{need.title()}s?",
                ],
            )
        elif run.chance.random() < 0.3:
            plan = base + " ".join(
                facts[word] for word in run.some(words[: 2 + honest], 2 + honest)
            )
        if way == LOOP and number >= honest - 1:
            remark = remarks()
        elif number == rounds - 1:
            remark = "APPROVED"
        if number == honest + 1:
            run.begin()
        writer.say(f"{heads()}\n\n{plan}")
        critic.user(f"The plan:\n{plan}", "writer" if run.form == "autogen" else "")
        critic.say(remark)
        writer.user(remark, "critic" if run.form == "autogen" else "")
        run.wait(0.5, 2)


@HALF.template("delegation", "langgraph claude-code", "shares", difficulty="medium")
def task_given_again(run: Run, way: str) -> None:
    """The head of a team has a task done, does not see that it is done, and gives it again."""
    project = Project(run)
    chat = run.chat("You lead a team of agents; give them tasks with the tool, and merge results.")
    project.earlier(chat)
    name = "Task" if run.form == "claude-code" else "delegate"
    at = run.num(0, 8)
    aim, found = run.pick(
        ("who calls it and with what", "It has one caller, {caller}, which passes open items."),
        (
            "how it handles time zones",
            "It compares naive times; {caller} passes UTC, so that works.",
        ),
        ("what it does on errors", "It catches nothing; {caller} logs the error and goes on."),
    )
    chat.user(
        f"Find out for {project.call(at)} {aim}; then for the other modules of {project.name}."
    )
    project.survey(chat, 3, 6, at)
    say = Voice(
        run,
        "[Let me|I'll] [ask|have] [an agent|the analyst] [to look into it|look at this].",
        "[Delegating|I'll delegate] [this|the analysis] [to|again to] [the analyst|a sub-agent].",
        "[I need|I still need] the [analysis|findings]. [Starting|I'll start] [an agent|the "
        "analyst].",
        "[Let me|I'll] get [a more complete|the] [answer|analysis] [first|].",
    )
    told = found.format(caller=project.path(at + 4))
    answer = f"{project.call(at)} is in {project.path(at)}, line {run.num(9, 90)}. {told}"
    if way == LOOP:
        for number in range(run.num(15, 24)):
            if number == 2:
                run.begin()
            ask = run.mix(
                "Analyse|Examine|Investigate|Look into",
                [project.call(at)],
                "and report|and find out",
                [aim],
            )
            head = run.mix("Done.|Result:|I looked into it.|Findings:", [answer])
            args = {"description": f"Analyse {project.words[at]}", "prompt": ask}
            more = f"\n\nagentId: {run.hex(8)} ({run.num(3, 9)} tool uses, {run.num(20, 90)} s)"
            do(chat, say, tool(name, args, head + more, takes=run.dec(20, 90)))
        return
    for place in range(at, at + run.num(12, 17)):
        args = {
            "description": f"Analyse {project.words[place % 9]}",
            "prompt": f"Look into {project.call(place)}, part {place // 9 + 1}, and report {aim}",
        }
        told = found.format(caller=f"{project.path(place + run.num(1, 8))}:{run.num(9, 200)}")
        text = (
            f"{project.call(place)} ({project.path(place)}): {told}\n\nagentId: {run.hex(8)} "
            f"({run.num(3, 9)} tool uses, {run.num(20, 90)} s)"
        )
        do(chat, say, tool(name, args, text, takes=run.dec(20, 90)))
    chat.say("The findings for all modules are above.")


@HALF.template("nudge", "claude-code opencode qwen-code", "steps unblocked", difficulty="medium")
def told_to_go_on(run: Run, way: str) -> None:
    """A harness says that tasks are open; the agent says that only a person can do the rest."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    who = run.pick(*PEOPLE)
    words = run.some(project.words, 9)
    chat.user(f"Do the tasks of PLAN.md in {project.name} until none is open.")
    chat.act(
        "I'll read the plan.",
        read("PLAN.md", "\n".join(f"- [ ] {word}s: log what is skipped" for word in words)),
    )
    project.survey(chat, 3, 6)
    hook = run.pick(
        "Stop hook feedback:\n[check-plan.sh]: PLAN.md has open tasks. Continue.",
        "[SYSTEM REMINDER - TODO CONTINUATION]\nIncomplete tasks remain in your todo list. Proceed "
        "with the next task without asking for permission.",
        "There are still open items. Continue until all are done.",
    )
    project.work(chat, run.num(4, 7), 2)
    if way != "steps":
        key = run.pick("the signing key", "the DNS entry", "the licence", "access to staging")
        says = Voice(
            run,
            "[All|Everything] [that I can do|on my side] is done. The [last|one open] task "
            f"needs {key} from {who}.",
            f"I'm [still|] [waiting for|blocked on] {key}; {who} must [provide|approve] it.",
            f"[Nothing|There is nothing] [more|else] [I can do|to do] [until|before] {who} "
            f"[provides|hands over] {key}.",
            f"[The|As said, the] remaining task [is blocked|cannot be done by me]: {key} [is "
            "missing|has not come].",
            "[No further|No more] [action|work] [is possible|on my side]. [Standing by|Waiting].",
            empty=0,
        )
        chat.say(f"All tasks but one are done; the last needs {key} from {who}.")
        for number in range(run.num(16, 40) if way == LOOP else 2):
            if number == 2:
                run.begin()
            chat.user(hook)
            if run.chance.random() < 0.2:
                quiet(chat, todo(code="completed", tests="completed", release="pending"))
            chat.say(says())
            run.wait(0.2, 2)
        if way == LOOP:
            return
        chat.user(f"{who} here: you have {key} now. Go on, and do the release, please.")
        project.work(chat, run.num(8, 14), 5)
        chat.say("The last task is done, too.")
        return
    for place in range(run.num(5, 7)):
        chat.say(f"The task for {words[place]}s is done.")
        chat.user(hook)
        quiet(chat, read(project.path(place), project.source(place)))
        chat.act(f"Next are {words[place + 1]}s.", project.change(place))
        quiet(chat, sh(project.only(place), project.passed(run.num(3, 20)), takes=4.0))
    chat.say("No task is open any more.")
