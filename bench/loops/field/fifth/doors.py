"""Doors that stay shut: keys that are refused, quotas that are "
"used up, arguments never accepted."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, read, sh, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIRMS,
    HALF,
    PEOPLE,
    Project,
    ask_to,
    asked_before,
    earlier,
    http_head,
    idea,
    look,
    maybe,
    once_more,
    onward,
    request_id,
    traceback,
    uuid,
)
from bench.loops.field.run import LOOP, Run

SERVICES = "billing ledger crm warehouse identity payroll catalog telemetry".split()


@HALF.template("auth", "claude-code codex langgraph", "granted audit")
def key_is_refused(run: Run, way: str) -> None:
    """Call an API with a key that it refuses: other headers, other tools, the same 401 or 403."""
    chat = run.chat()
    service, status = run.pick(*SERVICES), run.pick(401, 403)
    base = f"https://{service}.internal/api/v{run.num(1, 4)}"
    scope = f"{service}:{run.pick('read', 'export', 'admin')}"
    what = {
        LOOP: f"export all accounts from {base}/accounts to accounts.csv. The key is in .env.",
        "granted": f"export all accounts from {base}/accounts to accounts.csv. The key is in .env.",
        "audit": f"check which of our keys may still read "
        f"{base}/accounts; list them with the answer.",
    }[way]
    chat.user(ask_to(run, what))
    names = [one.split()[0].upper() for one in run.some(PEOPLE, 10)]
    env = "\n".join(f"{name}_KEY=sk_{run.hex(6)}…" for name in names)
    chat.act(look(run, "the keys"), sh("cut -c1-22 .env", f"API_KEY=sk_{run.hex(6)}…\n{env}"))

    def denied(code: int, holder: str = "export-bot") -> str:
        body = {
            "error": {401: "invalid_token", 403: "insufficient_scope"}[code],
            "message": f"Key of {holder} lacks {scope}" if code == 403 else "The key has expired",
            "request_id": request_id(run),
            "time": run.stamp(),
        }
        word = {401: "Unauthorized", 403: "Forbidden"}[code]
        return f"{http_head(run, f'{code} {word}', 'application/problem+json')}\n{json.dumps(body)}"

    def page(number: int) -> str:
        rows = [
            {"id": f"acc_{run.hex(8)}", "name": firm, "city": run.pick(*CITIES), "open": True}
            for firm in run.some(FIRMS, 6)
        ]
        return f"{http_head(run, '200')}\n{json.dumps({'page': number, 'accounts': rows})}"

    heads = (
        '-H "Authorization: Bearer $API_KEY"',
        '-H "X-Api-Key: $API_KEY"',
        '-u "export:$API_KEY"',
        '-H "Authorization: Token $API_KEY"',
        '-H "Authorization: Bearer $API_KEY" -H "Accept: application/json"',
        '--oauth2-bearer "$API_KEY"',
    )
    if way == "audit":
        for name in names:
            code = run.pick(200, 401, 403)
            out = page(1) if code == 200 else denied(code, name.capitalize())
            chat.act(
                maybe(run, onward(run, f"the key of {name.capitalize()}")),
                sh(f'curl -si -H "Authorization: Bearer ${name}_KEY" {base}/accounts', out, 0, 1),
            )
        chat.say("The table: see above; keys with 401 can be deleted.")
        return
    tries = run.times(20, 26) if way == LOOP else range(4)
    for number in tries:
        if number == 4:
            run.begin()
        head = heads[number] if number < 4 else run.pick(*heads)
        path = run.pick("accounts", "accounts?limit=100", "accounts/", "accounts?page=1")
        say = run.mix(
            [
                once_more(run, "the call"),
                idea(run, "the header"),
                idea(run, "the format of the key"),
            ]
        )
        cmd = f"curl -si {head} '{base}/{path}'"
        chat.act(maybe(run, say, 0.8), sh(cmd, denied(status), 0, run.dec(0.2, 1.4)))
    if way == LOOP:
        return
    need = "it has expired" if status == 401 else f"it needs the scope {scope}"
    chat.say(f"Each call is answered with {status}: {need}. Can you see to that?")
    run.wait(300, 2000)
    done = "I have renewed it" if status == 401 else f"I have given it {scope}"
    chat.user(f"{done}, please go on.")
    for number in range(1, run.num(12, 18)):
        cmd = f"curl -si {heads[0]} '{base}/accounts?page={number}'"
        chat.act(maybe(run, f"Page {number}.", 0.5), sh(cmd, page(number), 0, run.dec(0.2, 1.4)))
    chat.say("accounts.csv is written.")


@HALF.template("quota", "langgraph openai-agents gemini-api", "backoff third-time", "trimmed")
def used_up_quota(run: Run, way: str) -> None:
    """Call a service whose quota for the day is used up, as if it were a matter of seconds."""
    chat = run.chat()
    name = run.pick("geocode_address", "translate_text", "enrich_company", "convert_document")
    firms, cities = run.some(FIRMS, 16), run.some(CITIES, 16)
    rows = [f"{firm}, {city}" for firm, city in zip(firms, cities, strict=True)]
    chat.user(
        ask_to(run, f"run {name} for these and put the answers in a table:\n" + "\n".join(rows))
    )

    def result(row: str) -> Act:
        answer = {
            "input": row,
            "result": f"{run.dec(40, 60, 5)},{run.dec(-9, 25, 5)}",
            "id": uuid(run),
        }
        return tool(name, {"input": row}, answer, takes=run.dec(0.4, 2))

    def limited(row: str, daily: bool) -> Act:
        message = "Daily quota of 1000 units is used up" if daily else "Too many requests"
        details = {"status": 429, "message": message, "request_id": request_id(run)}
        details |= {"retry_after": run.num(1, 5)} if not daily else {"used": 1000, "limit": 1000}
        return tool(name, {"input": row}, {"error": details}, 1, takes=run.dec(0.2, 0.9))

    for place, row in enumerate(rows):
        if way == LOOP and place == 4:
            for number in run.times(19, 26):
                if number == 1:
                    run.begin()
                say = run.mix(
                    "Rate limited;|The quota is hit;|A 429 again;|It is throttled;",
                    "I wait a moment and try again.|let me slow down.|one more attempt.|retrying.",
                )
                chat.act(
                    maybe(run, say, 0.8), limited(rows[4 + run.num(0, 1) * (number % 2)], True)
                )
                run.wait(5, 60)
            return
        fails = {"backoff": place % 4 == 2, "third-time": place in (3, 9)}.get(way, False)
        for number in range((1 if way == "backoff" else 2) if fails else 0):
            say = "Throttled, I wait as long as it says." if number else ""
            chat.act(say, limited(row, False))
            run.wait(3, 12 * (number + 1))
        chat.act(maybe(run, onward(run, row), 0.5), result(row))
    chat.say("All sixteen are in the table.")


@HALF.template("arguments", "anthropic-mcp crewai", "records learns")
def never_accepted(run: Run, way: str) -> None:
    """Call a tool whose schema wants what the model does not give, with nearly the same."""
    chat = run.chat()
    asked_before(run, chat)
    name = run.pick("create_ticket", "book_resource", "register_asset", "submit_expense")
    field = run.pick("owner", "cost_center", "location", "approver")
    people, cities = run.some(PEOPLE, 11), run.some(CITIES, 11)
    rows = [f"{person} ({city})" for person, city in zip(people, cities, strict=True)]
    wanted = rows[:2] if way == LOOP else rows
    chat.user(ask_to(run, f"call {name} for each of these: {'; '.join(wanted)}."))

    def given(number: int, value: object) -> dict[str, object]:
        title = (
            f"{run.pick('New', 'Spare', 'Second')} {run.pick('laptop', 'desk', 'badge', 'phone')}"
        )
        return {"title": title, "person": people[number], field: value, "priority": "normal"}

    def invalid(value: object) -> str:
        kind = type(value).__name__
        return (
            f"1 validation error for {name}\n{field}.id\n  Input should be a valid UUID, found "
            f"`{value}` [type=uuid_parsing, input_type={kind}]\n    For further information visit "
            f"https://errors.pydantic.dev/2.11/v/uuid_parsing (call {run.hex(8)})"
        )

    done = {"status": "created", "id": uuid(run), field: cities[0]}
    chat.act(maybe(run, "The first."), tool(name, given(0, uuid(run)), done))
    if way == LOOP:
        city = cities[1]
        values = (city, {"id": city}, city.upper(), {"id": city.lower()}, f"{city}-01", [city])
        for number in run.times(19, 27):
            if number == 4:
                run.begin()
            value = values[number] if number < 4 else run.pick(*values)
            say = run.mix([idea(run, f"the format of `{field}`"), once_more(run, name)])
            chat.act(maybe(run, say, 0.8), tool(name, given(1, value), invalid(value), 1))
        return
    long = "1 validation error: title\n  String should have at most 10 characters (call {id})"
    for number in range(1, len(rows)):
        own, city = uuid(run), cities[number]
        if way == "learns" and number < 3:
            chat.act(onward(run, rows[number]), tool(name, given(number, city), invalid(city), 1))
        found = {"name": city, "id": own}
        say = maybe(run, f"I look the id of {city} up.")
        chat.act(say, tool("find_id", {"name": city}, found))
        args = given(number, own)
        if way == "records" and number % 4 == 2:
            first = args | {"title": f"{args['title']} for {people[number]}"}
            chat.act("", tool(name, first, long.format(id=run.hex(8)), 1))
        made = {"status": "created", "id": uuid(run), "person": people[number]}
        chat.act(maybe(run, f"For {people[number]}:", 0.5), tool(name, args, made))
    chat.say(f"{len(rows)} are registered.")


@HALF.template("dead-service", "openhands responses-kept", "recovers probes")
def database_is_down(run: Run, way: str) -> None:
    """Migrate with a database that is down: restart the client, look at its settings, again."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    host, port = f"db-{run.num(1, 9)}.internal", run.pick(5432, 3306, 6379, 27017)
    hosts = [f"{noun}-db.internal" for noun in project.nouns]
    what = {
        LOOP: f"run the migrations of {project.name} on {host}.",
        "recovers": f"run the nine migrations of {project.name} on {host}. It is being restarted, "
        "so it may need some minutes.",
        "probes": f"tell me which of our databases answer on {port}: {', '.join(hosts)}",
    }[way]
    chat.user(ask_to(run, what))
    settings = f"[database]\nhost = {host}\nport = {port}\npool = {run.num(4, 30)}"
    chat.act(look(run, "the settings"), read("settings.ini", settings))

    def refused(where: str) -> str:
        end = f"{run.stamp('%H:%M:%S')} ERROR could not reach {where}:{port}"
        error = "ConnectionRefusedError: [Errno 111] Connection refused"
        return f"{traceback(project, error)}\n{end} after {run.dec(0.1, 3)}s"

    migrate = f"python -m {project.name}.migrate"
    if way == "probes":
        for one in hosts:
            up = run.chance.random() < 0.6
            out = (
                f"{one} [10.0.{run.num(1, 9)}.{run.num(2, 250)}] {port} open"
                if up
                else f"nc: connect to {one} port {port} (tcp) failed: Connection refused"
            )
            chat.act(maybe(run, onward(run, one)), sh(f"nc -vz -w3 {one} {port}", out, not up, 3))
        chat.say("That is the list: the refused ones are down.")
        return
    others = (
        ("cat settings.ini", settings, 0),
        (
            f"nc -vz -w3 {host} {port}",
            f"nc: connect to {host} port {port} (tcp) failed: Connection refused",
            1,
        ),
        (f"getent hosts {host}", f"10.0.{len(project.name)}.17      {host}", 0),
    )
    for number in run.times(11, 16) if way == LOOP else range(3):
        if number == 2:
            run.begin()
        say = once_more(run, "the migration")
        chat.act(maybe(run, say), sh(migrate, refused(host), 1, run.dec(1, 5)))
        if way == LOOP:
            cmd, out, code = run.pick(*others)
            chat.act(maybe(run, idea(run, "the connection"), 0.5), sh(cmd, out, code, 0.6))
        run.wait(10, 40)
    if way == LOOP:
        return
    for number, noun in enumerate(project.nouns):
        name = f"{number + 1:04}_{project.verbs[number]}_{noun}"
        head = f"{run.stamp('%H:%M:%S')} INFO connected to {host}"
        out = f"{head}\napplied {name} in {run.dec(0.2, 9)}s"
        chat.act(maybe(run, onward(run, name), 0.5), sh(f"{migrate} --to {name}", out, 0, 3))
    chat.say("It came back, and the nine migrations are applied.")
