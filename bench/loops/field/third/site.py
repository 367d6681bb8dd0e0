"""Agents that run sites: clusters, data, browsers, desktops and MCP servers."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, sh, tool
from bench.loops.field.run import LOOP, Chat, Half, Run
from bench.loops.field.third.speech import speech
from bench.loops.field.wire import Json

HALF = Half("third")


# waiting


def _pods(app: str, ready: int, age: int, reason: str) -> str:
    rows = [f"{'NAME':38}READY   STATUS              RESTARTS   AGE"]
    for number in range(6):
        up = number < ready
        state = "Running" if up else reason
        rows.append(
            f"{app}-7d9f8c6b5-{'abcdef'[number] * 5:18}{'1/1' if up else '0/1'}     {state:20}"
            f"{0 if up else age // 300:<11}{age // 60}m{age % 60}s"
        )
    return "\n".join(rows)


@HALF.template(
    "poll", "langgraph claude-code anthropic-mcp gemini-api", "advances watched", difficulty="hard"
)
def rollout_frozen(run: Run, way: str) -> None:
    """Poll the pods of a rollout; only their age moves."""
    app = run.pick("checkout", "search-api", "geo", "mandates")
    chat = run.chat()
    ask = {
        LOOP: f"Deploy {app} v{run.num(20, 90)} and tell me when all six pods run.",
        "advances": f"Deploy {app} v{run.num(20, 90)} and tell me when all six pods run.",
        "watched": f"Watch the pods of {app} for an hour, a look each three minutes, and note "
        "restarts. I am on call and want a log even if nothing happens.",
    }[way]
    chat.user(ask)
    up = 6 if way == "watched" else 2
    looks = run.num(20, 24)
    chat.act(
        "", sh(f"kubectl -n prod get deploy {app}", f"{app}   {up}/6     {up}            {up}")
    )
    age = run.num(30, 90)
    bad = run.pick("ImagePullBackOff", "Pending", "CrashLoopBackOff")
    for number in range(looks):
        if number == 4:
            run.begin()
        ready = {LOOP: 2, "advances": min(6, 2 + number // 4), "watched": 6}[way]
        reason = {LOOP: bad}.get(way, "ContainerCreating")
        out = _pods(app, ready, age, reason)
        if way == "watched":
            out += f"\nCPU {run.num(200, 420)}m  MEM {run.num(600, 640)}Mi"
        say = {
            LOOP: speech(
                run, "Still rolling out.|Not yet ready.|Pods are starting.|", "I'll wait."
            ),
            "advances": f"{ready} of 6 run.",
            "watched": f"Look {number + 1} of {looks}: no restart.",
        }[way]
        chat.act(say, sh(f"sleep 170; kubectl -n prod get pods -l app={app}", out, 0, 170))
        age += run.num(176, 186)
    if way != LOOP:
        chat.say(f"{app}: six of six run.")


@HALF.template(
    "slow", "langgraph openai-agents codex responses-kept", "arrives inbox", difficulty="hard"
)
def file_never_lands(run: Run, way: str) -> None:
    """Look for a file each half hour, through a night in which its export has failed."""
    day = f"2027-0{run.num(1, 9)}-{run.num(10, 28)}"
    bank = run.pick("nordbank", "cassa", "postfin", "ubl")
    chat = run.chat()
    chat.user(
        f"Load {bank}'s statements of {day} when they are on the SFTP server, then reconcile."
        if way != "inbox"
        else f"Each half hour until the evening, load what {bank} has put on the SFTP server."
    )
    size, files = 0, list[str]()
    for number in run.times(18, 26):
        if number == 3:
            run.begin()
        head = f"drwxr-x---  2 {bank} sftp 4096 Jan  1 00:00 .\n"
        status = f"export {day}: FAILED 01:12 (no retry scheduled)"
        if way == "arrives":
            size += run.num(90, 400)
            head += f"-rw-r-----  1 {bank} sftp {size * 1024} {day}.camt053.part\n"
            status = f"export {day}: RUNNING, {size} MB sent"
        elif way == "inbox":
            files = [f"{day}-{run.hex(6)}.xml" for _ in range(run.num(0, 2))]
            head += "\n".join(
                f"-rw-r-----  1 {bank} sftp {run.num(900, 99_000)} {name}" for name in files
            )
            status = f"export {day}: {number + 1} parts"
        stamp = run.stamp("%H:%M:%S")
        say = speech(
            run, "Not there yet.|Still missing.|No file so far.|", "I'll look again later.|"
        )
        chat.act(
            "" if way == "inbox" else say,
            sh(
                f"ls -la /sftp/{bank}/out; cat /sftp/{bank}/STATUS; date",
                f"{head}\n{status}\n{stamp}",
            ),
        )
        for name in files:
            chat.act("", sh(f"bin/load {bank} {name}", f"loaded {run.num(9, 900)} entries"))
        run.wait(1700, 1900)
    if way != LOOP:
        chat.act("", sh(f"bin/load {bank} {day}", f"loaded {run.num(900, 9000)} entries"))


# operations


@HALF.template("login", "anthropic-mcp claude-code gemini-cli", "throttled")
def token_expired(run: Run, way: str) -> None:
    """Call, be refused, sign in with success, call, be refused."""
    server = run.pick("jira", "confluence", "servicenow", "linear")
    project = run.pick("OPS", "PAY", "MOB")
    chat = run.chat()
    chat.user(f"Summarise all open issues of {project} in {server}.")
    call = f"mcp__{server}__search_issues"
    if way == LOOP:
        for number in run.times(9, 14):
            if number == 1:
                run.begin()
            error: Json = {
                "error": {"code": -32001, "message": "401 Unauthorized: token is expired"},
                "request_id": run.hex(24),
                "at": run.stamp(),
            }
            args = {"jql": f"project = {project} AND status = Open", "limit": 50}
            chat.act("", tool(call, args, error, 1))
            granted = {"ok": True, "expires_in": 3600, "session": run.hex(32)}
            say = run.pick("The token has expired, so I sign in again.", "Signing in.", "")
            chat.act(say, tool(f"mcp__{server}__authenticate", {"scope": "read"}, granted))
        return
    for number in range(13):
        args = {"jql": f"project = {project} AND status = Open", "limit": 50, "start": number * 50}
        if number % 4 == 2:
            for _ in run.times(1, 3):
                error = {"error": {"code": 429, "message": "Too Many Requests"}, "retry_after": 20}
                chat.act("Throttled; I wait.", tool(call, args, error, 1))
                run.wait(20, 24)
        issues = [
            {"key": f"{project}-{run.num(100, 9999)}", "title": f"{run.pick('Fix', 'Add')} {part}"}
            for part in run.some(["login", "export", "ledger", "search", "e-mail", "limits"], 4)
        ]
        chat.act("", tool(call, args, {"total": 641, "issues": issues}))
    chat.say("There are 641 open issues; most are about exports.")


@HALF.template(
    "paging", "langgraph anthropic-mcp openai-agents gemini-api", "real", "trimmed", "hard"
)
def page_ignored(run: Run, way: str) -> None:
    """Ask for page after page of a server that always sends the first."""
    what = run.pick("customers", "devices", "contracts", "shipments")
    chat = run.chat()
    chat.user(f"Export all {what} to a table, and count those without an e-mail address.")

    def rows() -> list[dict[str, object]]:
        return [
            {
                "id": f"{what[:3]}_{run.hex(10)}",
                "city": run.pick("Lyon", "Gent", "Porto", "Graz", "Turku", "Cork"),
                "email": run.pick(None, f"{run.hex(6)}@example.org"),
                "since": f"20{run.num(10, 26)}-0{run.num(1, 9)}-11",
            }
            for _ in range(12)
        ]

    same = rows()
    last = run.num(20, 34)
    for number in range(1, last + 1):
        if number == 4:
            run.begin()
        page = {
            "page": number if way != LOOP else 1,
            "per_page": 12,
            "data": same if way == LOOP else rows(),
            "has_more": number < last or way == LOOP,
            "meta": {"request_id": run.hex(20), "served_in_ms": run.num(8, 60)},
        }
        say = run.pick("", f"Now page {number}.", "There is more.")
        chat.act(say, tool(f"list_{what}", {"page": number, "per_page": 12}, page))
    if way != LOOP:
        chat.say(f"{12 * last} {what}; {run.num(80, 160)} have no address.")


@HALF.template("variants", "anthropic-mcp openai-agents crewai", "schema monthly")
def sql_repair(run: Run, way: str) -> None:
    """Guess at the name of a column, again and again."""
    table = run.pick("fct_orders", "dim_policy", "fct_trips")
    chat = run.chat()
    chat.user("Wie hoch war der Umsatz je Monat im letzten Jahr, ohne Stornos?")
    names = (
        "cancelled is_cancelled canceled storno status_cancelled cancel_flag void is_void".split()
    )
    wraps = ("{c} = false", "NOT {c}", "{c} IS NULL", "coalesce({c}, false) = false", "{c} <> 'Y'")

    def query(where: str, month: str = "") -> str:
        when = f" AND month = '{month}'" if month else ""
        return f"SELECT month, sum(net) FROM {table} WHERE {where}{when} GROUP BY month"

    def miss(name: str) -> str:
        return (
            f'ERROR:  column "{name}" does not exist\nLINE 1: ...{table} WHERE {name}\n'
            f"{' ' * 30}^\nSQLSTATE: 42703"
        )

    for number in range({LOOP: run.num(23, 34), "schema": 4, "monthly": 2}[way]):
        if number == 8:
            run.begin()
        name = names[number % 8]
        sql = query(run.pick(*wraps).format(c=name))
        say = speech(
            run,
            "Die Spalte heißt wohl anders.|Anderer Name:|Vielleicht so.|Ich korrigiere das.|",
            f"Ich versuche {name}.|Neuer Versuch.|",
        )
        chat.act(say.strip(), tool("run_sql", {"sql": sql}, miss(name), 1))
    if way == LOOP:
        return
    columns = "month date, net numeric, state char(1), channel text, region text"
    chat.act("", tool("describe_table", {"table": table}, f"{table}({columns})"))
    for number in range(1, 13):
        if way == "monthly":
            sql = query("state <> 'S'", f"2026-{number:02}-01")
        else:
            sql = query(f"state <> 'S' AND region = 'R{number}'")
        rows = f" month      |  sum\n 2026-{number:02}-01 | {run.num(90_000, 900_000)}.{number:02}"
        chat.act("", tool("run_sql", {"sql": sql}, rows))
    chat.say("Der Umsatz war im Dezember am höchsten.")


@HALF.template("validation", "crewai openai-agents responses-kept", "fewer", difficulty="hard")
def import_rejected(run: Run, way: str) -> None:
    """Repair an import of which the same rows are rejected each time."""
    total = run.num(800, 4000)
    chat = run.chat()
    chat.user(f"Import the {total} suppliers of suppliers.csv. The validator must accept all.")
    bad = sorted(run.some(range(2, total), 15))
    ways = (
        "trim the VAT ids",
        "upper-case the countries",
        "strip the dashes",
        "re-encode as UTF-8",
        "quote all fields",
        "fill empty VAT ids with NULL",
        "normalise Unicode to NFC",
    )
    for number in range(run.num(12, 18) if way == LOOP else 15):
        if number == 4:
            run.begin()
        shown = bad if way == LOOP else bad[number:]
        report = {
            "job": f"imp_{run.hex(8)}",
            "accepted": total - len(shown),
            "rejected": len(shown),
            "errors": [
                {"row": row, "field": "vat_id", "rule": "checksum", "value": f"EL{row * 7919}"}
                for row in shown[:5]
            ],
            "took_s": run.dec(2, 6),
        }
        what = run.pick(*ways)
        if way != LOOP:
            what = f"take the VAT id of row {bad[number]} from the register"
        script = f"python fix.py --in suppliers.csv --out fixed.csv --rule '{what}'"
        chat.act(f"I'll {what}.", sh(script, f"{run.num(20, 90)} ms\nwrote fixed.csv"))
        chat.act("", tool("validate_import", {"file": "fixed.csv"}, report, 0, 4))
    if way != LOOP:
        chat.say("The validator accepts all rows.")


# screens

_FIELDS = (
    "Vorname",
    "Nachname",
    "Straße",
    "Hausnummer",
    "PLZ",
    "Ort",
    "Telefon",
    "E-Mail",
    "IBAN",
    "BIC",
    "Steuernummer",
    "Geburtsdatum",
    "Staatsangehörigkeit",
    "Familienstand",
)


def _press(run: Run, x: int, y: int, screen: str) -> Act:
    spot = [x + run.num(-3, 3), y + run.num(-3, 3)]
    image = run.screen(screen, noise=True)
    return tool("computer", {"action": "left_click", "coordinate": spot}, image=image)


def _look(run: Run, screen: str) -> Act:
    return tool("computer", {"action": "screenshot"}, image=run.screen(screen, noise=True))


@HALF.template("screen", "computer-use computer-use computer-use", "form pages")
def button_dead(run: Run, way: str) -> None:
    """Click a button that does nothing; only the clock of the desktop moves."""
    x, y = run.num(300, 1100), run.num(200, 700)
    chat = run.chat()
    if way == LOOP:
        chat.user("Submit the expense report that is open in the browser.")
        chat.act("", _look(run, "form"))
        for number in run.times(10, 16):
            if number == 2:
                run.begin()
            say = speech(
                run,
                "The form is still open.|Nothing has happened.|The click did not register.",
                f"I click 'Submit'{run.pick('.', ' again.', ' once more.')}",
            )
            chat.act(say, _press(run, x, y, "form"))
            chat.act("", _look(run, "form"))
        return
    if way == "pages":
        chat.user("Look at all slides of the training, and answer the question on the last one.")
        for number in run.times(20, 28):
            chat.act("Next slide.", _press(run, x, y, f"slide {number}"))
        chat.say("Answer: c).")
        return
    chat.user("Fülle den Antrag mit den Daten aus meinem Profil aus.")
    for number, name in enumerate(_FIELDS):
        chat.act(f"{name}:", _press(run, x, 120 + 40 * number, f"caret in {name}"))
        typed = {"action": "type", "text": f"{name[:3]}{run.hex(4)}"}
        chat.act("", tool("computer", typed, image=run.screen(f"filled {name}", noise=True)))


def _browse(run: Run, chat: Chat, goal: str, action: dict[str, object], page: str) -> None:
    """Make one step of a browser: in the form's own JSON, or as a call of a tool."""
    if run.form == "browser-use":
        thought = {
            "thinking": run.pick(f"I am on the page of the shop. {goal}", f"As planned: {goal}"),
            "evaluation_previous_goal": run.pick("Success", "Unknown", "Failed - see the page"),
            "memory": f"Working on the request. {goal}",
            "next_goal": goal,
            "action": [action],
        }
        chat.say(json.dumps(thought, ensure_ascii=False))
        chat.user(
            f"<browser_state>\n{page}\n</browser_state>\n<step_info>Current date: "
            f"{run.stamp('%Y-%m-%d %H:%M')}</step_info>"
        )
        return
    name, args = next(iter(action.items()))
    assert isinstance(args, dict)
    chat.act(goal, tool(f"browser_{name}", args, f"### Page state\n{page}", 0, run.dec(0.5, 3)))


@HALF.template("screen", "browser-use anthropic-mcp openai-agents", "catalogue", "trimmed")
def consent_wall(run: Run, way: str) -> None:
    """Accept the cookies, scroll, go back, and find the wall again."""
    shop = run.pick("boulanger", "coolblue", "otto", "allegro")
    url = f"https://www.{shop}.example/offres?page=1"
    chat = run.chat()
    chat.user(f"Trouve le lave-linge le moins cher sur {shop} et donne-moi son prix.")
    wall = (
        f"Current url: {url}\n[{run.num(10, 99)}]<dialog />\n\tNous respectons votre vie privée\n"
        "[12]<button aria-label=Tout accepter />\n[13]<button aria-label=Paramétrer />\n"
        "... 2 114 pixels below ..."
    )
    links = "".join(
        f"[{14 + place}]<a role=menuitem />\n\t{run.pick('Gros', 'Petit', 'Nouvel')} "
        f"électroménager {run.hex(3)}\n"
        for place in range(24)
    )
    wall = f"{wall}\n{links}"
    blank = f"Current url: {url}\n(empty page, loading)\n... 0 pixels below ..."
    steps: list[tuple[str, dict[str, object], str]] = [
        ("Accept the cookies.", {"click": {"index": 12}}, blank),
        ("Scroll to the offers.", {"scroll": {"down": True, "pages": 1.0}}, blank),
        ("Reload, as the page is empty.", {"navigate": {"url": url}}, wall),
        ("Wait for the page.", {"wait": {"seconds": 3}}, wall),
    ]
    if way == LOOP:
        for number in run.times(20, 32):
            if number == 5:
                run.begin()
            goal, action, page = steps[number % 4]
            _browse(run, chat, run.pick(goal, f"{goal} It should work now.", goal), action, page)
        return
    for number in range(14):
        name = f"Lave-linge {run.pick('Brandt', 'Miele', 'Candy', 'Haier')} {run.num(5, 11)} kg"
        price = f"[31]<h1 />\n\t{name}\n\t{run.num(249, 999)} €"
        page = f"Current url: {url[:-6]}{run.hex(6)}\n{links}{price}"
        _browse(run, chat, "Open the offer.", {"click": {"index": 31}}, page)
        page = f"Current url: {url}\n{links}[31]<a />\n\tVoir le produit\n... {27 - number} offers"
        _browse(run, chat, "Back to the list.", {"go_back": {}}, page)


@HALF.template("cycle", "responses-kept anthropic-mcp codex", "each_host")
def firewall_ring(run: Run, way: str) -> None:
    """Seven checks of a connection in a ring, in changing words, and none says more."""
    host = f"db-{run.num(2, 9)}.internal"
    chat = run.chat()
    if way == LOOP:
        chat.user(f"The app cannot reach {host}:5432 since the move. Repair it.")
    else:
        chat.user("Check which of the nodes app-1 to app-4 reach their databases. List all facts.")
    ring = [
        ("getent hosts {h}", "10.4.{n}.17  {h}", 0),
        ("nc -zvw3 {h} 5432", "nc: connect to {h} port 5432 (tcp) timed out", 1),
        ("ip route get 10.4.{n}.17", "10.4.{n}.17 via 10.4.0.1 dev eth0 src 10.4.9.2 uid 0", 0),
        ("iptables -S OUTPUT", "-P OUTPUT ACCEPT", 0),
        ("traceroute -m 6 {h}", " 1  10.4.0.1  {ms} ms\n 2  * * *\n 3  * * *", 0),
        (
            "systemctl status app --no-pager",
            "● app.service\n   Active: activating (auto-restart)"
            "\n   could not connect to server: Connection timed out",
            3,
        ),
        ("systemctl restart app", "", 0),
    ]
    for number in range(run.num(24, 38) if way == LOOP else 28):
        if number == 8:
            run.begin()
        command, out, code = ring[number % 7]
        n = 3 if way == LOOP else 20 + number // 7
        where = host if way == LOOP else f"db-{number // 7 + 1}.internal"
        if way != LOOP:
            out = out.replace("(tcp) timed out", f"(tcp) {run.pick('succeeded', 'refused')}")
            out = out.replace("activating (auto-restart)", "active (running)")
            out = out.replace("could not connect to server: Connection timed out", f"PID: {9 * n}")
            command, code = command.replace("restart", "cat"), 0
            command = f"ssh app-{number // 7 + 1} {command}"
        if run.chance.random() < 0.4:
            command += run.pick(" 2>&1", " | cat", " | head -20")
        chat.act(
            run.pick(
                "", "Let me check the network.", "Next, the route.", "What about the service?"
            ),
            sh(command.format(h=where, n=n), out.format(h=where, n=n, ms=run.dec(0.2, 0.9)), code),
        )
    if way != LOOP:
        chat.say("Here are the facts of all four nodes.")
