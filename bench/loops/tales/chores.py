"""Tales of chores: mazes, cursors, records, arguments, long files, thoughts."""

from __future__ import annotations

import json
from random import Random

from bench.loops.form import Tool
from bench.loops.tales.coding import DONE, bug, repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import promise, retry
from bench.loops.tales.projects import line_of, look_around, pick_project, source
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of, edit, read, shell

MAZE = (Tool("move", "Go to the next room.", ("direction",)), Tool("look", "Look around."))
EXPLORER = "You explore an old house by moving from room to room. Find the key."
ROOMS = (
    "pantry", "gallery", "chapel", "armoury", "nursery", "library", "larder", "salon", "cistern",
    "study", "stable", "vault", "loft", "scullery", "orangery", "crypt", "ballroom", "tower",
)  # fmt: skip
THINGS = ("a cracked mirror", "a green rug", "three chairs", "a clock", "a stuffed owl", "dust",
          "a cold stove", "a map", "a locked chest", "a birdcage", "old boots")  # fmt: skip


def _room(rng: Random, name: str) -> str:
    things = " and ".join(rng.sample(THINGS, 2))
    ways = ", ".join(rng.sample(("north", "south", "east", "west"), 3))
    return f"You are in the {name}. You see {things}. Ways lead {ways}."


def _walk(rng: Random, names: list[str]) -> list[Round]:
    return [
        Round(
            rng.choice(("On I go.", "Let me try this way.", "")),
            [Deed("move", {"direction": rng.choice(("north", "south", "east", "west"))},
                  _room(rng, name))],
            note=f"Saw the {name}.",
        )
        for name in names
    ]  # fmt: skip


def to_and_fro(rng: Random) -> Tale:
    """The explorer goes to and fro between a few rooms."""
    names = rng.sample(ROOMS, 12)
    count = rng.choice((2, 3, 4))
    rooms = [_room(rng, name) for name in names[:count]]
    ways = ("north", "east", "south", "west")[:count]

    def make(n: int) -> Round:
        place = n % count
        deed = Deed("move", {"direction": ways[place]}, rooms[place])
        return Round(rng.choice(("On I go.", "Let me try this way.", "")), [deed],
                     note=f"Saw the {names[place]}.")  # fmt: skip

    before = _walk(rng, names[count : count + rng.randrange(2, 8)])
    return repeat("Find the key.", before, make, rng, count, tools=MAZE, persona=EXPLORER)


def exploring(rng: Random) -> Tale:
    """The explorer sees room after room, and comes through some of them again."""
    names = rng.sample(ROOMS, len(ROOMS))
    rounds = _walk(rng, names)
    for place in (6, 11, 15):
        rounds[place:place] = [rounds[place - 2], rounds[place - 1]]
    return Tale("Find the key.", [*rounds, Round("Here is the key.")], tools=MAZE, persona=EXPLORER)


LISTING = (
    Tool("list_members", "List members, a page at a time.", ("cursor", "limit")),
    Tool("count_members", "Count the members of a branch.", ("branch",)),
)
CLERK = "You are the clerk of a rowing club, with access to its register."
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal", "Ina", "Jon", "Kai", "Liv",
         "Mo", "Nia", "Odd", "Pia")  # fmt: skip


def _members(rng: Random, noise: Noise, after: str) -> str:
    members = [
        {
            "name": f"{rng.choice(NAMES)} {rng.choice(ROOMS).capitalize()}",
            "boat": rng.choice(THINGS),
        }
        for _ in range(3)
    ]
    return json.dumps({"members": members, "next_cursor": after, "trace": noise.hex(12)})


def _branches(rng: Random, count: int) -> list[Round]:
    return [
        Round(f"How large is the branch {name}?",
              [Deed("count_members", {"branch": name}, f"{name}: {rng.randrange(9, 300)} members")],
              note=f"Counted {name}.")
        for name in rng.sample(ROOMS, count)
    ]  # fmt: skip


def stuck_cursor(rng: Random) -> Tale:
    """The page names itself as the next one, so the same page comes for ever."""
    noise = Noise(rng)
    cursor = noise.hex(10)
    listed = json.loads(_members(rng, noise, cursor))

    def make(_: int) -> Round:
        text = json.dumps({**listed, "trace": noise.hex(12)})
        deed = Deed("list_members", {"cursor": cursor, "limit": 3}, text)
        return Round(rng.choice(("The next page.", "There is more.", "")), [deed])

    return repeat("Make a list of all members.", _branches(rng, rng.randrange(2, 8)), make, rng,
                  tools=LISTING, persona=CLERK)  # fmt: skip


def moving_cursor(rng: Random) -> Tale:
    noise = Noise(rng)
    rounds, cursor = _branches(rng, 2), ""
    for number in range(rng.randrange(16, 28)):
        after = noise.hex(10)
        text = _members(rng, noise, after)
        deed = Deed("list_members", {"cursor": cursor, "limit": 3}, text)
        rounds.append(Round("The next page.", [deed], note=f"Read page {number}."))
        cursor = after
    return Tale("Make a list of all members.", [*rounds, Round("That is the list.")],
                tools=LISTING, persona=CLERK)  # fmt: skip


RECORDS = (
    Tool("read_row", "Read a row of the paper list.", ("row",)),
    Tool("add_record", "Add a record.", ("name", "boat", "year")),
)


def same_record(rng: Random) -> Tale:
    """One record is added again and again."""
    record = {"name": rng.choice(NAMES), "boat": rng.choice(THINGS), "year": 1999}
    return repeat(
        "Copy the paper list into the register.",
        _rows(rng, rng.randrange(2, 6)),
        lambda _: Round(rng.choice(("Adding it.", "")), [Deed("add_record", record, "ok")]),
        rng,
        tools=RECORDS,
        persona=CLERK,
    )


def _rows(rng: Random, count: int) -> list[Round]:
    rounds = []
    for row in range(1, count + 1):
        name, boat, year = rng.choice(ROOMS), rng.choice(THINGS), rng.randrange(1950, 2026)
        text = f"{row}. {name.capitalize()}, {boat}, since {year}"
        record = {"name": name.capitalize(), "boat": boat, "year": year}
        rounds.append(Round("", [Deed("read_row", {"row": row}, text)]))
        rounds.append(Round("", [Deed("add_record", record, "ok")], note=f"Added row {row}."))
    return rounds


def all_records(rng: Random) -> Tale:
    rounds = _rows(rng, rng.randrange(9, 16))
    return Tale("Copy the paper list into the register.", [*rounds, Round("All rows are copied.")],
                tools=RECORDS, persona=CLERK)  # fmt: skip


ORDERING = (
    Tool("find_part", "Find a part by name.", ("name",)),
    Tool("place_order", "Order parts.", ("order",)),
)
BUYER = "You order spare parts for a workshop."
FIELDS = ("quantity", "currency", "delivery_date", "cost_centre", "unit", "supplier")


def _parts(rng: Random, count: int) -> list[Round]:
    return [
        Round(f"Which {name} do we use?",
              [Deed("find_part", {"name": name}, f"{name}: no. {rng.randrange(9999)}, "
                    f"from {rng.choice(NAMES)} & {rng.choice(NAMES)}")],
              note=f"Found the {name}.")
        for name in rng.sample(("valve", "gasket", "bolt", "fuse", "hose", "belt", "seal"), count)
    ]  # fmt: skip


def rejected_arguments(rng: Random) -> Tale:
    """An order is rejected for the same field, however it is written."""
    field, noise = rng.choice(FIELDS), Noise(rng)
    shapes = (
        {field.title(): 4}, {f"{field}_": 4}, {"details": {field: 4}}, {"data": [{field: 4}]},
        {field.upper(): "4"}, {"order": {"order": {field: 4}}}, {f"the_{field}": 4}, {},
    )  # fmt: skip

    def make(n: int) -> Round:
        error = (
            f"1 validation error for Order\n{field}\n  Field required [type=missing, "
            f"input_value=<dict at {noise.address()}>]"
        )
        order = {"part": "no. 17", **shapes[n % len(shapes)], "note": "x" * (n // len(shapes))}
        deed = Deed("place_order", {"order": order}, error, failed=True)
        return Round(retry(rng), [deed], note=f"The order lacks {field}.")

    return repeat("Order four new gaskets.", _parts(rng, rng.randrange(2, 7)), make, rng,
                  tools=ORDERING, persona=BUYER)  # fmt: skip


def arguments_put_right(rng: Random) -> Tale:
    """Each order is rejected for one field after the other, until it has them all."""
    rounds = _parts(rng, 2)
    for number in range(3):
        order: dict[str, object] = {"part": f"no. {rng.randrange(999)}"}
        for field in rng.sample(FIELDS, len(FIELDS)):
            error = f"1 validation error for Order\n{field}\n  Field required [type=missing]"
            deed = Deed("place_order", {"order": dict(order)}, error, failed=True)
            rounds.append(Round("It needs more.", [deed]))
            order[field] = rng.randrange(90)
        deed = Deed("place_order", {"order": order}, f"placed, no. {rng.randrange(9999)}")
        rounds.append(Round("", [deed], note=f"Order {number + 1} is placed."))
    return Tale("Place the three orders.", [*rounds, Round("All are placed.")], tools=ORDERING,
                persona=BUYER)  # fmt: skip


def chunks_again(rng: Random) -> Tale:
    """A long file is read piece by piece, and then from the start again, for ever."""
    project = pick_project(rng)
    path = project.path(rng.choice(project.modules))
    count = rng.choice((4, 6, 7))
    pieces = [source(project, "piece", rng, 3) for _ in range(count)]

    def make(n: int) -> Round:
        place = n % count
        deed = shell(f"sed -n '{place * 200 + 1},{place * 200 + 200}p' {path}", pieces[place])
        said = promise(rng, "read on") if place else "Let me read the file from the start."
        return Round(said, [deed], note=f"Read piece {place} of {path}.")

    before = look_around(project, rng, rng.randrange(2, 8))
    return repeat(bug(project, rng), before, make, rng, count)


def chunks_through(rng: Random) -> Tale:
    project = pick_project(rng)
    path = project.path(rng.choice(project.modules))
    rounds: list[Round] = look_around(project, rng, 2)
    for place in range(rng.randrange(18, 30)):
        deed = shell(f"sed -n '{place * 200 + 1},{place * 200 + 200}p' {path}",
                     source(project, "piece", rng, 3))  # fmt: skip
        rounds.append(Round(promise(rng, "read on"), [deed], note=f"Read piece {place}."))
    return Tale(f"Describe what {path} does, all of it.", [*rounds, Round("It does this: …")])


THINK = (Tool("think", "Log a thought.", ("thought",)),)
LOGGED = "Your thought has been logged."


def brooding(rng: Random) -> Tale:
    """The agent logs the same thought in other words, and does nothing else."""
    project = pick_project(rng)
    module, noun = rng.choice(project.modules), rng.choice(project.nouns)
    deed = f"find out whether {module} or its caller loses the {noun}"

    def make(_: int) -> Round:
        thought = f"{retry(rng)} {promise(rng, deed)}".strip()
        return Round("", [Deed("think", {"thought": thought}, LOGGED)], note="Thought about it.")

    before = look_around(project, rng, rng.randrange(2, 9))
    return repeat(bug(project, rng), before, make, rng, tools=THINK)


def thinking_between(rng: Random) -> Tale:
    """A thought before each step; the steps get on."""
    project = pick_project(rng)
    rounds: list[Round] = look_around(project, rng, 2)
    for module in project.modules:
        path = project.path(module)
        thought = promise(rng, f"look after {module}")
        rounds += [
            Round("", [Deed("think", {"thought": thought}, LOGGED)]),
            Round("", [read(path, source(project, module, rng, 3))]),
            Round("", [Deed("think", {"thought": f"{module} needs another limit."}, LOGGED)]),
            Round("", [edit(path, line_of(project, rng), line_of(project, rng))],
                  note=f"Changed {module}."),
        ]  # fmt: skip
    return Tale(bug(project, rng), [*rounds, Round(DONE)], tools=THINK)


def person_in_charge(rng: Random) -> Tale:
    """A person who says `go on` after each step, to an agent that does one step at a time."""
    project = pick_project(rng)
    rounds: list[Round] = []
    for module in project.modules:
        old, new = line_of(project, rng), line_of(project, rng)
        rounds.append(Round("", [edit(project.path(module), old, new)], note=f"Did {module}."))
        rounds.append(Round(f"I changed {module}. Shall I continue with the next one?",
                            heard="yes, go on", pause=rng.uniform(12, 90)))  # fmt: skip
    return Tale(f"Let us go through {project.name} step by step.", rounds)


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("maze", "to-and-fro", to_and_fro, "langgraph dspy", **loop),
        *cases_of("maze", "exploring", exploring, "langgraph google-adk", difficulty="easy"),
        *cases_of("cursor", "stuck", stuck_cursor, "mcp-desktop crewai", **loop),
        *cases_of("cursor", "moving", moving_cursor, "mcp-desktop mastra", difficulty="easy"),
        *cases_of("records", "same", same_record, "langgraph-anthropic mastra", **loop,
                  difficulty="easy"),
        *cases_of("records", "all", all_records, "langgraph-anthropic google-adk",
                  difficulty="hard"),
        *cases_of("arguments", "rejected", rejected_arguments, "pydantic-ai openai-agents", **loop,
                  difficulty="hard"),
        *cases_of("arguments", "put-right", arguments_put_right, "pydantic-ai openai-agents",
                  difficulty="hard"),
        *cases_of("chunks", "again", chunks_again, "claude-code mini-swe-agent", **loop),
        *cases_of("chunks", "through", chunks_through, "claude-code swe-agent-text",
                  difficulty="easy"),
        *cases_of("thoughts", "brooding", brooding, "openhands claude-code", **loop,
                  difficulty="hard"),
        *cases_of("thoughts", "between", thinking_between, "openhands claude-code",
                  difficulty="hard"),
        *cases_of("nagging", "person", person_in_charge, "claude-code opencode cline"),
    ]  # fmt: skip
