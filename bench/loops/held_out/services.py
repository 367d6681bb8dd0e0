"""Stories of agents that operate services: jobs, releases, tables, and servers of tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from bench.loops.form import Tool
from bench.loops.held_out.editors import CODERS
from bench.loops.held_out.run import (
    Act,
    Harness,
    Label,
    Plot,
    Turn,
    anywhere,
    clock,
    hexes,
    single,
    uuid,
)
from bench.loops.scenario import Scenario

STEPS = "validate copy index compress upload verify notify archive publish clean".split()
PLACES = "berlin lyon porto oslo gdansk turin malmo ghent bilbao cork brno graz".split()

LANGGRAPH = Harness(
    "LangGraph",
    "chat",
    "gpt-4.1",
    "You run the nightly jobs of a data platform. Use the tools; report when all is done.",
    [
        Tool("get_job_status", "Returns the status of a job", ("job_id",)),
        Tool("restart_job", "Restarts a job", ("job_id",)),
        Tool("run_sql", "Runs a query on the warehouse", ("query",)),
        Tool("list_records", "Lists records by page", ("cursor",)),
    ],
    extra=lambda _rng: {"temperature": 0.0, "parallel_tool_calls": False},
    headers=lambda _rng: {"user-agent": "OpenAI/Python 2.8.1", "x-stainless-lang": "python"},
)
DEVOPS = Harness(
    "DevOps agent",
    "anthropic",
    "claude-opus-4-5",
    "You are an on-call engineer for a Kubernetes cluster. You may read everything and roll "
    "releases forward and back. Say so when the incident is over.",
    [
        Tool("kubectl", "Runs kubectl", ("args",)),
        Tool("helm", "Runs helm", ("args",)),
        Tool("wait", "Waits some seconds", ("seconds",)),
    ],
    headers=lambda _rng: {"anthropic-version": "2023-06-01"},
)
ANALYST = Harness(
    "Data analyst",
    "responses",
    "gpt-5.1",
    "You answer questions about tables. Run Python in the notebook and look at what it prints.",
    [Tool("run_cell", "Runs Python in a notebook", ("code",))],
    has_item_ids=True,
    extra=lambda rng: {"store": True, "metadata": {"notebook": uuid(rng)}},
)
MCP_HOST = Harness(
    "MCP host",
    "anthropic",
    "claude-haiku-4-5",
    "You are a desktop assistant with tools of several MCP servers.",
    [
        Tool("mcp__tracker__search_issues", "Searches issues", ("query", "page")),
        Tool("mcp__tracker__get_issue", "Returns an issue", ("key",)),
        Tool("mcp__wiki__fetch_page", "Returns a page of the wiki", ("title",)),
    ],
    stream=True,
)
GENERIC = Harness(
    "Gemini function calling",
    "gemini",
    "gemini-2.5-flash",
    "You look after exports. Check them until they are done, and then tell the owner.",
    [
        Tool("start_export", "Starts an export", ("export_id",)),
        Tool("check_export", "Returns the state of an export", ("export_id",)),
        Tool("fetch_page", "Returns a page of rows", ("page_token",)),
    ],
)

AGAIN = ("Let me check again.", "Checking once more.", "Still nothing; I look again.", "", "")


def polling(harness: Harness, rng: Random, style: str) -> Plot:
    """A job that never moves; or one that moves slowly and ends."""
    job = f"job-{rng.randint(1000, 9999)}"
    names = {
        "LangGraph": ("get_job_status", {"job_id": job}),
        "DevOps agent": ("kubectl", {"args": f"get job {job} -L step"}),
        "Gemini function calling": ("check_export", {"export_id": job}),
    }
    name, args = names[harness.name]

    def status(state: str, at: float) -> Act:
        told = f'{{"id": "{job}", "state": "{state}", "checked_at": "{clock(rng, at)}"}}'
        if name == "kubectl":
            told = f"NAME      AGE    STEP\n{job}  {int(at)}s   {state}"
        return Act(name, args, told)

    starts = {
        "get_job_status": ("restart_job", {"job_id": job}),
        "kubectl": ("kubectl", {"args": f"create -f {job}.yaml"}),
        "check_export": ("start_export", {"export_id": job}),
    }
    start, given = starts[name]
    turns = [Turn("I start the job.", [Act(start, given, f"{job} created, id {uuid(rng)}")])]
    turns.append(Turn("Checking it.", [status("Accepted", 20)]))
    task = f"Start {job}, wait until it is done, and tell me the result."
    at, pause = 40.0, rng.choice((0.0, 5.0, 30.0))
    stuck = rng.choice(("unschedulable: no node matches gpu=h300", "blocked: approver has left"))
    if style == "loop":
        for _ in range(rng.randint(26, 40)):
            turns.append(Turn(rng.choice(AGAIN), [status(stuck, at)], wait=pause))
            at += 12 + pause
        return Plot(task, turns)
    for number, step in enumerate(STEPS):
        many = rng.randint(3, 5) if style == "recovers" else rng.randint(1, 3)
        for time in range(many if number < 8 else 1):
            share = f"{number * 10 + time * 2}%" if style == "moves" else "running"
            turns.append(Turn(rng.choice(AGAIN), [status(f"{step} {share}", at)], wait=pause))
            at += 12 + pause
    turns.append(Turn("", [status("Succeeded", at)]))
    return Plot(task, [*turns, Turn(f"{job} has succeeded.")])


def release(rng: Random, style: str) -> Plot:
    """A release rolled out and back again; or one cause of trouble after another removed."""
    app = rng.choice(("checkout", "search-api", "mailer"))

    def call(name: str, args: str, result: str) -> Turn:
        return Turn(
            rng.choice(("", "Next step.", "Now this.")), [Act(name, {"args": args}, result)]
        )

    def pods(state: str) -> Turn:
        pod = f"{app}-{hexes(rng, 9)}-{rng.randint(10000, 99999)}"
        shown = f"NAME READY STATUS RESTARTS AGE\n{pod} 0/1 {state} {rng.randint(2, 9)} 40s"
        return call("kubectl", f"get pods -l app={app}", shown)

    turns = [
        call("kubectl", "get events", f"Warning  BackOff  pod/{app}  restarting failed container"),
        call("helm", f"history {app}", "REVISION STATUS\n41 superseded\n42 deployed"),
    ]
    task = f"{app} is down since the last release. Bring it back."
    if style == "loop":
        for _ in range(rng.randint(8, 10)):
            turns += [
                call("helm", f"upgrade {app} ./chart", f"Release {app} has been upgraded."),
                pods("CrashLoopBackOff"),
                call("helm", f"rollback {app}", "Rollback was a success! Happy Helming!"),
                pods("ImagePullBackOff"),
            ]
        return Plot(task, turns)
    lacks = ["DB_URL", "REDIS_URL", "SMTP_HOST", "SENTRY_DSN", "S3_BUCKET", "JWT_KEY"]
    if style == "recovers":
        for _ in range(2):
            turns += [pods("CrashLoopBackOff"), call("helm", f"rollback {app}", "Rollback was ok")]
    for lack in lacks:
        said = f"panic: environment variable {lack} is not set\ngoroutine {rng.randint(1, 90)}"
        turns += [
            call("kubectl", f"logs deploy/{app} --previous", said),
            call("kubectl", f"set env deploy/{app} {lack}=...", f"deployment env {lack} updated"),
            pods("CrashLoopBackOff") if lack != lacks[-1] else pods("Running"),
        ]
    return Plot(task, [*turns, Turn(f"{app} runs again; six variables were missing.")])


def table(harness: Harness, rng: Random, style: str) -> Plot:
    """A query that fails or is empty each time; or that answers one question after another."""
    field = rng.choice(("churn_date", "net_amount", "region_code"))
    name, key = ("run_sql", "query") if harness is LANGGRAPH else ("run_cell", "code")

    def query(what: str, result: str) -> Act:
        text = f"SELECT {what} FROM orders" if name == "run_sql" else f"df['{what}'].describe()"
        return Act(name, {key: text}, result)

    spent = f"{rng.uniform(0.1, 2):.2f}"
    turns = [
        Turn("The table first.", [query("*", "columns: id, place, placed_at, total")]),
        Turn("How many?", [query("count", f"count {rng.randint(10**4, 10**6)} ({spent}s)")]),
        Turn("The first rows.", [query("head", "7 berlin 2026-03-01 19.90")]),
    ]
    task = f"How did {field} develop by place this year? Write a short report."

    def failed(spelling: str) -> Turn:
        error = f"KeyError: '{field}'\ncell failed after {rng.uniform(0.1, 2):.3f}s"
        if name == "run_sql":
            error = f'ERROR: column "{field}" does not exist (request {hexes(rng, 8)})'
        return Turn(rng.choice(("Let me fix that.", "", "Another try.")), [query(spelling, error)])

    spellings = (field, f"orders.{field}", f"o.{field}", field.upper())
    if style == "loop":
        return Plot(task, turns + [failed(spellings[n % 4]) for n in range(rng.randint(26, 40))])
    if style == "recovers":
        turns += [failed(spellings[n]) for n in range(4)]
        turns.append(Turn("It is computed: from total.", [query("total", "float64, no nulls")]))
    for place in PLACES:
        mean = f"{place}: mean {rng.uniform(10, 90):.2f}, n={rng.randint(100, 9999)}"
        turns.append(Turn(rng.choice(("", "Next place.")), [query(f"total[{place}]", mean)]))
    return Plot(task, [*turns, Turn("The report: sales grew in nine of twelve places.")])


def tool_server(rng: Random, style: str) -> Plot:
    """A server of tools that is gone; or one that comes back."""
    subject = rng.choice(("login fails on tablets", "slow export", "wrong VAT on invoices"))

    def ask(query: str, result: str) -> Turn:
        args = {"query": query, "page": "1"}
        said = rng.choice(("", "I search the tracker.", "Let me try the tracker again."))
        return Turn(said, [Act("mcp__tracker__search_issues", args, result)])

    def page(title: str) -> Turn:
        shown = f"# {title.title()}\n\nHow we treat {title}, last changed by the team of {title}."
        return Turn("", [Act("mcp__wiki__fetch_page", {"title": title}, shown)])

    def gone() -> str:
        return f"MCP error -32000: Connection closed (request {rng.randint(10, 9999)})"

    turns = [page(title) for title in rng.sample(STEPS, rng.randint(2, 6))]
    task = f"Collect what we know about '{subject}' from tracker and wiki."
    queries = (subject, subject.split()[0], f'"{subject}"', subject.split()[-1])
    if style == "loop":
        turns += [ask(queries[n % 4], gone()) for n in range(rng.randint(26, 40))]
        return Plot(task, turns)
    turns += [ask(subject, gone()) for _ in range(4 if style == "recovers" else 2)]
    for place in PLACES:
        key = f"TR-{rng.randint(100, 9999)}"
        turns.append(ask(f"{subject} {place}", f"{key}: {subject} in {place}, open"))
        if rng.random() < 0.4:
            said = f"{key}: seen by two customers of {place}; {rng.choice(STEPS)} helped"
            turns.append(Turn("", [Act("mcp__tracker__get_issue", {"key": key}, said)]))
    return Plot(task, [*turns, Turn("Here is the collection, by place.")])


def paging(harness: Harness, rng: Random, style: str) -> Plot:
    """The first page asked for again and again; or all pages one after another."""
    name, key = ("list_records", "cursor") if harness is LANGGRAPH else ("fetch_page", "page_token")

    def rows(page: int) -> str:
        names = ", ".join(f"{place}-{STEPS[page % 10]}" for place in PLACES[page // 10 :][:6])
        return (
            f'{{"rows": ["{names}"], "next": "{hexes(rng, 12)}", "took_ms": {rng.randint(4, 90)}}}'
        )

    def get(cursor: str, page: int) -> Turn:
        return Turn(rng.choice(("", "The next page.")), [Act(name, {key: cursor}, rows(page))])

    turns = [get("", 0), get(hexes(rng, 12), 1), get(hexes(rng, 12), 2)]
    task = "Export all records to a list and tell me how many there are."
    if style == "loop":
        size = rng.choice((1, 2, 3))
        cursors = [hexes(rng, 12) for _ in range(size)]
        turns += [get(cursors[n % size], n % size) for n in range(rng.randint(26, 38))]
        return Plot(task, turns)
    if style == "recovers":
        broken = Act(name, {key: "c3"}, f"429 Too Many Requests, try in {rng.randint(1, 9)} s")
        turns += [Turn("Too fast; I wait.", [broken], wait=8.0) for _ in range(4)]
    turns += [get(hexes(rng, 12), page) for page in range(3, rng.randint(22, 34))]
    return Plot(task, [*turns, Turn("That was the last page. All records are exported.")])


def batch(harness: Harness, rng: Random, style: str) -> Plot:
    """One thing converted again and again; or many things, all with the same result."""
    coder = next((one for one in CODERS if one.harness is harness), None)
    names = [f"{place}-{step}" for step in STEPS[:3] for place in PLACES]

    def convert(name: str, *, works: bool = True) -> Turn:
        said = f"converted 1 file in {rng.uniform(0.1, 2):.2f}s" if works else "disk is busy, retry"
        if coder is None:
            said = "deployment.apps restarted" if works else "Error from server: request timed out"
            return Turn("", [Act("kubectl", {"args": f"rollout restart deploy/{name}"}, said)])
        command = f"./tools/convert.sh data/{name}.csv"
        return Turn(rng.choice(("", "The next one.")), [coder.shell(rng, command, said)])

    first = rng.sample(names, rng.randint(4, 7))
    turns = [convert(name) for name in first]
    rest = [name for name in names if name not in first]
    task = "Treat all of them one by one, and tell me when you are through."
    if style == "loop":
        turns += [convert(rest[0]) for _ in range(rng.randint(26, 36))]
        return Plot(task, turns, calls_count=True)
    if style == "recovers":
        turns += [convert(rest[0], works=False) for _ in range(4)]
    turns += [convert(name) for name in rest[: rng.randint(16, 26)]]
    return Plot(task, [*turns, Turn("All of them are done.")])


def bisection(harness: Harness, rng: Random, style: str) -> Plot:
    """The same check at one commit over and over; or at other commits, until one is found."""
    coder = next(one for one in CODERS if one.harness is harness)

    def check(is_good: bool) -> Turn:
        said = f"rendered in {rng.uniform(9, 12):.1f} ms" + ("" if is_good else ": TOO SLOW")
        return Turn("", [coder.shell(rng, "make bench-render", said, 0 if is_good else 1)])

    def mark(word: str, subject: str, left: int) -> Turn:
        said = f"Bisecting: {left} revisions left to test\n[{hexes(rng, 40)}] {subject}"
        return Turn("", [coder.shell(rng, f"git bisect {word}", said)])

    subjects = [f"{step.title()} the {place} view" for place in PLACES for step in STEPS[:2]]
    turns = [mark("start HEAD v3.1", subjects[0], 900), check(is_good=True), check(is_good=False)]
    task = "Rendering became slow since v3.1. Find the commit."
    if style == "loop":
        for number in range(rng.randint(14, 18)):
            word = "bad" if number % 2 else "reset && git bisect start HEAD v3.1"
            turns += [mark(word, subjects[0], 900), check(is_good=False)]
        return Plot(task, turns)
    if style == "recovers":
        turns += [check(is_good=False) for _ in range(4)]
    for number in range(1, rng.randint(9, 12)):
        word = rng.choice(("good", "bad"))
        turns += [mark(word, subjects[number], 900 >> number), check(is_good=rng.random() < 0.5)]
    return Plot(task, [*turns, Turn(f"It is '{subjects[9]}'.")])


Story = Callable[[Harness, Random, str], Plot]
TABLE: Sequence[tuple[str, Story, Sequence[Harness]]] = (
    ("polling", polling, (LANGGRAPH, DEVOPS, GENERIC)),
    ("release", anywhere(release), (DEVOPS, DEVOPS)),
    ("table query", table, (LANGGRAPH, ANALYST, ANALYST)),
    ("tool server", anywhere(tool_server), (MCP_HOST, MCP_HOST)),
    ("paging", paging, (LANGGRAPH, GENERIC)),
    ("batch", batch, (DEVOPS, CODERS[0].harness, CODERS[7].harness, CODERS[5].harness)),
    ("bisection", bisection, (CODERS[1].harness, CODERS[7].harness, CODERS[8].harness)),
)


HARD = ("release", "batch", "bisection")


def scenarios(seed: int) -> list[Scenario]:
    """Return the runs of agents that operate services."""
    made: list[Scenario] = []
    for kind, story, harnesses in TABLE:
        for number, harness in enumerate(harnesses):
            for style in ("loop", "moves", "recovers"):
                place = harness.name.lower().replace(" ", "-")
                name = f"{kind.replace(' ', '-')}/{number}-{place}-{style}"
                rng = Random(f"{seed}/{name}")
                shows = "kept" if harness is ANALYST and number == 2 else "whole"
                hard = "medium" if style != "recovers" and kind not in HARD else "hard"
                label = Label(name, kind, style == "loop", shows, hard)
                made.append(single(label, harness, story(harness, rng, style), rng))
    return made
