"""Support, offices and research, with one agent or several; and agents that only talk."""

from __future__ import annotations

from bench.loops.field.cast import grep, read, tool
from bench.loops.field.fourth.habits import Voice
from bench.loops.field.run import LOOP, Half, Run
from bench.loops.field.wire import Json

HALF = Half("fourth")
template = HALF.template

_CLIENTS = ("Aalto", "Brandt", "Castro", "Dupont", "Eriksen", "Fontana", "Garcia", "Horvat")
_THEMES = ("heat pumps", "cargo bikes", "oat milk", "grid batteries", "modular housing")


@template(
    "refunds",
    "openai-agents anthropic-mcp langgraph autogen",
    "batch outage users",
    difficulty="easy",
)
def refused_refund(r: Run, way: str) -> None:
    """A refund is past its term; it is asked for with other reasons and other spellings."""
    voice = Voice(r)
    client, order = r.pick(*_CLIENTS), f"SO-{r.num(10**5, 10**6)}"
    amount = r.dec(20, 300)
    c = r.chat("You work for the support desk of an online shop. You may refund orders.")

    def problem(status: int, code: str, detail: str) -> dict[str, object]:
        return {
            "error": {"status": status, "code": code, "detail": detail},
            "request_id": f"req_{r.hex(12)}",
            "timestamp": r.stamp(),
        }

    def done(of: str) -> dict[str, object]:
        return {"refund": f"re_{r.hex(10)}", "order": of, "status": "pending"}

    late = problem(422, "refund_window_expired", "Refunds end 60 days after delivery.")
    if way == "batch":
        c.user("Refund the orders of the recall, list those that cannot be refunded.")
        for _ in range(14):
            of = f"SO-{r.num(10**5, 10**6)}"
            args = {"order_id": of, "amount": r.dec(9, 90), "reason": "recall"}
            out = {**late, "request_id": r.hex(12)} if r.num(0, 2) == 0 else done(of)
            c.act(r.pick("", f"{of}."), tool("create_refund", args, out, "error" in out))
        c.say("The refunds are made; some are past their term.")
        return
    if way == "users":
        chats = []
        for who in r.some(_CLIENTS, 5):
            r.session = r.hex(12)
            chats.append((who, f"SO-{r.num(10**5, 10**6)}", r.chat()))
        for who, of, one in chats:
            one.user(f"Hello, this is {who}. I want my money back for {of}, it broke.")
            one.act("", tool("get_order", {"order_id": of}, {"order": of, "state": "closed"}))
        for _, of, one in chats:
            args = {"order_id": of, "amount": r.dec(20, 300), "reason": "defective"}
            said = r.pick("I try to refund it.", "", "Let me ask for a refund.")
            one.act(said, tool("create_refund", args, late, 1))
        for who, of, one in chats:
            args = {"customer": who, "order_id": of, "percent": 20}
            one.act("I offer a voucher.", tool("create_voucher", args, {"code": r.hex(8).upper()}))
            one.say(f"{who}, the term for {of} is over, but I have a voucher for you.")
        return
    c.user(f"Customer {client} wants {amount} back for {order}, it broke. Please arrange it.")
    looked = {"order": order, "delivered_at": "2026-09-02", "total": amount, "state": "closed"}
    c.act("I look at the order.", tool("get_order", {"order_id": order}, looked))
    if way == "outage":
        for _ in range(4):
            args = {"order_id": order, "amount": amount, "reason": "defective"}
            out = problem(503, "unavailable", "The payment provider does not answer.")
            c.act(r.pick("", "I try again shortly."), tool("create_refund", args, out, 1))
            r.wait(20, 60)
        c.act("", tool("create_refund", {"order_id": order, "amount": amount}, done(order)))
        c.act("", tool("add_note", {"order_id": order, "text": "Refunded, defective."}, "saved"))
        c.act("", tool("send_mail", {"to": client, "text": "Your money is on its way."}, "sent"))
        c.act("", tool("get_order", {"order_id": order}, {**looked, "state": "refunded"}))
        c.say("The refund is made, and the customer knows.")
        return
    reasons = ["defective", "broken on arrival", "product defect", "warranty", "goodwill"]
    for number in r.times(18, 22):
        if number == 2:
            r.begin()
        args = {
            "order_id": r.pick(order, order, order.removeprefix("SO-"), order.lower()),
            "amount": r.pick(amount, str(amount), round(amount), f"{amount} EUR"),
            "reason": r.pick(*reasons),
        }
        args |= r.pick({}, {}, {"notify": True}, {"currency": "EUR"})
        out = {**late, "request_id": f"req_{r.hex(12)}", "timestamp": r.stamp()}
        said = voice(
            ["The refund was refused.", "I apologise.", "Error 422.", "That did not work.", ""],
            [
                f"Let me use the reason '{args['reason']}'.",
                "I'll adjust the parameters.",
                "Perhaps the format of the amount is wrong.",
                "I'm trying the refund again.",
            ],
        )
        said = said if number else "It broke, so I refund it."
        c.act(said, tool("create_refund", args, out, 1))


@template("calendars", "openai-agents gemini-api langgraph", "searches people")
def two_slots(r: Run, way: str) -> None:
    """Two slots are taken in turn, and both have a conflict."""
    voice = Voice(r)
    one, two = r.some(_CLIENTS, 2)
    c = r.chat()

    def conflict(who: str) -> dict[str, object]:
        return {"status": 409, "conflict": {"attendee": who, "event": f"evt_{r.hex(6)}"}}

    def booked() -> dict[str, object]:
        return {
            "status": 201,
            "event": f"evt_{r.hex(10)}",
            "link": f"https://meet.example/{r.hex(6)}",
        }

    days = [f"2027-01-{day}T{hour}:00" for day in range(18, 23) for hour in ("09", "11", "14")]
    if way == "people":
        c.user("Book an annual review with each client, half an hour, in this order.")
        for place, who in enumerate(_CLIENTS):
            if r.num(0, 2) == 0:
                args = {"start": days[place], "attendees": [who], "title": "Annual review"}
                c.act("", tool("create_event", args, conflict(who), 1))
            args = {"start": days[place + 1], "attendees": [who], "title": "Annual review"}
            c.act(r.pick("", f"Now {who}."), tool("create_event", args, booked()))
        c.say("All reviews are booked.")
        return
    c.user(f"Find an hour next week for {one} and {two} and book it.")
    if way == "searches":
        for place, start in enumerate(days[:12]):
            args = {"start": start, "attendees": [one, two], "title": "Kick-off"}
            out = conflict(r.pick(one, two)) if place < 11 else booked()
            c.act(r.pick("", f"{start}?"), tool("create_event", args, out, place < 11))
        c.say("It is booked.")
        return
    pair = (r.pick(*days[:6]), r.pick(*days[6:]))
    titles = ["Kick-off", "Kick-off meeting", "Kickoff", f"{one} / {two}"]
    for number in r.times(20, 24):
        start, who = pair[number % 2], (one, two)[number % 2]
        if number == 2:
            r.begin()
        args = {"start": start, "attendees": r.some((one, two), 2), "title": r.pick(*titles)}
        said = voice(
            [f"{who} is busy at the other time.", "A conflict.", "Not free.", "Then"],
            [f"I take {start}.", f"let me try {start}.", f"{start} suits both better."],
        )
        said = said if number else f"I start with {start}."
        c.act(said, tool("create_event", args, conflict(who), 1))


@template("reviews", "autogen crewai langgraph openai-agents", "points articles", difficulty="hard")
def reviewer_repeats(r: Run, way: str) -> None:
    """A critic wants a source that the writer does not have; the text is only worded anew."""
    theme, share = r.pick(*_THEMES), r.num(11, 48)
    heads = [f"The market for {theme} grows", f"Demand for {theme} is on the rise"]
    middles = [
        f"analysts see {share} percent more sales in 2027",
        f"sales will go up by {share} percent this year",
        f"an increase of {share} percent is expected for 2027",
        f"the sector counts on {share} percent more this year",
    ]
    ends = ["Prices stay level.", "Prices hardly change.", "Prices remain stable.", "Prices hold."]
    wants = [
        f"Where do the {share} percent come from? Name the source.",
        f"The figure of {share} percent needs a citation.",
        f"Please back up the {share} percent with a reference.",
        f"Good style, but there is still no source for {share} percent.",
        f"I cannot approve this before the {share} percent are sourced.",
    ]
    points = {
        "The opening is dull.": "Three years ago hardly anyone knew them.",
        "Who buys them?": "Most buyers are towns and small firms.",
        "Explain the price.": "Half of the price is for the cells.",
        "Is there a counter-example?": "In Norway, sales fell.",
        "What about rules?": "A European rule takes effect in May.",
        "Quote somebody.": "'We cannot build enough,' says a maker.",
        "The end is abrupt.": "So the next winter decides.",
        "Add what it means for tenants.": "Tenants need the consent of the owner.",
    }
    writer, critic = r.chat("You are the writer."), r.chat("You are the critic. Approve or object.")
    writer.user(f"Write three sentences for our newsletter on {theme}; the critic must approve.")
    text = f"{heads[0]}: {middles[0]}. {ends[0]}"
    if way == "articles":
        for number, name in enumerate(_THEMES):
            if number:
                writer.user(f"Approved. Next: {name}.")
            writer.say(f"On {name}: {middles[number % 4]}. {ends[number % 4]}")
            critic.user(f"On {name}: {middles[number % 4]}. {ends[number % 4]}")
            critic.say(wants[number])
            writer.user(wants[number])
            said = f"On {name}: {middles[number % 4]}, says report {r.num(10, 99)} of the agency."
            writer.say(said)
            critic.user(said)
            critic.say("APPROVE")
        return
    asked = list(points.items())
    for number in range(8 if way == "points" else r.num(11, 13)):
        if number == 2:
            r.begin()
        writer.say(text)
        critic.user(text)
        if way == "points":
            want, more = asked[number]
            text = f"{text} {more}"
        else:
            want = r.pick(*wants)
            lead = r.pick("", "Here is the revised text: ", "Thank you. ", "Improved version: ")
            text = f"{lead}{r.pick(*heads)}: {r.pick(*middles)}. {r.pick(*ends)}"
        critic.say(want)
        writer.user(want, "critic" if r.form == "autogen" else "")
    if way == "points":
        writer.say(text)
        critic.user(text)
        critic.say("APPROVE")


@template("research", "gemini-api langgraph crewai openai-agents", "topics", "trimmed")
def same_hits(r: Run, way: str) -> None:
    """A search engine gives the same three pages, however the question is worded."""
    voice = Voice(r)
    theme = r.pick(*_THEMES)
    town, year = r.pick("Graz", "Malmö", "Porto", "Gdynia", "Leuven"), r.num(2019, 2024)
    words = ["registrations", "number", "count", "statistics", "how many", "official data"]
    c = r.chat()

    def hit(about: str) -> dict[str, str]:
        name = about.replace(" ", "-")
        return {
            "url": f"https://{r.pick('news', 'blog', 'stat')}.example/{name}-{r.hex(4)}",
            "title": f"{about.capitalize()}: {r.pick('an overview', 'the facts', 'a guide')}",
            "snippet": f"... {about} since {r.num(2010, 2025)}, about {r.num(100, 9000)} ...",
        }

    if way == "topics":
        c.user(f"Collect sources on {theme} in twelve countries, one search for each.")
        for land in "AT BE CZ DE DK EE ES FI FR IE IT NL".split():
            found: Json = {"results": [hit(f"{theme} {land}") for _ in range(3)]}
            call = tool("web_search", {"query": f"{theme} {r.pick(*words)} {land}"}, found)
            c.act(r.pick("", f"{land}.", "Next country."), call)
        c.say("The sources are above.")
        return
    known = [hit(theme), hit(f"{theme} in {town}"), hit(f"{town} town council")]
    c.user(f"How many {theme} were registered in {town} in {year}? I need the exact number.")
    for number in r.times(21, 25):
        if number == 3:
            r.begin()
        parts = r.some([theme, town, str(year), r.pick(*words), r.pick("", "pdf", "report")], 5)
        query = " ".join(part for part in parts if part)
        found = {"results": r.some(known, 3), "took": r.dec(0.1, 0.9), "id": r.hex(10)}
        said = voice(
            ["No exact number in these.", "Not specific enough.", "These are general.", "Hm,"],
            [
                "let me refine the search.",
                "I'll search with other words.",
                f"I should look for {r.pick(*words)}.",
                "I try a narrower query.",
            ],
        )
        said = said if number else "I search for it."
        c.act(said, tool("web_search", {"query": query}, found))


@template("handoffs", "openai-agents autogen langgraph", "customers solved")
def nobody_feels_responsible(r: Run, way: str) -> None:
    """Triage hands a customer to billing, and billing hands back."""
    client, topic = r.pick(*_CLIENTS), r.pick("a double charge", "a SEPA mandate", "a VAT number")
    c = r.chat("Agents: triage, billing, technical. Hand over whom you cannot help.")

    def over(to: str, why: str) -> None:
        shown = {"assistant": f"{to.capitalize()} Agent"}
        c.act(why, tool(f"transfer_to_{to}", {"reason": why}, shown, 0, 0.1))

    if way == "customers":
        for who in _CLIENTS:
            c.user(f"[{who}] I have a question about {topic}, order {r.num(100, 999)}.")
            over("billing", f"{who} asks about {topic}.")
            c.act("", tool("get_account", {"name": who}, {"name": who, "balance": r.dec(-9, 90)}))
            c.say(f"{who}: it will be corrected with the next invoice.")
        return
    c.user(f"[{client}] There is {topic} on my account since the change of plan, please fix it.")
    back = [
        f"The change of plan is a matter for triage, not {topic}.",
        "This does not concern an invoice.",
        f"{client} has no open invoice, so triage should decide.",
        "A plan was changed; I only do payments.",
    ]
    there = [
        f"{client} asks about {topic}.",
        "This is about payments.",
        f"{topic.capitalize()} belongs to billing.",
        "Billing can look at the account.",
    ]
    for number in range(2 if way == "solved" else r.num(10, 12)):
        if number == 1:
            r.begin()
        over("billing", r.pick(*there))
        over("triage", r.pick(*back))
    if way == LOOP:
        return
    c.say("Do you mean the charge of the old plan, or of the new one?")
    c.user("Of the old one.")
    over("technical", "The old plan was not ended.")
    c.act("", tool("get_plans", {"name": client}, {"plans": ["S-2024", "M-2026"]}))
    c.act("", tool("end_plan", {"name": client, "plan": "S-2024"}, {"status": "ended"}))
    over("billing", "The old plan is ended; credit what was paid since.")
    c.act("", tool("credit", {"name": client, "amount": r.dec(5, 50)}, {"status": "booked"}))
    c.say("The old plan is ended, and the amount is credited.")


@template("sub-agents", "claude-code opencode openhands", "modules together")
def same_errand(r: Run, way: str) -> None:
    """Sub-agents are sent for what does not exist, one after another."""
    voice = Voice(r)
    what = r.pick("rate limiter", "retention rule", "audit trail", "feature toggle", "tax table")
    parts = ("auth", "cart", "feed", "mail", "stock", "media", "quota", "theme")
    c = r.chat()

    def send(prompt: str, found: str, pattern: str, hits: str) -> None:
        sub = r.chat("You are a sub-agent. Report in one paragraph.")
        sub.user(prompt)
        sub.act("", grep(pattern, hits))
        sub.act("", read(f"{pattern}/README.md", f"# {pattern}\n\n{hits or 'Nothing special.'}"))
        sub.say(found)

    if way != LOOP:
        c.user(f"How does each module implement its {what}? Use sub-agents, then compare.")
        errands = []
        for part in parts[: 5 if way == "together" else 6]:
            line = f"{part}/core.py:{r.num(9, 90)}: limit = {r.num(10, 900)}"
            found = f"{part} has it in core.py, with a limit of {r.num(10, 900)}."
            errands.append(
                (f"Find the {what} of {part}. Report file and limit.", found, part, line)
            )
        if way == "together":
            tasks = [
                tool("Task", {"description": part, "prompt": prompt}, found, 0, 0)
                for prompt, found, part, _ in errands
            ]
            c.act("I send them all at once.", *tasks)
            at = last = r.clock
            for errand in errands:
                r.clock = at + r.dec(0, 0.5)
                send(*errand)
                last = max(last, r.clock)
            r.clock = last
        else:
            for prompt, found, part, line in errands:
                args = {"description": f"Look at {part}", "prompt": prompt}
                c.act(r.pick("", f"{part} next."), tool("Task", args, found, 0, 0))
                send(prompt, found, part, line)
        c.say("They differ in their limits, see above.")
        return
    c.user(f"Document how our {what} works, in docs/. Use sub-agents to look at the code.")
    asks = ["Find", "Locate", "Search the repository for", "Look thoroughly for", "Identify"]
    tails = ["Report its file.", "Return paths and lines.", "Be thorough.", "Check all folders."]
    nothing = [
        f"I searched the whole repository and found no {what}.",
        f"There is no {what} in this code base, only unrelated mentions.",
        f"No implementation of a {what} exists here.",
    ]
    for number in r.times(6, 7):
        if number == 1:
            r.begin()
        prompt = f"{r.pick(*asks)} the {what}. {r.pick(*tails)}"
        found = r.pick(*nothing)
        said = voice(
            ["The agent found nothing.", "It must be there.", "Not found.", "Let me see."],
            ["I send another one.", "A more thorough search.", "Once more with clear words."],
        )
        args = {"description": f"{r.pick('Find', 'Locate')} {what}", "prompt": prompt}
        c.act(
            said if number else "I have the code looked at first.", tool("Task", args, found, 0, 0)
        )
        send(prompt, found, r.pick(*what.split()), "")


@template("promises", "autogen crewai langgraph", "chapters", difficulty="easy")
def ready_to_start(r: Run, way: str) -> None:
    """An agent says that it will begin, is told to go on, and says so again."""
    voice = Voice(r)
    theme = r.pick(*_THEMES)
    c = r.chat()
    c.user(f"Write a guide to {theme} for our readers, chapter by chapter.")
    go = ["Please continue.", "Go on.", "Continue, please.", "Yes, go ahead."]
    chapters = ("Costs", "Rules", "Makers", "Upkeep", "Risks", "Grants", "Noise", "Space", "Resale")
    if way == "chapters":
        for name in chapters:
            words = " ".join(r.some("safe cheap large quiet local new old shared fast".split(), 5))
            c.say(f"## {name}\n\nWith {theme}, {name.lower()} are {words}, {r.num(3, 90)} percent.")
            c.user(r.pick(*go))
        c.say(f"That was the last chapter of the guide to {theme}. Shall I add an index?")
        return
    for number in r.times(18, 22):
        if number == 1:
            r.begin()
        c.say(
            voice(
                ["Understood.", "Certainly!", "Of course.", "Great.", "Sure thing.", "Thank you."],
                [
                    f"I'll now start writing the guide to {theme}.",
                    f"I am going to begin with the first chapter on {theme}.",
                    f"Next, I will write the chapters about {theme}.",
                    "I will proceed with the first chapter right away.",
                ],
                [
                    "I'll share it shortly.",
                    "One moment, please.",
                    "It will be ready in a moment.",
                    "Let me get to work.",
                ],
            )
        )
        c.user(go[0] if r.form == "autogen" else r.pick(*go))


@template("mails", "anthropic-mcp openai-agents langgraph", "thread inbox")
def auto_reply(r: Run, way: str) -> None:
    """The agent answers a machine that confirms each mail with a mail."""
    client, ticket = r.pick(*_CLIENTS), r.num(10**4, 10**6)
    c = r.chat("You answer the mailbox of the partner desk.")

    def inbox(who: str, text: str) -> dict[str, object]:
        mail = {"id": f"<{r.hex(12)}@mx{r.num(1, 9)}.example>", "from": who, "text": text}
        return {"unread": [{**mail, "received": r.stamp()}]}

    def confirmed(who: str, number: int) -> str:
        return (
            f"Thank you for your message to {who}. Your request is filed under {number} and will "
            "be answered within two working days. This mail was made by a machine."
        )

    thanks = [
        "Thank you for letting us know. We look forward to your answer.",
        "Many thanks for the confirmation. Please tell us if you need anything else.",
        "Thanks, noted. We await your reply.",
        "We appreciate the quick response and wait for news.",
    ]
    asked = (
        "Can you deliver on Friday?",
        "Which gate is it?",
        "Is the pallet 80 or 100 wide?",
        "Do you need a lift?",
        "Who signs for it?",
        "May we bill half now?",
        "Can it be two drops?",
    )
    args = {"folder": "INBOX", "unread_only": True}
    if way != LOOP:
        c.user("Answer what comes in until the mailbox is empty.")
        for place, who in enumerate(_CLIENTS[:7]):
            text = asked[place] if way == "thread" else confirmed(who, r.num(10**4, 10**6))
            name = client if way == "thread" else who
            c.act(r.pick("", "Next mail."), tool("list_mail", args, inbox(name, text)))
            reply = f"Yes, {r.num(1, 99)} it is." if way == "thread" else r.pick(*thanks)
            c.act("", tool("send_mail", {"to": name, "text": reply}, {"status": "queued"}))
        c.act("", tool("list_mail", args, {"unread": []}))
        c.say("The mailbox is empty.")
        return
    c.user(f"Ask {client} for the new price list, and answer what comes in.")
    text = f"Dear {client}, please send us your new price list."
    for number in range(r.num(11, 13)):
        if number == 2:
            r.begin()
        c.act(
            r.pick("", "I answer.", f"A polite answer to {client}.", "They wrote; I reply."),
            tool("send_mail", {"to": client, "text": text}, {"status": "queued", "id": r.hex(8)}),
        )
        r.wait(30, 90)
        found = inbox(client, confirmed(client, ticket + number))
        c.act(r.pick("", "Is there mail?", "Checking the inbox."), tool("list_mail", args, found))
        text = r.pick(*thanks)
