"""Agents that write to people and serve them: mail, bookings, orders, tickets."""

from __future__ import annotations

import json
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn
from bench.loops.scenes.scene import end, more
from bench.loops.scenes.world import CITIES, NOUNS, address, clock, hexes, person

_SYSTEM = "You are an assistant of the office. You can send messages and change the calendar."
_SHOP = "You answer customers of a web shop. Look orders up; never promise what you cannot see."


def outbound(rng: Random) -> list[Run]:
    """The same message goes out again and again; or one to each person of a list."""
    who, noun, day = person(rng), rng.choice(NOUNS), rng.randint(2, 28)
    tool = rng.choice(("send_email", "post_message", "send_sms"))
    wanted = f"Tell {who} that the {noun} is ready, and that we meet on the {day}th."
    texts = (
        f"Dear {who}, the {noun} is ready. We meet on the {day}th.",
        f"Hello {who}, your {noun} is ready, see you on the {day}th.",
        f"Hi {who.split()[0]}, just to say: the {noun} is ready. We meet on the {day}th.",
    )
    is_plain = rng.random() < 0.6

    def send(voice: Voice, name: str, text: str) -> Turn:
        receipt = {"status": "sent", "message_id": f"<{hexes(rng, 16)}@mail.example.com>"}
        if rng.random() < 0.5:
            receipt["queued_at"] = clock(rng.uniform(0, 9000))
        args = {"to": address(name), "text": text}
        return Turn(voice("do", f"the message to {name}"), (Act(tool, args, json.dumps(receipt)),))

    voice = Voice(rng)
    loop = [
        send(voice, who, texts[0] if is_plain else rng.choice(texts)) for _ in range(more(rng) + 1)
    ]
    runs = [Run(wanted, loop, 1, _SYSTEM, "easy" if is_plain else "hard")]
    voice = Voice(rng)
    people = list(dict.fromkeys(person(rng) for _ in range(24)))
    honest = [send(voice, name, texts[0].replace(who, name)) for name in people]
    honest.append(end(rng, "everybody on the list has been told"))
    listed = f"Tell everybody that the {noun} is ready: {', '.join(people)}."
    runs.append(Run(listed, honest, None, _SYSTEM))
    voice, second = Voice(rng, 0), []
    for at in range(rng.randint(6, 9)):
        second.append(send(voice, who, texts[0] if at % 2 else texts[1]))
        reply = rng.choice(_SEND_AGAIN).format(who=who.split()[0])
        second.append(Turn("It is on its way.", reply=reply, wait=1800))
    second.append(Turn("You are welcome."))
    return [*runs, Run(wanted, second, None, _SYSTEM, "hard")]


_SEND_AGAIN = (
    "{who} says nothing arrived, please send it again.",
    "Still nothing. The spam filter was on; once more please.",
    "We changed the mail server just now. Could you repeat it?",
    "{who} deleted it by accident. Again, please.",
    "Thanks. Another reminder for {who}, the same text.",
)


def create(rng: Random) -> list[Run]:
    """The same ticket or page is created again; or one for each finding."""
    noun, city = rng.choice(NOUNS), rng.choice(CITIES)
    wanted = f"Open a ticket: the {noun} printer in {city} is out of paper."

    def ticket(voice: Voice, title: str, text: str) -> Turn:
        made = {
            "created": True,
            "key": f"OPS-{rng.randint(1000, 9999)}",
            "at": clock(rng.random() * 1e4),
        }
        call = Act(
            "create_ticket", {"title": title, "body": text, "priority": "3"}, json.dumps(made)
        )
        return Turn(voice("do", f"the ticket “{title}”"), (call,))

    voice = Voice(rng)
    loop = [
        ticket(voice, f"Printer in {city} out of paper", f"The {noun} printer has no paper.")
        for _ in range(more(rng) + 1)
    ]
    runs = [Run(wanted, loop, 1, _SYSTEM, "easy")]
    voice = Voice(rng)
    honest = [
        ticket(voice, f"Printer in {other} out of paper", f"The {noun} printer has no paper.")
        for other in rng.sample(CITIES, 10)
    ]
    honest.append(end(rng, "a ticket is open for each office"))
    everywhere = f"The {noun} printers are out of paper in all ten offices. A ticket for each."
    return [*runs, Run(everywhere, honest, None, _SYSTEM)]


def booking(rng: Random) -> list[Run]:
    """The same taken slot is tried; or the next free one is looked for."""
    who, day = person(rng), rng.randint(2, 26)
    wanted = f"Book an hour with {who} on the {day}th at ten."
    taken = '{"booked": false, "reason": "conflict: the slot is taken by “Review”"}'

    def book(voice: Voice, hour: int, result: str, day: int) -> Turn:
        args = {"person": who, "start": f"2027-03-{day:02}T{hour:02}:00", "hours": "1"}
        return Turn(voice("retry", f"{hour} o'clock"), (Act("book", args, result, 1),))

    voice = Voice(rng)
    loop = [book(voice, 10, taken, day) for _ in range(more(rng) + 1)]
    runs = [Run(wanted, loop, 1, _SYSTEM, "easy")]
    voice = Voice(rng)
    honest = [book(voice, hour, taken, other) for other in (day, day + 1) for hour in range(8, 17)]
    args = {"person": who, "start": f"2027-03-{day + 2:02}T08:00", "hours": "1"}
    honest.append(Turn(voice("do", "the next day"), (Act("book", args, '{"booked": true}'),)))
    honest.append(end(rng, "the first free hour is two days later, at eight"))
    first = f"Book the first free hour with {who} from the {day}th on."
    return [*runs, Run(first, honest, None, _SYSTEM, "hard")]


def order(rng: Random) -> list[Run]:
    """An order is looked up without end in one turn; or whenever the customer asks again."""
    id, who = f"A-{rng.randint(10_000, 99_999)}", person(rng)
    wanted = f"Hi, this is {who}. Where is my order {id}?"

    def look(voice: Voice, state: str, extra: str = "") -> Turn:
        shown = {
            "order": id,
            "state": state,
            "trace": hexes(rng, 16),
            "served_by": f"eu-{rng.randint(1, 9)}",
        }
        call = Act("get_order", {"order_id": id}, json.dumps(shown))
        return Turn(voice("check", f"order {id}") + extra, (call,))

    voice = Voice(rng)
    loop = []
    for at in range(more(rng) + 4):
        tool, key = ("get_customer", "name") if at % 2 else ("get_order", "order_id")
        if tool == "get_order":
            loop.append(look(voice, "packed"))
        else:
            shown = json.dumps({"name": who, "orders": [id], "trace": hexes(rng, 16)})
            loop.append(Turn(voice("check", "the customer"), (Act(tool, {key: who}, shown),)))
    runs = [Run(wanted, loop, 2, _SHOP)]
    voice, honest = Voice(rng, 0), []
    for _ in range(rng.randint(7, 11)):
        honest.append(look(voice, "packed"))
        reply = rng.choice(_ASKS).format(id=id)
        said = rng.choice(
            ("It is packed.", "Your parcel is packed and waits.", "Still packed, sorry.")
        )
        honest.append(Turn(said, reply=reply, wait=rng.choice((120, 3600))))
    honest += [look(voice, "on its way"), Turn("It left this morning.")]
    runs.append(Run(wanted, honest, None, _SHOP, "hard"))
    voice, shift = Voice(rng), []
    for _ in range(rng.randint(10, 16)):
        id = f"A-{rng.randint(10_000, 99_999)}"
        shift.append(look(voice, rng.choice(("packed", "on its way", "delivered"))))
        said = f"Order {id} is being taken care of."
        shift.append(Turn(said, reply=f"And order A-{rng.randint(10_000, 99_999)}?", wait=30))
    shift.append(Turn("That one I do not see in my list. Could you check the number?"))
    return [*runs, Run(f"I have a list of orders. First {id}, please.", shift, None, _SHOP)]


_ASKS = (
    "OK. I'll ask again later.",
    "Any news about {id}?",
    "Has it left by now?",
    "And today?",
    "It is urgent. Could you look again please?",
    "Hello again! Is there anything new on {id}?",
    "My neighbour got hers already. What about mine?",
    "One more time, please: where is it?",
)


def sheet(rng: Random) -> list[Run]:
    """A cell is written and read, and stays empty; or a sheet is filled cell by cell."""
    noun = rng.choice(NOUNS)
    wanted = f"Put the sum of all {noun}s into B20 of the sheet “{noun}s”."

    def pair(voice: Voice, cell: str, value: str, shown: str) -> list[Turn]:
        put = Act(
            "update_cell",
            {"sheet": f"{noun}s", "cell": cell, "value": value},
            json.dumps({"updatedCells": 1, "revision": rng.randint(100, 999)}),
        )
        got = Act("read_cell", {"sheet": f"{noun}s", "cell": cell}, json.dumps({"value": shown}))
        return [Turn(voice("do", cell), (put,)), Turn(voice("check", cell), (got,))]

    voice = Voice(rng)
    loop = [
        t for _ in range(more(rng) // 2 + 2) for t in pair(voice, "B20", "=SUM(B1:B19)", "#REF!")
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM)]
    voice = Voice(rng)
    honest = []
    for row in range(rng.randint(12, 25)):
        amount = str(rng.randint(100, 999))
        honest += pair(voice, f"B{row + 1}", amount, amount)
    honest.append(end(rng, "the column is filled and checked"))
    fill = f"Fill column B of the sheet “{noun}s” from the attached list. Check each value."
    return [*runs, Run(fill, honest, None, _SYSTEM)]


PLOTS = (
    Plot("outbound", outbound, "langgraph n8n mcp adk openai_agents/kept crewai"),
    Plot("create", create, "vercel_ai n8n/trimmed langgraph adk"),
    Plot("booking", booking, "openai_agents adk crewai"),
    Plot("order", order, "langgraph vercel_ai adk openai_agents/kept n8n"),
    Plot("sheet", sheet, "n8n mcp langgraph/trimmed openai_agents"),
)
