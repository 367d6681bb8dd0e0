"""Tales of agents that act on the world outside: messages, tickets, orders of customers."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from bench.loops.form import Tool
from bench.loops.tales.coding import repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of

PEOPLE = (
    "amara.osei", "bjorn.lie", "chiara.sala", "dmitri.volkov", "elif.kaya", "farid.nasser",
    "greta.holm", "hana.kim", "ivo.marek", "jun.sato", "kofi.mensah", "lena.bauer", "mateo.ruiz",
    "noor.haddad", "olga.pavlova", "priya.nair", "quentin.roy", "rosa.lima", "sven.dahl",
    "tara.byrne", "umar.aziz", "vera.novak", "wei.zhang", "yara.silva",
)  # fmt: skip
OFFICE = "You are the office assistant of a small firm. Do what is asked, once."
SENDING = (
    Tool("find_contact", "Find a person.", ("name",)),
    Tool("read_note", "Read a note.", ("title",)),
    Tool("send_email", "Send a mail.", ("to", "subject", "body")),
    Tool("post_message", "Post to a channel.", ("channel", "text")),
    Tool("create_ticket", "Open a ticket.", ("title", "description", "queue")),
)


def _office_day(rng: Random, noise: Noise, count: int) -> list[Round]:
    rounds = []
    for number, who in enumerate(rng.sample(PEOPLE, count)):
        if number % 2:
            text = f"{who} asked for {rng.randrange(2, 40)} chairs by {noise.stamp()[:10]}."
            deed = Deed("read_note", {"title": f"meeting with {who}"}, text)
        else:
            found = json.dumps({"name": who, "mail": f"{who}@example.com", "room": noise.hex(3)})
            deed = Deed("find_contact", {"name": who}, found)
        rounds.append(Round(f"I need to know about {who}.", [deed], note=f"Looked up {who}."))
    return rounds


def _receipt(verb: str, noise: Noise) -> str:
    return {
        "send_email": json.dumps({"status": "sent", "message_id": f"<{noise.hex(16)}@mail>"}),
        "post_message": json.dumps({"ok": True, "ts": f"{noise.rng.randrange(10**9, 10**10)}.1"}),
        "create_ticket": json.dumps({"ticket": f"OPS-{noise.rng.randrange(900, 9999)}",
                                     "created": noise.stamp(), "state": "open"}),
    }[verb]  # fmt: skip


def _act(verb: str, who: str, matter: str, wording: int) -> dict[str, str]:
    words = (
        f"Reminder: {matter} is due on Friday. Please confirm.",
        f"A short reminder that {matter} is due on Friday. Please confirm.",
        f"Please remember: {matter} is due this Friday. Kindly confirm.",
    )[wording % 3]
    return {
        "send_email": {"to": f"{who}@example.com", "subject": f"About {matter}", "body": words},
        "post_message": {"channel": f"#{who.split('.')[0]}-team", "text": words},
        "create_ticket": {"title": f"{matter} ({who})", "description": words, "queue": "office"},
    }[verb]


def again(verb: str, *, rewords: bool) -> Callable[[Random], Tale]:
    """Return a teller of an agent that does one thing again and again; each gives a receipt."""

    def tell(rng: Random) -> Tale:
        noise, who = Noise(rng), rng.choice(PEOPLE)
        matter = rng.choice(("the inventory", "the lease", "your timesheet", "the fire drill"))
        says = ("I'll send it now.", "Now I will do that.", "Doing it.", "")

        def make(n: int) -> Round:
            args = _act(verb, who, matter, n if rewords else 0)
            deed = Deed(verb, args, _receipt(verb, noise), seconds=0.9)
            return Round(says[n % 4], [deed], note=f"Told {who} about {matter}.")

        return repeat(f"Tell {who} about {matter}.",
                      _office_day(rng, noise, rng.randrange(2, 9)), make, rng, tools=SENDING,
                      persona=OFFICE)  # fmt: skip

    return tell


def to_all(verb: str) -> Callable[[Random], Tale]:
    """Return a teller of an agent that does one thing for many people."""

    def tell(rng: Random) -> Tale:
        noise = Noise(rng)
        rounds = _office_day(rng, noise, 2)
        matter = rng.choice(("the inventory", "the lease", "the fire drill"))
        for who in rng.sample(PEOPLE, rng.randrange(16, 23)):
            deed = Deed(verb, _act(verb, who, matter, 0), _receipt(verb, noise), seconds=0.9)
            rounds.append(Round("Next one.", [deed], note=f"Told {who}."))
        return Tale(
            f"Tell everybody about {matter}, one by one.",
            [*rounds, Round("Everybody knows now.")],
            tools=SENDING,
            persona=OFFICE,
        )

    return tell


SHOP = (
    Tool("find_user", "Find a customer by mail.", ("email",)),
    Tool("get_order", "Get an order.", ("order_id",)),
    Tool("get_product", "Get a product.", ("product_id",)),
    Tool("cancel_order", "Cancel an order.", ("order_id", "reason")),
    Tool("change_address", "Change where an order goes.", ("order_id", "address")),
    Tool("hand_to_human", "Hand over to a person.", ("summary",)),
)
POLICY = (
    "# Policy of the shop\nYou help customers with orders. Verify who they are by mail first. An "
    "order that is on its way can not be changed. Ask for a yes before you change anything."
)
GOODS = ("kettle", "lamp", "rucksack", "stool", "radio", "teapot", "blanket", "clock", "desk")


def _order(rng: Random, number: str, state: str) -> str:
    items = [{"name": name, "price": rng.randrange(9, 300)} for name in rng.sample(GOODS, 2)]
    return json.dumps({"order_id": number, "status": state, "items": items})


def stubborn_case(rng: Random) -> Tale:
    """The customer's helper insists, the bot looks the order up again, and says the same."""
    number = f"#W{rng.randrange(10**6, 10**7)}"
    order = _order(rng, number, "in transit")
    before = _greeting(rng)
    refuses = (
        f"I am sorry, order {number} is on its way, so I can not change it.",
        f"I'm sorry, but as order {number} is on its way it can not be changed.",
    )
    insists = ("Please check once more.", "Could you check it again, please?")

    def make(n: int) -> Round:
        if n % 2 == 0:
            return Round("", [Deed("get_order", {"order_id": number}, order)], note="Looked it up.")
        return Round(refuses[n // 2 % 2], heard=insists[n // 2 % 2], pause=rng.uniform(2, 5))

    return repeat(
        f"Hello, I want another address for {number}.",
        before,
        make,
        rng,
        4,
        tools=SHOP,
        persona=POLICY,
    )


def _greeting(rng: Random) -> list[Round]:
    who = rng.choice(PEOPLE)
    user = json.dumps({"user_id": f"{who}_{rng.randrange(9999)}", "tier": "plain"})
    ids = [f"#W{rng.randrange(10**6, 10**7)}" for _ in range(2)]
    return [
        Round("Gladly. Which mail did you order with?", heard=f"{who}@example.com", pause=20),
        Round("", [Deed("find_user", {"email": f"{who}@example.com"}, user)]),
        *(
            Round("", [Deed("get_order", {"order_id": one}, _order(rng, one, "delivered"))])
            for one in ids[: rng.randrange(1, 3)]
        ),
    ]


def lost_order(rng: Random) -> Tale:
    """The bot asks for the number, gets it, does not find it, and asks for the number."""
    number = f"#W{rng.randrange(10**5, 10**6)}"

    def make(n: int) -> Round:
        if n % 2 == 0:
            deed = Deed("get_order", {"order_id": number}, "Error: order not found", failed=True)
            return Round("", [deed])
        asks = ("I could not find it. Could you give me the number of the order?",
                "I can not find that order. What is its number, please?")  # fmt: skip
        return Round(asks[n // 2 % 2], heard=f"It is {number}.", pause=rng.uniform(2, 5))

    return repeat(
        f"Hi! Where is my order {number}?",
        _greeting(rng),
        make,
        rng,
        2,
        tools=SHOP,
        persona=POLICY,
    )


def long_service(rng: Random) -> Tale:
    """One customer with many wishes; the same order is looked up after each change."""
    rounds = _greeting(rng)
    for name in rng.sample(GOODS, rng.randrange(4, 7)):
        number = f"#W{rng.randrange(10**6, 10**7)}"
        street = f"{rng.randrange(1, 90)} {name.capitalize()} Street"
        look = {"order_id": number}
        rounds += [
            Round("", [Deed("get_order", look, _order(rng, number, "pending"))]),
            Round(f"I found the {name}. Shall I send it to {street}?", heard="Yes, please.",
                  pause=rng.uniform(15, 60)),
            Round("", [Deed("change_address", {**look, "address": street}, f"to {street}")],
                  note=f"{number} goes to {street}."),
            Round("", [Deed("get_order", look, _order(rng, number, "pending, changed"))]),
            Round(f"Done: the {name} goes to {street}. Anything else?",
                  heard=f"Yes, I have one more order, from {rng.randrange(1, 28)} October.",
                  pause=rng.uniform(15, 60)),
        ]  # fmt: skip
    return Tale(
        "Hello, I have moved. I want another address for all that I ordered.",
        [*rounds, Round("All orders go to the new address.")],
        tools=SHOP,
        persona=POLICY,
    )


def searching_with_customer(rng: Random) -> Tale:
    """The number is wrong a few times; then it is right, and the case goes on."""
    rounds = _greeting(rng)
    for attempt in range(4):
        number = f"#W{rng.randrange(10**5, 10**6)}"
        deed = Deed("get_order", {"order_id": number}, "Error: order not found", failed=True)
        rounds.append(Round("", [deed]))
        rounds.append(
            Round(
                "I could not find it. Could you give me the number of the order?",
                heard=f"Perhaps it is the one on paper number {attempt + 2}.",
                pause=35,
            )
        )
    for name in rng.sample(GOODS, 7):
        number = f"#W{rng.randrange(10**6, 10**7)}"
        deed = Deed("get_order", {"order_id": number}, _order(rng, number, "pending"))
        rounds.append(Round("", [deed], note=f"Found {number}."))
        rounds.append(
            Round(
                f"Here it is: a {name}. Is it this one?",
                heard=f"No, mine was not a {name}. Here is another number.",
                pause=28,
            )
        )
    return Tale("Hi! I lost the number of an order.", [*rounds, Round("I hand you to a person.")],
                tools=SHOP, persona=POLICY)  # fmt: skip


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("outbound", "mail-again", again("send_email", rewords=False),
                  "langgraph mcp-desktop", **loop),
        *cases_of("outbound", "post-again", again("post_message", rewords=True),
                  "openai-agents crewai", **loop, difficulty="hard"),
        *cases_of("outbound", "ticket-again", again("create_ticket", rewords=False),
                  "google-adk pydantic-ai", **loop),
        *cases_of("outbound", "mail-all", to_all("send_email"), "langgraph mcp-desktop"),
        *cases_of("outbound", "post-all", to_all("post_message"), "openai-agents crewai",
                  difficulty="hard"),
        *cases_of("outbound", "ticket-all", to_all("create_ticket"), "google-adk mastra dspy"),
        *cases_of("support", "insists", stubborn_case, "support-bot langgraph-anthropic", **loop),
        *cases_of("support", "lost", lost_order, "support-bot openai-agents", **loop),
        *cases_of("support", "moved", long_service, "support-bot langgraph-anthropic pydantic-ai"),
        *cases_of("support", "paper", searching_with_customer, "support-bot openai-agents",
                  difficulty="hard"),
    ]  # fmt: skip
