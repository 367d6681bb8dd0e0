"""Several agents: errands that are sent again, drafts handed back, transfers in a circle."""

from __future__ import annotations

from bench.loops.field.cast import Act, grep, read, sh, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIELDS,
    FIRMS,
    HALF,
    PEOPLE,
    Project,
    ask_to,
    look,
    maybe,
    onward,
    put,
)
from bench.loops.field.run import LOOP, Chat, Run


def _errand(run: Run, parent: Chat, say: str, prompt: str, acts: list[Act], report: str) -> None:
    """Send a sub-agent, which does these and reports."""
    name = "Task" if run.form == "claude-code" else "run_subagent"
    title = " ".join(prompt.split()[:4]).strip(".,:")
    args = {"description": title, "prompt": prompt, "subagent_type": "general-purpose"}
    parent.act(say, tool(name, args, report, takes=0.1))
    chat = run.chat("You are a sub-agent. Do what you are asked, and report back in a few lines.")
    chat.user(prompt)
    for act in acts:
        chat.act(maybe(run, look(run, "it"), 0.3), act)
    chat.say(report)


@HALF.template(
    "errand", "claude-code anthropic-mcp openai-agents", "modules phases", difficulty="hard"
)
def errand_again(run: Run, way: str) -> None:
    """Send sub-agents for an answer that the code does not have; each reports the same."""
    project = Project(run)
    parent = run.chat("You may send sub-agents.")
    noun, attr = project.nouns[0], run.pick(*FIELDS)
    what = {
        LOOP: f"find out why the {attr} of a {noun} is wrong on Mondays, and repair it.",
        "modules": f"write down for each module of {project.name} who "
        f"uses it; send a sub-agent each.",
        "phases": f"replace the {attr} of {noun}s by integers: survey, change, test, review.",
    }[way]
    parent.user(ask_to(run, what))
    parent.act(look(run, "the layout"), sh("ls", f"README.md\n{project.name}\ntests"))
    if way == LOOP:
        path, fn = project.path(0), project.function(0)
        for number in run.times(7, 9):
            if number == 1:
                run.begin()
            prompt = run.mix(
                "Investigate|Find out|Determine|Please find out",
                [f"why the {attr} of a {noun} is wrong on Mondays."],
                [
                    f"Start with {path}.",
                    f"Look at {fn} and its callers.",
                    f"Read {path} carefully.",
                ],
                "Report the cause.|Report your findings.|Tell me the root cause.",
            )
            report = run.mix(
                [f"I looked at {path} and {fn}."],
                "Nothing there depends on the day of the week.|There is "
                "no code about weekdays in it.",
                "I could not determine the cause.|The cause remains "
                "unclear.|More context is needed.",
            )
            acts = [
                read(path, project.source(0)),
                grep("weekday|monday", "", project.name),
                grep(fn, f"{project.path(1)}:{len(fn) * 7}:  {fn}(found)"),
            ][: run.num(2, 3)]
            say = run.mix(
                "The report is not conclusive.|That does not answer it.|I need a definite answer.",
                "I send another agent.|Let me delegate this again.|A fresh look will help.",
            )
            _errand(run, parent, say if number else "I send an agent.", prompt, acts, report)
        return
    for number in range(8):
        path, fn = project.path(number), project.function(number)
        users = f"{project.path(number + 1)}:{run.num(9, 99)}:  {fn}(found)"
        if way == "modules":
            prompt = (
                f"Find out who uses {path} of {project.name}. Start with {fn}. Report the callers."
            )
            report = f"{fn} is called in {users.split(':')[0]}; nothing else of {path} is used."
            acts = [read(path, project.source(number)), grep(fn, users)]
        else:
            phase = ("Survey", "Change", "Test", "Review")[number % 4]
            part = "the reader" if number < 4 else "the writer"
            prompt = f"{phase} {part} in {path}: {attr} has to be an integer. Report what you did."
            report = f"{phase} of {part}: {run.num(2, 9)} places in {path}, see {fn}."
            out = project.tested([], project.total + number)
            acts = [read(path, project.source(number)), sh(project.command(), out, 0, 4)]
        _errand(run, parent, maybe(run, onward(run, path)), prompt, acts, report)
    parent.say("All reports are in; the summary is above.")


@HALF.template("hand-back", "autogen langgraph", "improves", difficulty="hard")
def critic_and_writer(run: Run, way: str) -> None:
    """A writer sends the same draft with other commas, a critic asks for the same again."""
    firm, city, person = run.pick(*FIRMS), run.pick(*CITIES), run.pick(*PEOPLE)
    year, staff = run.num(1930, 2012), run.num(40, 900)
    points = (
        f"when {firm} was founded",
        "how many people work there",
        "who leads it",
        "where it sits",
        "what it makes",
        "who buys it",
        "what it costs",
        "how to reach them",
        "what comes next",
    )
    facts = (
        f"{firm} was founded in {year}.",
        f"{staff} people work there.",
        f"{person} leads it.",
        f"Its seat is {city}.",
        "It makes pumps, valves and gauges.",
        "Shipyards are its customers.",
        f"A pump costs {staff * 3} EUR.",
        f"Write to info@{firm.split()[0].lower()}.example.",
        f"A plant in {run.pick(*CITIES)} will open in {year % 10 + 2027}.",
    )
    writer = run.chat("You are the writer. Revise the text as the critic asks.")
    critic = run.chat("You are the critic. Say what is missing, or APPROVE.")
    task = (
        f"Write a profile of {firm} for the brochure: {'; '.join(points)}. Facts: {' '.join(facts)}"
    )
    writer.user(task, "chair")
    critic.user(f"The task of the writer: {task}", "chair")
    for number in run.times(12, 16) if way == LOOP else range(9):
        if way == LOOP:
            count = min(number + 2, 4)
            if number == 3:
                run.begin()
            opening = run.pick(
                "This is the revised text:", "I have revised it:", "Updated version:"
            )
            frills = run.some(("indeed", "of course", "today", "proudly"), 1)
            draft = " ".join(facts[:count]).replace(" was ", f" was {frills[0]} ", 1)
            wish = points[count] if number < 3 else points[4]
            remark = run.mix(
                "Better, but|Good progress, yet|Thank you, however|This reads well, but",
                [f"it does not say {wish}.", f"I still miss {wish}.", f"the reader asks {wish}."],
                "Please revise.|Please add that.|Revise and send it again.",
            )
        else:
            opening = f"I added what you missed, it has {number + 1} of the points now:"
            draft = " ".join(facts[: number + 1])
            remark = f"It does not say {points[number + 1]}." if number < 8 else "APPROVE"
        text = f"{opening}\n\n{draft}"
        writer.say(text)
        critic.user(text, "writer")
        critic.say(remark)
        writer.user(remark, "critic")
    if way != LOOP:
        writer.say("TERMINATE")


@HALF.template("transfer", "openai-agents autogen", "desks")
def sent_around(run: Run, way: str) -> None:
    """Transfer a customer from desk to desk, each of which says that it is not theirs."""
    person, order = run.pick(*PEOPLE), f"A-{run.num(10000, 99999)}"
    chat = run.chat(
        "You are the front desk of a shop. Desks: billing, delivery, returns, technical."
    )
    desks = ["billing", "delivery", "returns", "technical"]
    run.chance.shuffle(desks)
    thing = run.pick("a fee of 12.50 EUR for the return", "the label of a swapped parcel")
    orders = [f"A-{run.num(10000, 99999)}" for _ in range(9)]
    chat.user(f"Hello, this is {person}. Order {order}: who takes care of {thing}?")
    total = run.dec(20, 400)
    state = {"order": order, "status": "returned", "total": total}
    chat.act("I look at the order.", tool("get_order", {"order": order}, state))

    def transfer(desk: str, why: str) -> Act:
        return tool(f"transfer_to_{desk}", {"reason": why}, {"assistant": f"{desk} desk"})

    if way == LOOP:
        length = run.num(2, 4)
        for number in range(run.num(18, 26)):
            if number == length:
                run.begin()
            here, to = desks[number % length], desks[(number + 1) % length]
            say = run.mix(
                "I am sorry, but|Unfortunately|As far as I can see,|I am afraid",
                [f"we at {here} cannot decide this."],
                [f"The {to} desk will help you.", f"I pass you on to {to}.", f"{to} handles that."],
            )
            why = run.pick(f"{thing} of {order}", f"order {order}", f"{person}: {thing}")
            chat.act(maybe(run, say, 0.8), transfer(to, why))
        return
    for number in range(9):
        desk = desks[number % 4]
        other = orders[number]
        chat.act("", transfer(desk, f"question {number + 1} of {person} on {other}"))
        args = {"order": other, "by": desk}
        found = {"order": other, "desk": desk, "amount": run.dec(5, 300), "days": run.num(1, 30)}
        chat.act(maybe(run, look(run, f"what {desk} has")), tool("get_case", args, found))
        chat.say(f"{desk.capitalize()}: {found['amount']} EUR for {other} in {found['days']} days.")
        run.wait(20, 200)
        again = run.pick("Thanks! One more:", "Good. And another:", "Okay, next:")
        chat.user(f"{again} what about order {orders[number + 1]}?" if number < 8 else "Thanks!")
    chat.say("Then that is settled. Have a good day!")


@HALF.template("coworker", "crewai langgraph", "coworkers followups")
def delegates_again(run: Run, way: str) -> None:
    """Delegate a task to a coworker who asks for what the manager does not have."""
    firm, year = run.pick(*FIRMS), run.num(2020, 2026)
    crew = ["Market Researcher", "Data Analyst", "Copy Editor", "Fact Checker"]
    chat = run.chat(f"Your coworkers: {', '.join(crew)}.")
    cities = run.some(CITIES, 14)
    chat.user(
        ask_to(run, f"have the team write a market study for {firm} in {', '.join(cities[:9])}.")
    )
    who = run.pick(*crew)
    brief = {"firm": firm, "year": year, "length": "6 pages"}
    chat.act("First the brief.", read("brief.json", str(brief)))
    plan = f"1. sizes of the markets in {year}\n2. prices\n3. rivals of {firm}"
    chat.act("", read("outline.md", plan))

    def delegate(task: str, to: str, answer: str) -> Act:
        args = {"task": task, "context": f"{firm}, {year}", "coworker": to}
        name = "Delegate work to coworker" if run.form == "crewai" else "delegate_work"
        return tool(name, args, answer, takes=run.dec(3, 20))

    if way == LOOP:
        for number in run.times(20, 25):
            if number == 2:
                run.begin()
            task = run.mix(
                "Collect|Gather|Compile|Put together",
                "the sizes of the markets|all market sizes|numbers on the size of each market",
                [f"for {firm}", f"for the study of {firm}", f"in {year} for {firm}"],
            )
            answer = run.mix(
                "I need more information to do this:|Before I can start I need:|Please provide",
                "which segments count.|the definition of the market.|what the market includes.",
                "Then I can begin.|I will start then.|Looking forward to it.",
            )
            say = run.mix(
                [f"{who} can do that.", f"I ask {who} again.", f"The {who} has to begin."]
            )
            chat.act(say, delegate(task, who, answer))
        return
    for number, city in enumerate(cities):
        size, price = run.num(2, 90), run.dec(3, 80)
        to = crew[number % 4] if way == "coworkers" else who
        task = (
            f"Size of the market in {city}" if way == "coworkers" else f"Prices in {city}, by size"
        )
        answer = (
            f"{city}: {size} million EUR in {year}, {price} EUR a piece, source: chamber of {city}."
        )
        chat.act(maybe(run, onward(run, city), 0.8), delegate(task, to, answer))
    chat.act("I put it together.", tool("write_file", {"path": "study.md", "content": plan}, "ok"))
    chat.say("The study is in study.md.")


@HALF.template("courtesy", "autogen anthropic-mcp", "interview haggling")
def thank_you_too(run: Run, way: str) -> None:
    """Two agents that are done thank each other, and neither ends the talk."""
    firm, other = run.some(FIRMS, 2)
    buyer = run.chat(f"You buy for {firm}. End with TERMINATE when you are agreed.")
    seller = run.chat(f"You sell for {other}. End with TERMINATE when you are agreed.")
    pieces, price, city = run.num(100, 900), run.dec(9, 90), run.pick(*CITIES)
    ask = f"We need {pieces} crates in {city}. What can you offer?"
    buyer.user(f"Buy {pieces} crates from {other}, for at most {price} EUR each.", "chair")
    buyer.say(ask)
    seller.user(ask, "buyer")
    topics = (
        "the width",
        "the wood",
        "the nails",
        "the stamp",
        "the delivery",
        "the pallets",
        "the bill",
        "the warranty",
        "the samples",
        "the insurance",
    )
    high, low = price * 1.4, price * 0.6
    for number in run.times(12, 16) if way == LOOP else range(10):
        if way == LOOP and number == 2:
            run.begin()
        if way == LOOP and number > 0:
            first = put(
                run,
                "Thank you very much|Many thanks|It was a pleasure|Thank you for the kind words",
                [f"- we at {other} look forward to it.", f"; {city} will get its crates.", "."],
                "Let me know if I can do anything else.|Have a wonderful day!|All the best!",
            )
            second = put(
                run,
                "Thanks to you|Thank you as well|Likewise|We appreciate it",
                [f"; {firm} is glad to work with you.", ", this was easy.", "!"],
                "Feel free to reach out.|Have a great day too!|Until next time!",
            )
        elif way == "interview":
            first = (
                f"About {topics[number]}: we have {run.num(2, 9)} kinds, from {run.dec(1, 9)} EUR."
            )
            ask = topics[(number + 1) % 10]
            second = f"We take the one for {run.dec(1, 9)} EUR. What about {ask}?"
            if number == 9:
                second = "Good, then we have talked about everything."
        else:
            high, low = high - price * 0.04, low + price * 0.035
            first = f"{pieces} crates, {high:.2f} EUR each, {run.num(2, 9)} weeks, to {city}."
            second = (
                f"That is too much. We would pay {low:.2f} EUR, if {topics[number]} is included."
            )
            if way == LOOP:
                first = f"{pieces} crates, {price * 0.97:.2f} EUR each, in two weeks, to {city}."
                second = f"Agreed: {price * 0.97:.2f} EUR. We take {pieces}."
        seller.say(first)
        buyer.user(first, "seller")
        buyer.say(second)
        seller.user(second, "buyer")
    if way != LOOP:
        seller.say(f"Agreed, {pieces} crates it is. TERMINATE")


@HALF.template("auto-reply", "autogen langgraph", "parts")
def told_to_continue(run: Run, way: str) -> None:
    """A proxy without a person answers each message with the same line, also the last one."""
    firm, city = run.pick(*FIRMS), run.pick(*CITIES)
    chat = run.chat("The user is a proxy: it sends an automatic line while you have not finished.")
    cities, people = run.some(CITIES, 14), run.some(PEOPLE, 12)
    count = 4 if way == LOOP else 14
    chat.user(
        f"Write a travel plan for {people[0]} of {firm}, from {city}, one day after the other: "
        f"{', '.join(cities[:count])}. One day in each message.",
        "chair",
    )
    auto = run.pick(
        "Please go on, or reply TERMINATE when everything is done.",
        "Continue. If there is nothing left, say TERMINATE.",
        "(automatic) Proceed with the next part.",
    )
    for number, place in enumerate(cities[:count], 1):
        hour, sight = run.num(6, 10), run.pick("port", "town hall", "old mill", "market", "museum")
        chat.say(
            f"Day {number}, {place}. The train leaves at {hour}:{run.num(10, 59)} from platform "
            f"{run.num(1, 12)}. Meeting with {run.pick(*people)} near the {sight} at "
            f"{hour + 4}:00, dinner at {run.num(6, 9)}. The hotel costs {run.num(60, 190)} EUR."
        )
        run.wait(0.2, 3)
        chat.user(auto, "proxy")
    if way != LOOP:
        chat.say("That was the last day. TERMINATE")
        return
    for number in run.times(19, 28):
        if number == 1:
            run.begin()
        chat.say(
            put(
                run,
                "The plan is complete:|All days are planned:|Everything "
                "is in place:|As said before,",
                [
                    f"{count} days, from {cities[0]} to {cities[count - 1]}.",
                    "nothing is left to do.",
                ],
                [
                    f"I wish {people[0].split()[0]} a good trip!",
                    "Is there anything else?",
                    "Enjoy!",
                ],
            )
        )
        run.wait(0.2, 3)
        chat.user(auto, "proxy")
