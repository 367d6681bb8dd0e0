"""Stories of agents that use services and helpers: messages, jobs, searches, hand-offs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.loops.circles import Story, Tell, go_on
from bench.loops.story import Loop, repeat
from bench.loops.world import CHUNK, CLOCK, REQUEST, TOOK, Act, Round, World


def errand(world: World) -> str:
    """Return a task that has nothing to do with code."""
    wish = world.rng.choice(
        [
            "Bring {a} up to date, and tell {b} when it is done.",
            "Find out what became of {a}, then settle {b}.",
            "Collect what is known about {a} and hand it to {b}.",
        ]
    )
    return f"{wish.format(a=world.new_name(), b=world.new_name())} {world.prose(2)}"


# tools that do nothing new


def labelled(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A call with one answer, in which ids, receipts and durations differ each time."""
    told = {
        "status": "unchanged",
        "invoice": {"number": world.rng.randrange(10**6), "note": world.sentence(6)},
        "request_id": REQUEST,
        "trace_id": f"{CHUNK}{CHUNK}",
        "duration_ms": TOOK,
        "served_at": CLOCK,
    }
    text = json.dumps(told).replace(f'"{TOOK}"', TOOK)
    act = Act("get_invoice", {"account": world.new_name()}, text)
    return repeat(world, [act], count, wording=wording, lead=lead)


def ids_are_content(world: World, count: int) -> list[Round]:
    """The same call, whose answer is an id: each is used up before the next is asked for."""
    rounds: list[Round] = []
    while len(rounds) < count:
        number = world.uuid()
        told = {"status": "reserved", "voucher_id": number}
        used = {"voucher_id": number, "customer": world.new_name()}
        acts = (
            Act("reserve_voucher", {"campaign": "spring"}, json.dumps(told)),
            Act("assign_voucher", used, json.dumps({"status": "assigned"})),
        )
        rounds += [Round(world.say("serve the next customer"), [act]) for act in acts]
    return rounds[:count]


def same_action(field: str, action: str) -> Story:
    """A tool for many purposes, told to do the same thing again and again."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        told = {"ok": True, "changed": 0, "state": world.sentence(6), "request_id": REQUEST}
        args = {field: action, "target": world.new_name(), "options": {"depth": 2}}
        act = Act("workspace", args, json.dumps(told))
        return repeat(world, [act], count, wording=wording, lead=lead)

    return story


def other_actions(field: str) -> Tell:
    """The same tool, told to do different things to the same target."""

    def story(world: World, count: int) -> list[Round]:
        target, rounds = world.new_name(), []
        for _ in range(count):
            args = {field: world.verb(), "target": target, "options": {"of": world.new_name()}}
            told = {"ok": True, "changed": 1, "state": world.sentence(6), "request_id": REQUEST}
            rounds.append(Round(world.say("take the next step"), [_desk(args, told)]))
        return rounds

    return story


def _desk(args: Mapping[str, object], told: Mapping[str, object]) -> Act:
    return Act("workspace", args, json.dumps(told))


_OUTBOUND = {
    "send_email": ("to", "body", "sent"),
    "post_message": ("channel", "text", "posted"),
    "upload_file": ("path", "folder", "stored"),
    "create_issue": ("title", "body", "created"),
}


def _outbound(tool: str, whom: str, what: str) -> Act:
    to, body, state = _OUTBOUND[tool]
    receipt = {"status": state, "id": REQUEST, "receipt": f"{CHUNK}{CHUNK}", "at": CLOCK}
    return Act(tool, {to: whom, body: what}, json.dumps(receipt))


def same_outbound(tool: str, *, reworded: bool = False) -> Story:
    """The same message, file or issue again and again, each time with another receipt."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        whom, what = world.new_name(), world.prose(2)
        greetings = ("Hello,", "Hi,", "Dear team,", "Good morning,", "Hi again,")

        def act(_: int) -> Act:
            said = f"{world.rng.choice(greetings)}\n\n{what}" if reworded else what
            return _outbound(tool, whom, said)

        return go_on(world, count, lead, act, wording)

    return story


def many_outbound(tool: str) -> Tell:
    """One message, file or issue for each of many recipients."""

    def story(world: World, count: int) -> list[Round]:
        what = world.prose(2)
        return [
            Round(world.say("serve the next one"), [_outbound(tool, world.new_name(), what)])
            for _ in range(count)
        ]

    return story


# searches and jobs


def same_hits(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A search in ever other words, which finds the same pages."""
    topic = f"{world.noun()} {world.noun()}"
    hits = [{"title": world.sentence(4), "url": world.url()} for _ in range(4)]
    words = ["docs", "api", "guide", "how to", "example", "reference", "usage", "2027"]

    def act(_: int) -> Act:
        query = " ".join([topic, *world.rng.sample(words, world.rng.randint(1, 4))])
        shown = json.dumps({"hits": hits, "took_s": TOOK})
        return Act("web_search", {"query": query}, shown)

    return go_on(world, count, lead, act, wording)


def new_hits(world: World, count: int) -> list[Round]:
    """A search in ever other words, which finds other pages."""
    topic, rounds = f"{world.noun()} {world.noun()}", []
    for _ in range(count):
        hits = [{"title": world.sentence(4), "url": world.url()} for _ in range(4)]
        query = f"{topic} {world.verb()} {world.noun()}"
        act = Act("web_search", {"query": query}, json.dumps({"hits": hits, "took_s": TOOK}))
        rounds.append(Round(world.say("search on"), [act]))
    return rounds


def _job(job: str, state: str, at: str) -> Act:
    told = {"id": job, "state": state, "phase": at, "checked_at": CLOCK}
    return Act("get_job", {"job_id": job}, json.dumps(told))


def unchanged_poll(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A job whose state never changes, asked for again and again."""
    act = _job(f"job_{world.hex(10)}", "queued", world.new_name())
    return repeat(world, [act], count, wording=wording, lead=lead)


def tail_poll(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A log that never grows, looked at again and again."""
    lines = "\n".join(f"[{n}/900] CC obj/{world.new_name()}.o" for n in range(4, 9))
    act = world.run(f"sleep 30; tail -n 5 {world.root}/build.log", lines)
    return repeat(world, [act], count, wording=wording, lead=lead)


def patient_poll(world: World, count: int) -> list[Round]:
    """A job whose state is the same twelve times, then it is done; and other work."""
    rounds: list[Round] = []
    for _ in range(max(1, count // 17)):
        job, phase = f"job_{world.hex(10)}", world.new_name()
        acts = [_job(job, "running", phase)] * 12 + [_job(job, "done", phase)]
        acts += [world.read(), world.edit(), world.grep(), world.edit()]
        rounds += [Round(world.say("see how far it is"), [act]) for act in acts]
    return rounds


# helpers and tools that are not there


def same_subtask(tool: str, *, reworded: bool = False) -> Story:
    """The same sub-task, given to a fresh helper again and again, with the same report."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        what, report = world.prose(2), f"{world.prose(3)} ({TOOK} s)"
        asks = ("Please", "Now", "Your job:", "Carefully", "Once more:")

        def act(_: int) -> Act:
            prompt = f"{world.rng.choice(asks)} {what}" if reworded else what
            args = {"description": "look into it", "prompt": prompt, "subagent_type": "general"}
            return Act(tool, args, report)

        return go_on(world, count, lead, act, wording)

    return story


def other_subtasks(tool: str) -> Tell:
    """Different sub-tasks, each with its own report."""

    def story(world: World, count: int) -> list[Round]:
        rounds = []
        for _ in range(count):
            args = {
                "description": "look into it",
                "prompt": f"Please look into {world.new_name()}. {world.prose(1)}",
                "subagent_type": "general",
            }
            rounds.append(Round(world.say("delegate"), [Act(tool, args, world.prose(3))]))
        return rounds

    return story


MISSING = "missing_"
"""How the names of tools begin that no request offers."""


def unknown_tool(*, same: bool) -> Story:
    """Calls of a tool that does not exist, or of ever other ones."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        name, args = MISSING + world.new_name(), {"query": world.new_name()}
        told = "Error: this tool does not exist. Use one of the tools that you were given."

        def act(_: int) -> Act:
            return Act(name if same else MISSING + world.new_name(), args, told)

        return go_on(world, count, lead, act, wording)

    return story


def corrected_tool(world: World, count: int) -> list[Round]:
    """A tool that does not exist now and then, and the right one after it."""
    told = "Error: this tool does not exist. Use one of the tools that you were given."
    rounds: list[Round] = []
    while len(rounds) < count:
        wrong = Act(MISSING + world.new_name(), {"path": world.file()}, told)
        acts = (wrong, world.read(), world.grep(), world.edit(), world.read(), world.edit())
        rounds += [Round(world.say("go on"), [act]) for act in acts]
    return rounds[:count]


# hand-offs: rounds in which the agent changes


def _transfer(to: str) -> Act:
    return Act(f"transfer_to_{to}", {}, json.dumps({"assistant": f"{to.title()} Agent"}))


def ping_pong(names: tuple[str, ...]) -> Story:
    """Agents that hand the same conversation to each other, and do nothing else."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        acts = [_transfer(name) for name in names]
        return repeat(world, acts, count, wording=wording, lead=lead)

    return story


def handed_cases(names: tuple[str, ...]) -> Tell:
    """Agents that hand cases to each other: each looks one up or settles it, then the next."""

    def story(world: World, count: int) -> list[Round]:
        rounds: list[Round] = []
        while len(rounds) < count:
            for name in names:
                case = f"C-{world.rng.randrange(10**6)}"
                found = json.dumps({"case": case, "note": world.sentence(7)})
                acts = (_transfer(name), Act("settle_case", {"case": case}, found))
                rounds += [Round(world.say("settle the next case"), [act]) for act in acts]
        return rounds[:count]

    return story


# two agents that talk


_THANKS = (
    "Thank you so much! It was a pleasure to work with you.",
    "You're welcome! Thank you for your kind words.",
    "Thank you again! Have a wonderful day.",
    "Likewise! It was great to work with you. Goodbye!",
    "Goodbye! Take care, and thank you once more.",
    "Thank you! You too. Feel free to reach out any time.",
)


def thanks(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Two agents that have nothing left to say but thanks."""
    rounds = [Round(f"{world.prose(3)} What about {world.new_name()}?") for _ in range(lead)]
    said = world.rng.sample(_THANKS, 2 if wording == "same" else len(_THANKS))
    for index in range(count - lead):
        is_next = wording == "same" or index < len(said)
        rounds.append(Round(said[index % len(said)] if is_next else world.rng.choice(said)))
    return rounds, lead + len(said)


def exchange(world: World, count: int) -> list[Round]:
    """Two agents that thank each other and each time say something new."""
    return [
        Round(f"Thank you. On {world.new_name()}: {world.prose(2)} And {world.new_name()}?")
        for _ in range(count)
    ]
