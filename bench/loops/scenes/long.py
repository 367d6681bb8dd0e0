"""Long honest work with much natural repetition, and loops that begin late in such work."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn, edit, grep, read, shell, write
from bench.loops.scenes.scene import end, look_around, more, task
from bench.loops.scenes.world import CITIES, NOUNS, Code, hexes, person


def _feature(rng: Random, code: Code, voice: Voice, count: int) -> list[Turn]:
    """Return turns of a developer: look, change, test, look at the diff, commit; with setbacks."""
    turns, version, left = look_around(rng, code, voice, 4), 0, 0
    while len(turns) < count:
        version += 1
        at = rng.randrange(8)
        path, old = code.files[at], code.source(at, version)
        if rng.random() < 0.7:
            turns.append(Turn(voice("read", path), (read(path, old),)))
        if rng.random() < 0.3:
            hits = f"{rng.choice(code.files)}:{version}: {code.functions[at]}(items)"
            turns.append(
                Turn(voice("search", code.functions[at]), (grep(code.functions[at], ".", hits),))
            )
        if rng.random() < 0.15:
            error = "String to replace not found in file.\nString: return"
            turns.append(Turn(voice("edit", path), (edit(path, "return", "yield", error),)))
        turns.append(Turn(voice("edit", path), (edit(path, *code.change(at, version)),)))
        left = max(0, min(8, left + rng.choice((2, -1, -1, -2))))
        report = code.report(rng.sample(code.functions, left), 60 + version, f"expected {version}")
        turns.append(
            Turn(voice("run", "the tests"), (shell(code.test_command, report, int(left > 0)),))
        )
        if rng.random() < 0.4:
            turns.append(
                Turn(voice("run", "the linter"), (shell("make lint", "All checks passed!"),))
            )
        if left == 0:
            status = f"On branch main\n  modified: {path}"
            turns.append(Turn(voice("check", "the tree"), (shell("git status", status),)))
            made = shell(
                f"git commit -am 'Change {code.nouns[at]}s ({version})'",
                f"[main {hexes(rng, 7)}] 1 file changed",
            )
            turns.append(Turn(voice("do", "the commit"), (made,)))
    return turns


def feature(rng: Random) -> list[Run]:
    """A feature in 60 to 150 calls; a loop that begins after much such work."""
    code = Code(rng)
    wanted = task(rng, code) + " Take your time, and commit whenever the tests pass."
    summaries = [f"So far {at * 6 + 4} changes were made and committed." for at in range(12)]
    voice = Voice(rng)
    work = _feature(rng, code, voice, rng.randint(60, 140))
    done = Run(wanted, [*work, end(rng, "the feature is complete")], None, "", "hard", summaries)
    late = _feature(rng, code, voice, rng.randint(40, 60))
    error = "bash: line 1: make: command not found"
    tail = [Turn(voice("retry", "the release"), (shell("make release", error, 127),))] * 1
    tail += [
        Turn(voice("retry", "the release"), (shell("make release", error, 127),))
        for _ in range(rng.randint(15, 30))
    ]
    loop = Run(wanted, late + tail, len(late) + 1, "", "medium", summaries)
    return [loop, replace(done), _rename(rng)]


def _rename(rng: Random) -> Run:
    """The same three commands for each of many files."""
    code, voice = Code(rng), Voice(rng)
    old, new = code.functions[0], f"{code.functions[0]}_all"
    wanted = f"Rename {old} to {new} everywhere. Test after each file."
    turns = look_around(rng, code, voice, 3)
    for at in range(rng.randint(20, 36)):
        path = f"src/{rng.choice(NOUNS)}_{at}.py"
        turns.append(Turn(voice("search", old), (grep(old, path, f"{path}:{at + 3}: {old}(x)"),)))
        turns.append(Turn(voice("edit", path), (edit(path, f"{old}(x)", f"{new}(x)"),)))
        report = code.report([], 212)
        turns.append(Turn(voice("run", "the tests"), (shell(code.test_command, report),)))
    summaries = [f"Renamed in {10 * at + 9} files so far." for at in range(12)]
    return Run(wanted, [*turns, end(rng, "nothing has the old name")], None, "", "hard", summaries)


def debugging(rng: Random) -> list[Run]:
    """A flaky test is hunted with the same command and new evidence; or with none at all."""
    code = Code(rng)
    wanted = f"`{code.test_command}` fails now and then. Find out why."
    voice = Voice(rng)
    turns = look_around(rng, code, voice, 4)
    for at in range(rng.randint(25, 45)):
        failed = rng.sample(code.functions[:3], rng.choice((0, 0, 1)))
        shown = code.report(failed, 40, f"expected order {rng.randint(1, 9)}") + f"\nseed {at * 31}"
        call = shell(f"SEED={at * 31} {code.test_command}", shown, int(bool(failed)))
        turns.append(Turn(voice("run", f"the tests with seed {at * 31}"), (call,)))
        if failed:
            path = code.files[at % 8]
            log = f"print('{code.nouns[at % 8]} before', state)"
            turns.append(Turn(voice("edit", path), (edit(path, "state =", f"{log}\nstate ="),)))
            turns.append(
                Turn(
                    voice("read", "the log"),
                    (shell(f"tail -2 out-{at}.log", f"before {hexes(rng, 8)}"),),
                )
            )
    honest = Run(wanted, [*turns, end(rng, "the order of a set decides it")], None, "", "hard")
    voice = Voice(rng)
    start = look_around(rng, code, voice, 4)
    loop, passed = list(start), shell(code.test_command, code.report([], 40))
    loop += [
        Turn(voice("run", "the tests"), (replace(passed, result=code.report([], 40)),))
        for _ in range(more(rng) + 3)
    ]
    done = "Make the tests pass. They fail since the merge."
    return [Run(done, loop, len(start) + 1), honest]


def service(rng: Random) -> list[Run]:
    """A day of a support agent; or one case of that day that does not end."""
    system = "You work through the queue of cases. Look up, decide, answer, and take the next one."
    wanted = "Please work through the queue until it is empty."

    def case(voice: Voice, number: int) -> list[Turn]:
        who, noun = person(rng), rng.choice(NOUNS)
        order_id = f"A-{rng.randint(10_000, 99_999)}"
        taken = {"case": number, "from": who, "text": f"Where is my {noun}?", "order": order_id}
        state = rng.choice(("packed", "lost", "delivered", "on its way"))
        text = {"lost": f"Dear {who}, your {noun} was lost; we send another."}.get(
            state, f"Dear {who}, your {noun} is {state}."
        )
        acts = [
            ("the next case", Act("next_case", {}, json.dumps(taken))),
            (order_id, Act("get_order", {"order_id": order_id}, json.dumps({"state": state}))),
            (
                "the answer",
                Act("reply_to_case", {"case": str(number), "text": text}, '{"ok": true}'),
            ),
            ("the case", Act("close_case", {"case": str(number)}, '{"ok": true}')),
        ]
        return [Turn(voice("do", what), (act,)) for what, act in acts]

    voice = Voice(rng)
    first = rng.randint(1000, 5000)
    turns = [turn for at in range(rng.randint(18, 35)) for turn in case(voice, first + at)]
    empty = Turn(voice("do", "the next case"), (Act("next_case", {}, '{"case": null}'),))
    summaries = [f"Cases up to {first + 3 * at + 2} are closed." for at in range(12)]
    honest = Run(
        wanted, [*turns, empty, end(rng, "the queue is empty")], None, system, "hard", summaries
    )
    voice = Voice(rng)
    start = [turn for at in range(rng.randint(4, 8)) for turn in case(voice, first + at)]
    again = case(voice, first + 9)
    loop = start + [
        Turn(voice("do", "the case"), turn.acts)
        for _ in range(more(rng) // 4 + 3)
        for turn in again
    ]
    return [Run(wanted, loop, len(start) + 4, system, "hard", summaries), honest]


def game(rng: Random) -> list[Run]:
    """A game with few kinds of moves and a new board each time; or a wall that does not give."""
    moves, wanted = ("up", "left", "right", "down"), "Play the sliding game. Reach 512."
    board = [0] * 16
    voice, turns = Voice(rng), []
    for left in range(rng.randint(60, 110), -1, -1):
        board[rng.randrange(16)] = rng.choice((2, 4, 8, 16, 32, 64)) if left else 512
        shown = "\n".join(" ".join(f"{n:3}" for n in board[at : at + 4]) for at in (0, 4, 8, 12))
        way = rng.choice(moves[:3])
        turns.append(
            Turn(voice("do", f"the move {way}"), (Act("move", {"direction": way}, shown),))
        )
    honest = Run(wanted, [*turns, end(rng, "the board has a 512")], None, "You play games.", "hard")
    stuck = "You bump into the wall. Nothing changes."
    voice = Voice(rng)
    loop = turns[: rng.randint(8, 20)]
    begins = len(loop) + 2
    loop = loop + [
        Turn(
            voice("do", "the move"),
            (Act("move", {"direction": rng.choice(("left", "up"))}, stuck),),
        )
        for _ in range(more(rng) + 2)
    ]
    return [Run(wanted, loop, begins, "You play games."), honest]


def parallel(rng: Random) -> list[Run]:
    """Several calls in each answer: the same ones again; or for each city its own."""
    wanted = "Compare weather, prices and trains of ten cities, and recommend one for March."

    def ask(voice: Voice, city: str, degrees: int) -> Turn:
        acts = (
            Act(
                "get_weather", {"city": city}, json.dumps({"celsius": degrees, "id": hexes(rng, 6)})
            ),
            Act("get_prices", {"city": city}, json.dumps({"hotel": 70 + degrees})),
            Act("get_trains", {"to": city}, json.dumps({"hours": degrees % 7 + 2})),
        )
        return Turn(voice("search", city), acts)

    voice, first = Voice(rng), rng.choice(CITIES)
    loop = [ask(voice, first, 11) for _ in range(more(rng) + 1)]
    voice = Voice(rng)
    honest = [ask(voice, city, rng.randint(3, 22)) for city in CITIES]
    return [Run(wanted, loop, 1), Run(wanted, [*honest, end(rng, "I would go in March")])]


def transport(rng: Random) -> list[Run]:
    """Answers that are lost and asked for again, in honest work and in a loop."""
    code, voice = Code(rng), Voice(rng)
    wanted = task(rng, code)

    def lose(turns: list[Turn]) -> list[Turn]:
        found = []
        for turn in turns:
            if rng.random() < 0.12:
                found += [
                    replace(turn, lost=True, acts=(), takes=60, wait=2.0**n)
                    for n in range(rng.randint(1, 3))
                ]
            found.append(turn)
        return found

    work = lose(_feature(rng, code, voice, 30))
    honest = Run(wanted, [*work, end(rng, "it works again")], difficulty="hard")
    start = _feature(rng, code, voice, 8)
    error = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4113"
    tail = [
        Turn(
            voice("retry", "the installation of jq"), (shell("apt-get install -y jq", error, 100),)
        )
        for _ in range(more(rng) + 1)
    ]
    return [Run(wanted, [*start, tail[0], *lose(tail[1:])], len(start) + 1), honest]


def documents(rng: Random) -> list[Run]:
    """Pages are written one by one; or the same page is written over and over."""
    code, voice = Code(rng), Voice(rng)
    wanted = f"Write a page of documentation for each record of {code.project}."
    turns = look_around(rng, code, voice, 3)
    for noun in NOUNS:
        for part in ("overview", "fields", "examples")[: rng.randint(2, 3)]:
            path = f"docs/{noun}/{part}.md"
            text = (
                f"# {noun.title()}: {part}\n\nA {noun} has an id and {rng.randint(2, 9)} fields.\n"
            )
            turns.append(Turn(voice("do", path), (write(path, text),)))
            turns.append(
                Turn(voice("check", "the links"), (shell("make docs-check", "0 broken links"),))
            )
    voice = Voice(rng)
    start = look_around(rng, code, voice, 3)
    path, text = f"docs/{code.nouns[0]}.md", f"# {code.nouns[0].title()}\n\nIt has four fields.\n"
    loop = start + [
        Turn(voice("do", path), (write(path, text),))
        if at % 2 == 0
        else Turn(voice("check", "the links"), (shell("make docs-check", "0 broken links"),))
        for at in range(more(rng) + 4)
    ]
    honest = Run(wanted, [*turns, end(rng, "all pages are written")], None, "", "hard")
    return [Run(wanted, loop, len(start) + 2), honest]


PLOTS = (
    Plot(
        "feature",
        feature,
        "claude_code codex gemini_cli/compacted opencode/elided openhands cline "
        "swe_agent/elided claude_code/compacted codex/trimmed mini_swe_agent",
    ),
    Plot("debugging", debugging, "codex claude_code/elided openhands gemini_cli mini_swe_agent"),
    Plot("service", service, "langgraph openai_agents/kept vercel_ai adk/trimmed n8n/trimmed mcp"),
    Plot("game", game, "langgraph adk openai_agents vercel_ai/trimmed"),
    Plot("parallel", parallel, "langgraph vercel_ai openai_agents adk"),
    Plot("transport", transport, "claude_code codex opencode gemini_cli openhands"),
    Plot("documents", documents, "claude_code gemini_cli opencode cline"),
)
