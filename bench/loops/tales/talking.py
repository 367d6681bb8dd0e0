"""Tales in which words stand for deeds: announcements, reminders to act, hand-offs."""

from __future__ import annotations

from random import Random

from bench.loops.form import Tool
from bench.loops.tales.acting import PEOPLE
from bench.loops.tales.coding import DONE, bug, repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import promise
from bench.loops.tales.projects import line_of, look_around, pick_project, tested
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of, edit, shell


def announcing(rng: Random) -> Tale:
    """The agent only announces what it will do, and is told to go on."""
    project = pick_project(rng)
    module = rng.choice(project.modules)
    deed = f"change {project.path(module)} and run the tests"
    return repeat(
        bug(project, rng),
        look_around(project, rng, rng.randrange(2, 9)),
        lambda _: Round(promise(rng, deed), note="About to edit."),
        rng,
        4,
    )


def announcing_service(rng: Random) -> Tale:
    """The same for an agent with tools of an application."""
    who = rng.choice(PEOPLE)
    tools = (
        Tool("find_invoice", "Find an invoice.", ("customer",)),
        Tool("send_reminder", "Send a reminder.", ("invoice",)),
    )
    before = [
        Round(
            f"Which invoices does {name} have?",
            [Deed("find_invoice", {"customer": name}, f"INV-{rng.randrange(9999)} of {name}")],
        )
        for name in rng.sample(PEOPLE, rng.randrange(2, 7))
    ]
    deed = f"send the reminder to {who}"
    return repeat(
        f"Remind {who} of the open invoice.",
        before,
        lambda _: Round(promise(rng, deed), note="About to send."),
        rng,
        3,
        tools=tools,
        persona="You look after open invoices. Use the tools.",
    )


TOPICS = (
    ("balcony tomatoes", ("watering", "pots", "blight", "pruning", "harvest", "feeding")),
    ("learning the cello", ("bows", "strings", "posture", "scales", "tuning", "vibrato")),
    ("a winter trip to Tromsø", ("clothes", "daylight", "ferries", "food", "whales", "costs")),
    ("sourdough", ("starter", "hydration", "folding", "proofing", "scoring", "crust")),
    ("moving to Lisbon", ("rents", "papers", "schools", "trams", "doctors", "taxes")),
)


def conversation(rng: Random) -> Tale:
    """A person and an assistant, which has tools at hand and needs none."""
    topic, parts = rng.choice(TOPICS)
    rounds = []
    for number in range(rng.randrange(16, 26)):
        part = parts[number % len(parts)]
        number_word = rng.randrange(2, 40)
        said = rng.choice(
            (
                f"For {part} I would plan {number_word} days, and keep the second half free.",
                f"With {part}, {number_word} is a good start; more is rarely better.",
                f"About {part}: most people overdo it. Start with {number_word} and see.",
                f"I will now assume that {part} matters most. Then take {number_word}.",
            )
        )
        heard = rng.choice(
            (
                f"And what about {parts[(number + 1) % len(parts)]}?",
                f"Why {number_word}, and not half of it?",
                "Thanks! Please go on.",
                f"My neighbour does {rng.randrange(3, 60)}. Is that wrong?",
                "Continue.",
            )
        )
        rounds.append(Round(said, heard=heard, pause=rng.uniform(18, 120), note=said))
    tools = (Tool("web_search", "Search the web.", ("query",)),)
    return Tale(
        f"I have questions about {topic}.",
        rounds,
        tools=tools,
        persona="You are a friendly assistant. Use tools only where you must.",
    )


def unheeded_nag(rng: Random) -> Tale:
    """The harness asks for a tool each turn, and the agent repeats its closing words."""
    project = pick_project(rng)
    module = rng.choice(project.modules)
    says = (
        f"The task is complete: {module} handles the case now and nothing else is to be done.",
        f"I have finished the task. {module} handles the case now; nothing else is to be done.",
        f"Everything is done. The change of {module} is complete.",
    )
    return repeat(
        bug(project, rng),
        look_around(project, rng, rng.randrange(2, 10)),
        lambda n: Round(says[n % 3], note="Done."),
        rng,
        3,
    )


def heeded_nag(rng: Random) -> Tale:
    """The harness asks for a tool now and then, and the agent goes on with its work."""
    project, noise = pick_project(rng), Noise(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for number, module in enumerate(project.modules):
        if number in (1, 2, 5):
            rounds.append(Round(f"I will look after {module} next."))
        if number == 5:
            rounds.append(Round(f"So, {module} it is."))
        deed = edit(project.path(module), line_of(project, rng), line_of(project, rng))
        rounds.append(Round("", [deed], note=f"Changed {module}."))
        output = tested(project, [], 30 + number, noise)
        rounds.append(Round("", [shell(f"{project.test} {module}", output)]))
    return Tale(bug(project, rng), [*rounds, Round(DONE)])


DESKS = {
    "triage": "You are the triage agent. Hand off to the agent that fits.",
    "billing": "You are the billing agent. Hand off what is not about money.",
    "technical": "You are the technical agent. Hand off what is not about devices.",
    "travel": "You are the travel agent. Hand off what is not about trips.",
}
DESK_TOOLS = (
    *(Tool(f"transfer_to_{name}", f"Hand off to {name}.") for name in DESKS),
    Tool("lookup", "Look up a customer or device.", ("key",)),
)


def _hand(to: str, harness_text: str = "") -> Deed:
    return Deed(f"transfer_to_{to}", {}, harness_text or f'{{"assistant": "{to}"}}', seconds=0.02)


def hand_off_ping_pong(rng: Random) -> Tale:
    """Two agents hand one request to each other."""
    first, second = rng.sample(("billing", "technical", "travel"), 2)
    device = f"router {rng.randrange(10, 99)}"
    before = [
        Round(
            f"I look up {key}.",
            [Deed("lookup", {"key": key}, f"{key}: since {rng.randrange(2015, 2026)}, active")],
            speaker="triage",
        )
        for key in rng.sample((device, "plan", "address", "contract", "line", "sim"), 4)
    ]
    before = [*before[: rng.randrange(1, 5)],
              Round("", [_hand(first)], speaker="triage")]  # fmt: skip

    def make(n: int) -> Round:
        one, other = (first, second) if n % 2 == 0 else (second, first)
        said = ("", f"This is a matter for {other}.")[n // 2 % 2]
        return Round(said, [_hand(other)], speaker=one, note=f"Handed to {other}.")

    return repeat(
        f"I was charged for a {device} that never worked. What now?",
        before,
        make,
        rng,
        2,
        tools=DESK_TOOLS,
        persona=DESKS["triage"],
        personas=DESKS,
    )


def hand_offs_with_answers(rng: Random) -> Tale:
    """A customer with questions for several desks, each of which answers."""
    rounds = []
    speaker = "triage"
    for number in range(rng.randrange(7, 10)):
        to = rng.choice([name for name in DESKS if name != speaker])
        key = f"{to} file {rng.randrange(1000)}"
        rounds.append(Round("", [_hand(to)], speaker=speaker))
        speaker = to
        text = f"{key}: {rng.randrange(3, 99)} entries, last on {rng.randrange(1, 28)} October"
        rounds.append(Round("", [Deed("lookup", {"key": key}, text)], speaker=speaker))
        rounds.append(
            Round(f"In {text}. Is there anything else?", speaker=speaker, note=text,
                  heard=f"Yes: question {number + 2}, about my "
                  f"{rng.choice(('card', 'flight', 'phone'))} of {rng.randrange(2014, 2026)}.",
                  pause=rng.uniform(20, 70))
        )  # fmt: skip
    return Tale("I have several questions.", rounds, tools=DESK_TOOLS, persona=DESKS["triage"],
                personas=DESKS)  # fmt: skip


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("announcing", "coder", announcing, "claude-code openhands opencode", **loop),
        *cases_of("announcing", "service", announcing_service,
                  "langgraph google-adk openai-agents", **loop, difficulty="hard"),
        *cases_of("announcing", "person", conversation,
                  "mcp-desktop langgraph google-adk openai-agents support-bot", difficulty="hard"),
        *cases_of("nagging", "unheeded", unheeded_nag,
                  "cline roo swe-agent mini-swe-agent smolagents", **loop),
        *cases_of("nagging", "heeded", heeded_nag, "cline roo swe-agent mini-swe-agent"),
        *cases_of("hand-off", "ping-pong", hand_off_ping_pong,
                  "openai-agents langgraph google-adk langgraph-anthropic", **loop),
        *cases_of("hand-off", "answers", hand_offs_with_answers,
                  "openai-agents langgraph google-adk langgraph-anthropic", difficulty="hard"),
    ]  # fmt: skip
