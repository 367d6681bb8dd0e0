"""Agents that talk: with people, with one another, and with what they send out."""

from __future__ import annotations

from bench.loops.field.cast import sh, tool, write
from bench.loops.field.run import LOOP, Chat, Half, Run, cycle
from bench.loops.field.third.speech import speech
from bench.loops.field.wire import Json

HALF = Half("third")


# people

_GO_ON = (
    "Please continue on whatever task you are working on. Do not ask a person for help: nobody "
    "is there. If you believe that you are done, finish."
)


@HALF.template("asking", "openhands mini-swe-agent autogen langgraph", "replies works")
def nobody_answers(run: Run, way: str) -> None:
    """Ask a person who is not there; the harness says `continue`."""
    product = run.pick("the price list", "the crew roster", "the lab samples", "the wine catalogue")
    chat = run.chat()
    chat.user(f"Build an importer for {product}. The format is whatever the customer sends us.")
    asks = (
        "which delimiter the file has",
        "how dates are written",
        "which columns are required",
        "whether prices are net",
        "what identifies a row",
        "how often a file comes",
    )
    if way == LOOP:
        for number in run.times(18, 28):
            if number == 3:
                run.begin()
            chat.say(
                speech(
                    run,
                    "To go on, I need to know|Before I can start, please tell me|Could you say",
                    [" and ".join(run.some(asks, 2)) + "."],
                    "Without this I cannot go on.|As soon as I know, I will write the importer.|"
                    "I am waiting for your answer.|Could you also send me a sample?",
                )
            )
            chat.user(_GO_ON)
        return
    if way == "replies":
        for number in run.times(14, 20):
            ask = asks[number % 6]
            chat.say(f"Could you say {ask}, for {run.pick('this', 'the next')} supplier?")
            chat.user(
                speech(
                    run,
                    f"For supplier {number + 1}:",
                    "the usual.|see their last file.|semicolon.",
                    [f"And there are {run.num(3, 60)} columns, the key is `{run.hex(5)}`."],
                )
            )
        chat.say("Thanks, I have all that I need.")
        return
    for number in range(11):
        name = f"importer/{run.pick('parse', 'clean', 'store')}_{number}.py"
        chat.act("", write(name, f"def step_{number}(row):\n    return row[{run.num(0, 40)}]\n"))
        chat.say(f"{name} is written; should I go on with the next step?")
        chat.user(_GO_ON)


@HALF.template("voice", "langgraph gemini-api openai-agents", "spells on_hold")
def not_understood(run: Run, way: str) -> None:
    """Ask a caller again whose line is dead."""
    chat = run.chat("Telefonassistent der Stadtwerke. Antworte in einem Satz.")
    chat.user("[Anruf angenommen] Guten Tag, ich möchte meinen Zählerstand durchgeben.")
    chat.say("Gerne, nennen Sie mir bitte Ihre Kundennummer.")
    if way == LOOP:
        for number in run.times(17, 28):
            if number == 2:
                run.begin()
            chat.user(
                run.pick("[Stille]", "[Rauschen]", "[unverständlich]", "…", "[Stille, 6 s]")
                + run.pick("", f" (confidence 0.{run.num(1, 19):02})")
            )
            chat.say(
                speech(
                    run,
                    "Entschuldigung,|Verzeihung,|Tut mir leid,",
                    "das habe ich nicht verstanden.|ich konnte Sie nicht hören.",
                    "Bitte nennen Sie Ihre Kundennummer.|Wie lautet Ihre Kundennummer?",
                )
            )
            run.wait(5, 9)
        return
    if way == "on_hold":
        for _ in run.times(3, 5):
            chat.user("[Stille]")
            chat.say("Ich bin noch da. Lassen Sie sich ruhig Zeit.")
            run.wait(8, 15)
        chat.user("So, da bin ich wieder, ich habe die Rechnung geholt.")
        chat.say("Wunderbar. Wie lautet die Kundennummer?")
    for number in range(16):
        digits = " ".join(run.hex(3).translate(str.maketrans("abcdef", "012345")))
        chat.user(f"{run.pick('Dann', 'Ja,', 'Weiter:', 'Und')} {digits}{run.pick('.', ' äh …')}")
        chat.say(run.pick("Ja, weiter bitte.", "Habe ich, weiter bitte.", f"{digits}, und weiter?"))
        if number % 4 == 3:
            chat.user(f"Das war Zähler {number // 4 + 1}.")
            chat.say("Ist notiert.")


# agents among themselves


def _talk(run: Run, one: Chat, other: Chat, says: list[tuple[str, str]], begins: int = -1) -> None:
    """Have two agents say these in turn: each is the user of the other."""
    for number, (first, second) in enumerate(says):
        if number == begins:
            run.begin()
        one.say(first)
        other.user(first)
        other.say(second)
        one.user(second)


@HALF.template("courtesy", "autogen langgraph openai-agents", "chess interview", difficulty="easy")
def after_you(run: Run, way: str) -> None:
    """Two agents take leave of one another, and of one another's good wishes."""
    one, other = run.chat("You are Planner."), run.chat("You are Writer.")
    topic = run.pick("the offsite in Ghent", "the alumni dinner", "the spring fair")
    one.user(
        {
            LOOP: f"Agree with Writer on an invitation to {topic}. Say TERMINATE when it is done.",
            "chess": f"Play chess with Writer, blind, until one resigns. It is for {topic}.",
            "interview": f"Ask Writer all that you need to know about {topic}.",
        }[way]
    )
    other.user(f"Planner will write to you about {topic}.")
    if way == LOOP:
        kind = [
            speech(
                run,
                "Thank you so much!|Wonderful work!|It was a pleasure.|My thanks to you!|Likewise!",
                "The invitation is perfect.|I look forward to our next project.|What a team.",
                "Have a great day!|Take care!|All the best!|Until next time!|Goodbye for now!",
            )
            for _ in range(30)
        ]
        says = [
            ("Please invite for Friday at seven.", f"You are invited to {topic}, Friday, 7 pm.")
        ]
        says += list(zip(kind[::2], kind[1::2], strict=True))
        _talk(run, one, other, says, 2)
        return
    if way == "chess":
        squares = [f"{column}{row}" for column in "abcdefgh" for row in range(1, 9)]
        moves = [run.pick("", "N", "B", "R", "Q") + run.pick(*squares) for _ in range(32)]
        says = [(f"{n + 1}. {moves[2 * n]}", f"{n + 1}… {moves[2 * n + 1]}") for n in range(16)]
        _talk(run, one, other, says)
        return
    asks = cycle(["Who comes?", "And then?", "What else?", "Where?", "What do we offer?"])
    _talk(
        run,
        one,
        other,
        [
            (
                next(asks),
                speech(
                    run,
                    "Thanks, good question.|Sure!",
                    [f"About {run.num(3, 90)} guests,"],
                    "a choir,|a quiz,|oysters,|a walk,",
                    [f"in room {run.hex(3)}."],
                ),
            )
            for _ in range(14)
        ],
    )


_WISHES = (
    ("make the opening stronger", "give it a stronger opening", "open with more force"),
    ("use fewer adjectives", "trim the adjectives", "cut down on adjectives"),
    ("say what it costs", "name the price", "make the cost clear"),
)


@HALF.template("review", "autogen crewai langgraph gemini-api", "chapters", difficulty="hard")
def never_good_enough(run: Run, way: str) -> None:
    """A critic wants the same again, and the writer returns the same."""
    writer = run.chat("You write texts for customers.")
    critic = run.chat("You review texts. Approve only what is excellent.")
    product = run.pick("a heat pump", "a cargo bike", "a hearing aid", "an espresso machine")
    writer.user(f"Write the text for {product}. Improve it until the critic approves.")
    critic.user(f"Review what the writer sends about {product}.")
    says = []
    for number in range(13):
        part = run.pick("silence", "comfort", "care", "trust") if way != LOOP else "comfort"
        if way == LOOP:
            text = (
                f"{run.pick('Revised draft', 'New version', 'Improved text')}: "
                f"{product.capitalize()} that {run.pick('you will love', 'simply works')}. "
                f"Quiet, durable and made for {part}. "
                f"{run.pick('Try it today.', 'Order now.', 'See for yourself.')}"
            )
            wishes = [run.pick(*wish) for wish in run.some(_WISHES, 3)]
            verdict = speech(
                run,
                "Better, but not there yet.|Good progress!|A nice revision.|Getting closer.",
                [f"Please {wishes[0]}; {wishes[1]}; {wishes[2]}."],
                "Then I can approve.|Send it again.|One more round, please.",
            )
        else:
            text = f"Chapter {number + 1}: on {part}, in {run.num(3, 9)} steps.\n" + "\n".join(
                f"{step}. {run.pick('Fill', 'Turn', 'Clean', 'Check')} the "
                f"{run.pick('valve', 'pad', 'tank', 'belt', 'filter')} {run.hex(3)}."
                for step in range(1, run.num(4, 8))
            )
            verdict = speech(
                run,
                f"Chapter {number + 1} is approved.|Good. Approved.|Fine with me.",
                [f"Please say in chapter {number + 2} what {run.hex(4)} costs."],
            )
        says.append((text, verdict))
    _talk(run, writer, critic, says, 3 if way == LOOP else -1)


@HALF.template("handoff", "openai-agents langgraph autogen gemini-api", "queue")
def not_my_desk(run: Run, way: str) -> None:
    """Hand a customer from desk to desk: each says that another one is in charge."""
    desks = run.some(["billing", "shipping", "returns", "technical", "sales", "legal"], 3)
    order = f"A-{run.num(10_000, 99_999)}"
    chat = run.chat("You are the front desk. Hand over to the desk that is in charge.")
    if way == LOOP:
        chat.user(
            f"Pedido {order}: el mensajero me cobró la aduana aunque ya la pagué. ¿Reembolso?"
        )
        for number in run.times(20, 32):
            if number == 4:
                run.begin()
            now, then = desks[number % 3], desks[(number + 1) % 3]
            say = speech(
                run,
                f"Aquí {now}.|Le atiende {now}.|",
                [f"De la aduana de {order} se ocupa {then}."],
                "Le paso con ellos.|Un momento, por favor.|Le ayudará un compañero.",
            )
            note = {
                "reason": run.pick(
                    "reembolso de aduana", "cobro del mensajero", f"aduana de {order}"
                )
            }
            chat.act(say, tool(f"transfer_to_{then}", note, {"assistant": then}))
        return
    for number in range(10):
        desk = run.pick(*desks)
        case = run.pick("is late", "is broken", "was billed twice", "has the wrong size")
        chat.user(f"Next ticket: order A-{run.num(10_000, 99_999)} {case}.")
        chat.act("", tool(f"transfer_to_{desk}", {"reason": case}, {"assistant": desk}))
        chat.act("", tool("close_ticket", {"code": run.hex(6)}, {"closed": True}))
        chat.say(f"Ticket {number + 1} is done by {desk}.")


# what is sent out


@HALF.template("outbound", "anthropic-mcp openai-agents crewai", "mailing chases")
def mails_again(run: Run, way: str) -> None:
    """Write to the same customer again, as the tool only says `queued`."""
    name = run.pick("Ms Okafor", "Herr Brandl", "Mme Petit", "Sig. Conti")
    to = f"{name.split()[-1].lower()}@{run.hex(4)}.example"
    month = run.pick("March", "June", "October")
    text = f"Dear {name},\n\nyour invoice for {month} is attached. It is due in 14 days.\n"
    chat = run.chat()
    if way == LOOP:
        chat.user(f"Send {name} ({to}) the invoice for {month}, and make sure that it arrives.")
        for number in run.times(17, 26):
            if number == 2:
                run.begin()
            greeting = run.pick("Kind regards", "Best regards", "Yours sincerely", "Warm wishes")
            args = {
                "to": to,
                "subject": run.pick(f"Invoice for {month}", f"Your invoice ({month})", "Invoice"),
                "body": f"{text}\n{greeting}\nAccounts",
                "attachments": [f"inv-{month.lower()}.pdf"],
            }
            result = {"status": "queued", "message_id": f"<{run.hex(16)}@mta2>", "at": run.stamp()}
            say = speech(
                run,
                "It is only queued.|No delivery was confirmed.|I cannot see that it arrived.",
                "I'll send it again.|Let me resend it.|To be safe, once more.",
            )
            chat.act(say if number else "", tool("send_email", args, result))
        return
    if way == "mailing":
        chat.user("Send all customers of the attached list their reminder.")
    else:
        chat.user("Write to each supplier until they send the certificate: a reminder a day.")
    for number in range(20):
        person = f"{run.pick('a', 'j', 'm', 'p')}{run.hex(5)}@{run.hex(3)}.example"
        if way == "mailing":
            body = text.replace(name, "customer")
            args = {"to": person, "subject": f"Invoice for {month}", "body": body}
            result = {"status": "queued", "message_id": f"<{run.hex(16)}@mta2>", "at": run.stamp()}
            chat.act("", tool("send_email", args, result))
            continue
        firm = f"firm{number // 4}@supplier.example"
        args = {"to": firm, "subject": f"Reminder {number % 4 + 1}: certificate", "body": "Please."}
        chat.act("", tool("send_email", args, {"status": "queued", "message_id": run.hex(9)}))
        inbox = [{"from": firm, "attachment": f"cert-{run.hex(4)}.pdf"}] if number % 4 == 3 else []
        chat.act("", tool("read_inbox", {"from": firm}, {"messages": inbox, "at": run.stamp()}))
        run.wait(85_000, 87_000)


@HALF.template("outbound", "gemini-api langgraph anthropic-mcp", "alerts", difficulty="hard")
def ticket_flood(run: Run, way: str) -> None:
    """Open one ticket after the other for one alert, as the search does not find the last."""
    node = f"ingest-{run.num(2, 40)}"
    chat = run.chat()
    chat.user("Make sure that each alert that fires has exactly one ticket in INFRA.")
    alerts = (
        "DiskPressure",
        "ClockSkew",
        "CertExpiresSoon",
        "OOMKilled",
        "NodeNotReady",
        "QueueLag",
        "HighLatency",
        "BackupMissing",
        "ReplicaLag",
        "FanFailure",
    )
    for number in range(run.num(9, 14) if way == LOOP else 10):
        if number == 2:
            run.begin()
        alert = alerts[0] if way == LOOP else alerts[number]
        host = node if way == LOOP else f"ingest-{run.num(2, 40)}"
        found = {"issues": [], "total": 0, "took_ms": run.num(12, 90), "index_lag_s": 86_400}
        query = run.pick(f"{alert} {host}", f'summary ~ "{alert}"', f"{host} AND {alert}")
        chat.act("", tool("search_tickets", {"project": "INFRA", "query": query}, found))
        args = {
            "project": "INFRA",
            "summary": run.pick(f"{alert} on {host}", f"{host}: {alert}", f"Alert {alert}/{host}"),
            "description": f"{alert} fires on {host} since {run.stamp('%H:%M')}. "
            + run.pick("Please look at it.", "Action is needed.", "Opened by the bot."),
        }
        made = {"key": f"INFRA-{4000 + number * run.num(1, 3)}", "created": run.stamp()}
        say = "" if way != LOOP else run.pick("There is no ticket for it.", "Not found; opening.")
        chat.act(say, tool("create_ticket", args, made))
        if way != LOOP or number % 2:
            fires = alert if way == LOOP else alerts[(number + 1) % 10]
            firing = {"firing": [{"alert": fires, "host": host}]}
            chat.act("", tool("list_alerts", {"state": "firing"}, firing))


@HALF.template("payment", "openai-agents anthropic-mcp responses-kept", "payroll settles")
def refund_twice(run: Run, way: str) -> None:
    """Refund, time out, find nothing certain, and refund with another key."""
    charge, amount = f"ch_{run.hex(20)}", run.num(19, 900) * 100
    chat = run.chat()

    def refund(of: str, cents: int, out: object, code: int = 0) -> None:
        args = {"charge": of, "amount": cents, "idempotency_key": run.hex(16)}
        chat.act("", tool("create_refund", args, out, code, 8))

    late = "504 Gateway Timeout: the processor did not answer within 8000 ms; state unknown"
    if way == LOOP:
        chat.user(f"Refund {charge} ({amount / 100:.2f} EUR) and confirm it to me.")
        for number in run.times(9, 14):
            if number == 1:
                run.begin()
            refund(charge, amount, f"{late} (ref {run.hex(10)})", 1)
            listed: Json = {"charge": charge, "refunds": [], "as_of": run.stamp(), "replica": "r2"}
            say = run.pick("I check whether it went through.", "No refund is listed yet.", "")
            chat.act(say, tool("list_refunds", {"charge": charge}, listed))
        chat.say("I could not confirm it.")
        return
    if way == "settles":
        chat.user("Refund these orders, and make sure that each is booked once.")
        for _ in range(6):
            charge, amount = f"ch_{run.hex(20)}", run.num(19, 900) * 100
            refund(charge, amount, f"{late} (ref {run.hex(10)})", 1)
            for state in ("pending", "succeeded"):
                listed = {"charge": charge, "refunds": [{"id": run.hex(8), "status": state}]}
                chat.act("", tool("list_refunds", {"charge": charge}, listed))
        return
    chat.user("Pay the volunteers 50 EUR each; the list is in sheet `helpers`.")
    for row in range(2, 22):
        iban = f"NL{run.num(10, 99)}INGB000{run.num(1_000_000, 9_999_999)}"
        args = {"amount": 5000, "currency": "EUR", "to": iban, "reference": "Thank you!"}
        chat.act("", tool("create_transfer", args, {"id": f"tr_{run.hex(16)}", "status": "paid"}))
        if row == 9:
            chat.act("", sh("date +%F", run.stamp("%Y-%m-%d")))


# what is looked up


@HALF.template("search", "gemini-api openai-agents anthropic-mcp", "many_hops", difficulty="hard")
def same_chunks(run: Run, way: str) -> None:
    """Ask a knowledge base in other words; it gives the same passages in another order."""
    what = run.pick("parental leave", "standby duty", "sabbaticals", "travel by train")
    country = run.pick("Portugal", "Norway", "Ireland", "Poland")
    chat = run.chat()
    ask = f"What does our handbook say about {what} of part-time staff in {country}?"
    if way != LOOP:
        ask = f"Sum up all that our handbook says about work in {country}, topic by topic."
    chat.user(ask)

    def chunk(about: str) -> dict[str, object]:
        return {
            "doc": f"handbook/{about.replace(' ', '-')}.md",
            "id": run.hex(10),
            "text": f"{about.capitalize()}: staff agree on it with their lead at least "
            f"{run.num(2, 12)} weeks before. It is paid for {run.num(2, 40)} days. "
            f"{run.pick('Exceptions', 'Details', 'Changes')} are decided by "
            f"People & Culture. Requests go through form HR-{run.num(10, 99)}, which the lead "
            f"signs; an answer comes within {run.num(3, 20)} working days. Leave of other kinds is "
            f"not affected, nor are bonuses of the year {run.num(2024, 2027)}. See also section "
            f"{run.num(1, 14)}.{run.num(1, 9)} of this handbook, and the page of your office.",
        }

    known = [chunk(what) for _ in range(4)]
    topics = ("tax residence", "night work", "insurance", "contracts", "public holidays", "notice")
    for number in range(run.num(19, 30) if way == LOOP else 18):
        if number == 4:
            run.begin()
        if way == LOOP:
            query = speech(
                run,
                [what, f"rules for {what}", f"{what} policy", f"entitlement to {what}"],
                ["part-time", "reduced hours", "50 % contract", "Teilzeit", "tempo parcial"],
                [
                    country,
                    f"in {country}",
                    f"{country} office",
                    f"employees {country}",
                    "local law",
                ],
            )
            hits = run.some(known, 4)
        else:
            topic = topics[number % 6]
            query = f"{country} {topic} {run.pick('rule', 'paragraph', 'law')} {number // 6 + 1}"
            hits = [chunk(f"{topic} {run.hex(2)}") for _ in range(4)]
        shown = [{**hit, "score": run.dec(0.61, 0.79, 4)} for hit in hits]
        say = speech(
            run,
            "These do not mention part-time staff.|This is general.|Nothing on the country.|",
            "Let me ask differently.|Another wording may help.|I'll be more specific.|",
        )
        args = {"query": query, "top_k": 4}
        chat.act(say.strip(), tool("search_handbook", args, {"results": shown}))
    if way != LOOP:
        chat.say("Here is what I found, with sources for each paragraph.")


@HALF.template(
    "chant", "opencode claude-code qwen-code gemini-cli", "fixtures refrain", difficulty="hard"
)
def cut_short(run: Run, way: str) -> None:
    """Say one line over and over until the limit; be told to go on; say it again."""
    chat = run.chat()
    thing = run.pick("postcodes", "tram stops", "postal zones", "bus lines")
    line = run.pick(
        "I will now write the complete file without any omission.",
        "Let me make sure that every entry is included in the list.",
        "The list goes on as described above, and so I continue.",
    )
    if way == "refrain":
        chat.user(f"Write a work song of the drivers on the {thing}: many verses, one refrain.")
    else:
        chat.user(f"Write out test data for all {thing} of the region, a row each, no omissions.")
    if way == LOOP:
        for number in run.times(16, 22):
            if number == 1:
                run.begin()
            rows = [f"{run.hex(5)},{run.num(1000, 9999)}" for _ in range(0 if number else 30)]
            chat.say("\n".join(rows + [line] * run.num(25, 60)))
            chat.user(run.pick("continue", "Continue.", "Your answer was cut off. Continue."))
        return
    if way == "refrain":
        refrain = (
            "Roll on, roll on, until the depot calls,\nroll on, roll on, till evening falls.\n"
        )
        for _ in range(14):
            verses = [
                f"At {run.pick('North', 'Mill', 'Harbour', 'Abbey')} {run.hex(4)} a woman boards "
                f"with {run.num(2, 99)} {run.pick('eggs', 'hens', 'loaves', 'cats')}.\n"
                for _ in range(3)
            ]
            chat.say("".join(verse + refrain for verse in verses))
            chat.user("continue")
        return
    for number in range(14):
        rows = [
            f"row,{number * 40 + place},active,EUR,{run.num(1000, 9999)},NULL,NULL,false,0"
            for place in range(40)
        ]
        chat.say("\n".join(rows))
        chat.user("continue")
