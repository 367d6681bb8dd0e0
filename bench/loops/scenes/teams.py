"""Several agents: delegation, hand-offs, talk among themselves, writer and reviewer."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn
from bench.loops.scenes.scene import end, more
from bench.loops.scenes.world import CITIES, NOUNS, PROJECTS, hexes, person

_LEAD = "You lead a small team of agents. Delegate, then put their reports together."


def delegation(rng: Random) -> list[Run]:
    """The same sub-task is given to a fresh agent again; or each part to one."""
    project, noun = rng.choice(PROJECTS), rng.choice(NOUNS)
    wanted = f"Write an overview of how {project} handles {noun}s."
    asks = (
        f"Find out how {project} handles {noun}s. Report the files and the flow.",
        f"Investigate the handling of {noun}s in {project}; report files and flow.",
        f"How does {project} handle {noun}s? Give me files and flow.",
    )
    reports = (
        f"{noun.title()}s are read in {noun}_store and checked in {noun}_model. Nothing else.",
        f"I found two files: {noun}_store reads {noun}s, {noun}_model checks them.",
        f"The flow: {noun}_store, then {noun}_model. There are no other places.",
    )
    varied = rng.random() < 0.5

    def give(voice: Voice, asked: str, said: str) -> Turn:
        args = {"description": "Research", "prompt": asked, "subagent_type": "general-purpose"}
        return Turn(voice("do", "the research"), (Act("Task", args, said, took=60),))

    voice = Voice(rng)
    loop = [
        give(voice, rng.choice(asks) if varied else asks[0], rng.choice(reports))
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, 2, _LEAD, "hard" if varied else "medium")]
    voice = Voice(rng)
    honest = [
        give(
            voice,
            asks[0].replace(noun, other),
            reports[at % 3].replace(noun, other).replace(noun.title(), other.title()),
        )
        for at, other in enumerate(rng.sample(NOUNS, 11))
    ]
    honest.append(end(rng, "the overview is written"))
    parts = f"Write an overview of {project}: one chapter for each kind of record."
    return [*runs, Run(parts, honest, None, _LEAD)]


_THANKS = (
    "Thank you so much for your help, {n}! It was a pleasure.",
    "You're very welcome! It was great to work with you, {n}.",
    "Likewise, {n}! Don't hesitate to reach out if anything comes up.",
    "Thanks again! I really appreciate it. Have a wonderful day.",
    "The pleasure is all mine, {n}. Take care!",
    "You too! Looking forward to our next task together.",
    "That's kind of you to say, {n}. All the best!",
    "Much appreciated. Goodbye for now, {n}!",
    "Goodbye! And thank you once more for the smooth cooperation.",
    "Same to you, {n}. It has been a delight.",
    "Wonderful. I'll be here whenever you need me.",
    "Perfect, thank you. Enjoy the rest of your day, {n}!",
)


def thanks(rng: Random) -> list[Run]:
    """Two agents that thank each other; or that settle one question after another."""
    names, city = [person(rng).split()[0] for _ in range(2)], rng.choice(CITIES)
    wanted = f"Agree with {names[1]} on a plan for two days in {city}."
    system = f"You are {names[0]}, a planner. You talk with the agent {names[1]}."
    facts = (
        ("the hotel", "the one at the harbour", "it has no lift; the one by the park then"),
        ("Saturday morning", "the market", "fine, until eleven"),
        ("lunch", "soup at the market", "one of us eats no fish, so take the bakery"),
        ("the afternoon", "a walk along the wall", "rain is likely; the museum is better"),
        ("dinner", "somewhere near the hotel", "I booked a table for four at seven"),
        ("Sunday", "the ferry to the island", "it leaves at nine, we need tickets"),
        ("tickets", "online today", "done, eleven euros each"),
        ("the way back", "the train at five", "there is work on the line: the one at four"),
        ("the costs", "about two hundred", "two hundred and twelve with the ferry"),
        ("luggage", "at the hotel until four", "they close at two; lockers at the station"),
    )
    talk = [
        Turn(
            f"For {about} I suggest {idea}. What do you think?",
            reply=f"About {about}: {reply}.",
            says_as=names[1],
            speaker=names[0],
        )
        for about, idea, reply in facts
    ]
    start = talk[: rng.randint(3, 6)]
    loop = start + [
        Turn(
            " ".join(rng.sample(_THANKS, 2)).format(n=names[1]),
            reply=" ".join(rng.sample(_THANKS, 2)).format(n=names[0]),
            speaker=names[0],
            says_as=names[1],
        )
        for _ in range(more(rng) + 2)
    ]
    last = Turn("Then we have our plan. Thank you!", speaker=names[0])
    honest = [*talk, last]
    return [Run(wanted, loop, len(start) + 2, system), Run(wanted, honest, None, system)]


def handoff(rng: Random) -> list[Run]:
    """Two agents hand a customer to and fro; or the customer has other wishes each time."""
    id, who = f"A-{rng.randint(10_000, 99_999)}", person(rng)
    wanted = f"I am {who}. I was charged twice for {id}."
    sides = ("billing", "orders")
    told = [f"You are the {side} agent. You only deal with {side}." for side in sides]
    reasons = (
        f"The question on {id} belongs to {{o}}.",
        f"Transferring {who} to {{o}}, who can help with {id}.",
        "This is a matter for {o}.",
        "I cannot see that here, {o} can.",
        "{o} is responsible for this case.",
    )

    def transfer(at: int, reason: str) -> Turn:
        other = sides[(at + 1) % 2]
        said = json.dumps({"assistant": f"{other} agent"})
        call = Act(f"transfer_to_{other}", {"reason": reason}, said)
        return Turn("", (call,), system=told[at % 2])

    loop = [
        transfer(at, rng.choice(reasons).format(o=sides[(at + 1) % 2]))
        for at in range(more(rng) + 4)
    ]
    runs = [Run(wanted, loop, 2)]
    honest: list[Turn] = []
    number = id
    for at in range(rng.randint(8, 12)):
        side, other = sides[at % 2], sides[(at + 1) % 2]
        tool = "refund" if side == "billing" else "change_order"
        done = Act(tool, {"order_id": number}, json.dumps({"done": True, "receipt": hexes(rng, 8)}))
        honest.append(Turn(f"I'll do that for {number}.", (done,), system=told[at % 2]))
        wish = "change the address of" if other == "orders" else "get a refund for"
        following = f"A-{rng.randint(10_000, 99_999)}"
        ask = f"Thanks. Now I want to {wish} {following}."
        honest.append(Turn(f"Done, {number} is settled.", reply=ask, system=told[at % 2], wait=40))
        honest.append(transfer(at, f"{who} wants to {wish} {following}."))
        number = following
    honest.append(Turn("I am looking at it now; you will hear from us."))
    return [*runs, Run(wanted, honest, difficulty="hard")]


def review(rng: Random) -> list[Run]:
    """A draft comes back with the same remark and is handed in unchanged; or it gets better."""
    project, noun = rng.choice(PROJECTS), rng.choice(NOUNS)
    wanted = f"Write a paragraph on {project} for the {noun} page. The reviewer must approve it."
    facts = [f"It reads {n}s." for n in rng.sample(NOUNS, 11)]
    remark = "The paragraph does not say whom it is for. Please add that."
    rewords = (
        "Please say for whom it is.",
        "The reader is missing: whom is it for?",
        remark,
        "Not approved. Name the audience.",
        "It should say who it is for.",
    )
    draft = f"{project.title()} is a small tool for {noun}s. {facts[0]} It is free."
    intros = (
        "Here is the revised draft:",
        "Thank you, I have improved it:",
        "Revised version:",
        "I took your remark into account:",
        "New draft:",
        "Updated as you wished:",
    )
    system = "You write short texts. A reviewer answers; hand in until it is approved."
    loop = [
        Turn(
            f"{rng.choice(intros)}\n\n{draft}",
            reply=rng.choice(rewords),
            says_as="reviewer",
            speaker="writer",
        )
        for _ in range(more(rng) + 2)
    ]
    loop[0] = replace(loop[0], say=f"Here is a first draft:\n\n{draft}")
    runs = [Run(wanted, loop, 2, system)]
    honest = []
    for at, fact in enumerate(facts[1:]):
        draft += f" {fact}"
        said = f"Better. Now say something on {facts[(at + 2) % 11].split()[-1][:-1]} too."
        honest.append(
            Turn(
                f"{rng.choice(intros)}\n\n{draft}", reply=said, says_as="reviewer", speaker="writer"
            )
        )
    honest.append(Turn("It is approved, thank you.", speaker="writer"))
    return [*runs, Run(wanted, honest, None, system)]


def coworker(rng: Random) -> list[Run]:
    """A co-worker asks back what it was asked; or answers, and is asked the next thing."""
    who, topic = rng.choice(("Senior Researcher", "Data Expert", "Editor")), rng.choice(NOUNS)
    wanted = f"Write a report on the market of {topic}s."

    def ask(voice: Voice, question: str, said: str) -> Turn:
        args = {"question": question, "context": f"We write a report on {topic}s.", "coworker": who}
        return Turn(voice("do", "the question"), (Act("Ask question to coworker", args, said),))

    backs = (
        "Could you tell me which market you mean?",
        "I need more context: which market?",
        "Before I can answer: which market exactly?",
        "Please specify the market.",
    )
    asks = (
        f"How large is the market of {topic}s?",
        f"What is the size of the {topic} market?",
        f"Please give me the market size of {topic}s.",
    )
    voice = Voice(rng, 0)
    loop = [ask(voice, rng.choice(asks), rng.choice(backs)) for _ in range(more(rng) + 2)]
    runs = [Run(wanted, loop, 2, _LEAD, "hard")]
    voice = Voice(rng, 0)
    honest = [
        ask(
            voice,
            f"How large is the market of {topic}s in {city}?",
            f"About {rng.randint(2, 90)} million.",
        )
        for city in CITIES
    ]
    return [*runs, Run(wanted, [*honest, end(rng, "the report has ten cities")], None, _LEAD)]


PLOTS = (
    Plot("delegation", delegation, "claude_code langgraph opencode openai_agents"),
    Plot("thanks", thanks, "autogen autogen/trimmed app_messages"),
    Plot("handoff", handoff, "openai_agents langgraph openai_agents/kept"),
    Plot("review", review, "autogen app_gemini autogen/trimmed"),
    Plot("coworker", coworker, "crewai crewai langgraph"),
)
