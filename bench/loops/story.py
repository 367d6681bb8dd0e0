"""Stories of agents, in no harness's form: what loops do, and what honest runs like them do.

A loop's story is `(rounds, begins)`: the rounds, and which is the first that repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from bench.loops.world import CLOCK, REQUEST, TOOK, Act, Round, World

Loop = tuple[list[Round], int]

_AGAIN = (
    "check this again",
    "look at the failure once more",
    "verify the result",
    "have another look",
    "see whether it works now",
    "make sure that this is right",
    "go through it step by step",
)


def opening(world: World, count: int) -> list[Round]:
    """Return honest first rounds: they look around."""
    rounds = []
    for index in range(count):
        act = world.listing() if index == 0 else look_around(world)
        rounds.append(Round(world.say("look at the code", "see what is there"), [act]))
    return rounds


def closing(world: World) -> list[Round]:
    """Return the last round of an honest run."""
    return [Round(f"All done. {world.prose(2)}")]


def look_around(world: World) -> Act:
    """Return a look at something new."""
    return world.read() if world.rng.random() < 0.5 else world.grep()


def cycle_of(world: World, size: int) -> list[Act]:
    """Return different acts that look at one failing test, the test's run last."""
    failing = world.run(world.test_command(), world.failure(), 1)
    pool = [
        world.read(),
        world.grep(),
        world.run("git status --short", f" M src/{world.noun()}.{world.language}\n?? notes.md"),
        world.listing("tests"),
        world.run("git diff", _diff(world)),
    ]
    world.rng.shuffle(pool)
    return [*pool[: size - 1], failing]


def _diff(world: World) -> str:
    change = world.edit().args
    old = "\n".join(f"-{line}" for line in change["old"].split("\n"))
    new = "\n".join(f"+{line}" for line in change["new"].split("\n"))
    return f"--- a/{change['path']}\n+++ b/{change['path']}\n@@ -12,7 +12,7 @@\n{old}\n{new}"


def repeat(
    world: World, acts: Sequence[Act], count: int, *, wording: str = "new", lead: int = 0
) -> Loop:
    """Return rounds that go through these acts again and again."""
    rounds = opening(world, lead)
    said = [world.say(*_AGAIN) for _ in acts]
    for index in range(count - lead):
        text = said[index % len(acts)] if wording == "same" else world.say(*_AGAIN)
        rounds.append(Round("" if wording == "none" else text, [acts[index % len(acts)]]))
    return rounds, lead + len(acts)


def widen(rounds: list[Round], width: int) -> list[Round]:
    """Return rounds that do the same with so many calls in each answer."""
    return [
        Round(rounds[at].text, [act for one in rounds[at : at + width] for act in one.acts])
        for at in range(0, len(rounds), width)
    ]


# loops


def same_call(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One failing call, again and again."""
    return repeat(world, cycle_of(world, 1), count, wording=wording, lead=lead)


def same_search(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One search without a hit, again and again."""
    query = f"{world.noun()} {world.noun()} {world.noun()} changelog"
    act = Act(
        "search_docs", {"query": query, "limit": 10}, json.dumps({"hits": [], "took_s": TOOK})
    )
    return repeat(world, [act], count, wording=wording, lead=lead)


def same_read(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One file, read again and again."""
    return repeat(world, [world.read()], count, wording=wording, lead=lead)


def same_error(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One call that a service refuses, each time with another id of the request."""
    refusal = {"error": world.sentence(8), "status": 403, "request_id": REQUEST}
    asked = {"name": world.new_name(), "visibility": "private"}
    acts = [Act("create_project", asked, json.dumps(refusal))]
    return repeat(world, acts, count, wording=wording, lead=lead)


def reworded_search(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Searches in ever other words for what is not there."""
    rounds, topic = opening(world, lead), f"{world.noun()} {world.noun()}"
    nothing = json.dumps({"hits": [], "total": 0})
    words = ["docs", "api", "guide", "how to", "changelog", "example", "reference", "usage"]
    for _ in range(count - lead):
        query = " ".join([topic, *world.rng.sample(words, world.rng.randint(1, 3))])
        act = Act("search_docs", {"query": query, "limit": 10}, nothing)
        rounds.append(Round("" if wording == "none" else world.say(*_AGAIN), [act]))
    return rounds, lead + 1


def cycle(size: int) -> Callable[..., Loop]:
    """A cycle of so many calls."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        return repeat(world, cycle_of(world, size), count, wording=wording, lead=lead)

    return story


def revert(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A patch, the test that still fails, and the patch taken back."""
    path = world.file()
    acts = [
        world.edit(path),
        world.run(world.test_command(), world.failure(), 1),
        world.run(f"git checkout -- {path}", "Updated 1 path from the index"),
    ]
    return repeat(world, acts, count, wording=wording, lead=lead)


def variants(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """A failing call in ever other words, with one and the same error."""
    module = world.new_name()
    error = "\n".join(
        [
            "Traceback (most recent call last):",
            f'  File "{world.root}/run.py", line {world.rng.randint(4, 80)}, in <module>',
            f"    import {module}",
            f"ModuleNotFoundError: No module named '{module}'",
        ]
    )
    forms = [
        f"python run.py --{world.noun()}",
        f"python3 run.py --{world.noun()} 2>&1",
        f"cd {world.root} && python run.py",
        f"PYTHONPATH=. python run.py --{world.noun()}={world.rng.randint(2, 90)}",
        "python -u run.py | tail -20",
        f"timeout {world.rng.randint(20, 300)} python run.py",
        "bash -c 'python run.py'",
    ]
    rounds = opening(world, lead)
    for index in range(count - lead):
        command = forms[index % len(forms)] if index < 14 else world.rng.choice(forms)
        text = "" if wording == "none" else world.say("try it another way")
        rounds.append(Round(text, [world.run(command, error, 1)]))
    return rounds, lead + 1


# honest runs


def progress(world: World, count: int) -> list[Round]:
    """New files, new changes; the tests in between pass, or fail otherwise."""
    test, rounds = world.test_command(), []
    for index in range(count):
        act = (
            world.run(test, world.failure() if world.rng.random() < 0.6 else world.passing())
            if index % 5 == 4
            else (world.edit() if world.rng.random() < 0.4 else look_around(world))
        )
        rounds.append(Round(world.say(), [act]))
    return rounds


def cycle_with_edit(size: int) -> Callable[[World, int], list[Round]]:
    """The calls of a cycle of so many, with a new change each time and what it leads to.

    What does not look at the changed file gives the same as before, as in the loop.
    """

    def story(world: World, count: int) -> list[Round]:
        acts, rounds, path = cycle_of(world, max(size, 2)), [], world.file()
        for index in range(count):
            turn = index % len(acts)
            act = acts[turn]
            if turn == 0:
                act = world.edit(path)
            elif turn == len(acts) - 1:
                act = world.run(str(act.args["command"]), world.failure(), 1)
            elif act.kind == "read":
                act = world.read(path)
            elif act.args["command"] == "git diff":
                act = world.run("git diff", _diff(world))
            rounds.append(Round(world.say(), [act]))
        return rounds

    return story


def retest(world: World, count: int) -> list[Round]:
    """One test command after different changes; what it says differs, and gets less."""
    test, path, rounds = world.test_command(), world.file(), []
    left = count // 2
    for _ in range(count // 2):
        left -= 1
        lines = [f"FAILED tests/{world.new_name()}: {world.sentence(5)}" for _ in range(left % 12)]
        output = "\n".join([*lines, f"{left} failed, {200 - left} passed in {TOOK}s"])
        rounds.append(Round(world.say("fix the next one"), [world.edit(path)]))
        rounds.append(Round(world.say("run the tests"), [world.run(test, output, 1)]))
    return rounds


def stubborn_bugs(world: World, count: int) -> list[Round]:
    """Each bug takes two or three different changes, under one and the same failure, to fix."""
    test = world.test_command()
    rounds: list[Round] = []
    while len(rounds) < count:
        failure, path = world.failure(), world.file()
        rounds.append(Round(world.say("read it"), [world.read(path)]))
        for _ in range(world.rng.randint(2, 3)):
            rounds.append(Round(world.say("try a change"), [world.edit(path)]))
            rounds.append(Round(world.say("run the test"), [world.run(test, failure, 1)]))
        rounds.append(Round(world.say("correct the cause"), [world.edit(path)]))
    return rounds[:count]


def mutation_test(world: World, count: int) -> list[Round]:
    """A new mutant, the same test command, the mutant taken back: the twin of `revert`."""
    path, test = world.file(), world.test_command()
    rounds: list[Round] = []
    back = world.run(f"git checkout -- {path}", "Updated 1 path from the index")
    while len(rounds) < count:
        seen = world.run(test, world.failure(), 1)
        acts = (world.edit(path), seen, back)
        rounds += [Round(world.say("try the next mutant"), [act]) for act in acts]
    return rounds[:count]


def poll(world: World, count: int) -> list[Round]:
    """One status call, again and again, of work that moves."""
    job, done = f"job_{world.hex(10)}", 0
    total, rounds = count * world.rng.randint(20, 400), []
    for _ in range(count):
        done += total // (count + 1) + world.rng.randint(-5, 5)
        state = {"id": job, "state": "running", "done": done, "total": total, "checked_at": CLOCK}
        act = Act("get_job", {"job_id": job}, json.dumps(state))
        rounds.append(Round(world.say("check the job again"), [act]))
    return rounds


def slow_poll(world: World, count: int) -> list[Round]:
    """One status call of work that rests now and then, for two to four calls."""
    run, rounds = world.hex(8), []
    state, rest = "", 0
    for index in range(count):
        if rest == 0:
            state = f"{index} of 900 shards done, now {world.new_name()}"
            rest = world.rng.randint(1, 4)
        rest -= 1
        act = Act("get_run", {"run": run}, json.dumps({"run": run, "status": state}))
        rounds.append(Round(world.say("see how far it is"), [act]))
    return rounds


def flaky(world: World, count: int) -> list[Round]:
    """Pages from a site that is overloaded: one to three equal errors, then the page."""
    rounds: list[Round] = []
    while len(rounds) < count:
        asked = {"url": world.url()}
        busy = Act("fetch_page", asked, "HTTP 503 Service Unavailable: try again later")
        answers = [busy] * world.rng.randint(0, 3) + [Act("fetch_page", asked, world.page())]
        rounds += [Round(world.say("get the page"), [act]) for act in answers]
    return rounds[:count]


def serve(world: World, count: int) -> list[Round]:
    """A user asks one thing after the other; some of the calls are equal each time."""
    hours = json.dumps({"mon-fri": "9-17", "sat": "10-14"})
    rounds: list[Round] = []
    while len(rounds) < count:
        order = {"order": f"{world.rng.randrange(10**7)}"}
        rounds += [
            Round("", [Act("get_opening_hours", {}, hours)]),
            Round("", [Act("get_order", order, world.prose(2))]),
            Round(world.prose(2)),
        ]
    return rounds[:count]


def watch_build(world: World, count: int) -> list[Round]:
    """One `tail` of a build's log, which grows."""
    log, rounds = f"{world.root}/build-{world.hex(6)}.log", []
    lines: list[str] = []
    for _ in range(count):
        for _ in range(world.rng.randint(1, 6)):
            lines.append(f"[{len(lines) + 1}/900] CC obj/{world.new_name()}.o")
        act = world.run(f"sleep 20; tail -n 6 {log}", "\n".join(lines[-6:]))
        rounds.append(Round(world.say("wait for the build"), [act]))
    return rounds


def paging(world: World, count: int) -> list[Round]:
    """One listing, page after page."""
    rounds, cursor = [], world.hex(16)
    for _ in range(count):
        following = world.hex(16)
        rows = [
            {"id": f"{world.noun()}-{world.rng.randrange(10**7)}", "name": world.new_name()}
            for _ in range(world.rng.randint(3, 10))
        ]
        body = json.dumps({"items": rows, "next_cursor": following})
        rounds.append(Round(world.say("get the next page"), [_listed(cursor, body)]))
        cursor = following
    return rounds


def _listed(cursor: str, body: str) -> Act:
    return Act("list_records", {"cursor": cursor, "limit": 10}, body)


def queue(world: World, count: int) -> list[Round]:
    """A worker: claims the next task with an equal call, looks up one policy, completes it."""
    policy = world.prose(4)
    rounds: list[Round] = []
    while len(rounds) < count:
        task = f"T-{world.rng.randrange(10**6)}"
        claimed = {"task": task, "subject": world.sentence(), "from": f"{world.new_name()}@mail"}
        acts = (
            Act("claim_task", {}, json.dumps(claimed)),
            Act("get_policy", {"topic": "refunds"}, policy),
            Act("complete_task", {"task": task, "note": world.sentence()}, '{"ok": true}'),
        )
        rounds += [Round(world.say("handle the next task"), [act]) for act in acts]
    return rounds[:count]


def bisect(world: World, count: int) -> list[Round]:
    """Bisections: one test with one of two outcomes, and the next commit."""
    rounds: list[Round] = []
    while len(rounds) < count:
        test, failure, passing = world.test_command(), world.failure(), world.passing()
        for left in (64, 32, 16, 8, 4, 2, 1):
            bad = world.rng.random() < 0.5
            seen = world.run(test, failure if bad else passing, int(bad))
            steps = (
                f"Bisecting: {left} revisions left to test\n[{world.hex(40)}] {world.sentence(5)}"
            )
            moved = world.run(f"git bisect {'bad' if bad else 'good'}", steps)
            rounds += [Round(world.say("test this commit"), [seen]), Round("", [moved])]
        rounds.append(Round(world.say("read the culprit"), [world.read()]))
    return rounds[:count]


def sweep(world: World, count: int) -> list[Round]:
    """One command in ever other words, with results that differ: the twin of `variants`."""
    rounds = []
    for _ in range(count):
        flag, value = world.noun(), world.rng.randint(1, 9999)
        output = f"{flag}={value} loss={world.rng.random():.4f} acc={world.rng.random():.4f}"
        act = world.run(f"python run.py --{flag} {value}", output)
        rounds.append(Round(world.say("try the next setting"), [act]))
    return rounds


def research(world: World, count: int) -> list[Round]:
    """Searches and pages, all new."""
    rounds = []
    for index in range(count):
        if index % 3 == 0:
            hits = [{"title": world.sentence(4), "url": world.url()} for _ in range(5)]
            query = f"{world.noun()} {world.noun()} {world.verb()}"
            act = Act("search_docs", {"query": query, "limit": 10}, json.dumps({"hits": hits}))
        else:
            act = Act("fetch_page", {"url": world.url()}, world.page())
        rounds.append(Round(world.say("read on"), [act]))
    return rounds
