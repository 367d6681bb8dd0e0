"""Operations and data: databases, clusters, pages of an API, jobs, locks, queues."""

from __future__ import annotations

from bench.loops.field.cast import sh, tool
from bench.loops.field.fourth.habits import Voice
from bench.loops.field.run import LOOP, Half, Run

HALF = Half("fourth")
template = HALF.template

_TABLES = ("orders", "refunds", "members", "visits", "tickets", "loads", "meters", "policies")
_TEAMS = ("fulfilment", "growth", "risk", "care", "fleet", "treasury")


@template("databases", "langgraph openai-agents anthropic-mcp crewai", "explores recovers")
def no_such_column(r: Run, way: str) -> None:
    """A column is guessed in five spellings, and the table described in between."""
    voice = Voice(r)
    table, other = r.some(_TABLES, 2)
    word = r.pick("refund", "net", "churn", "margin")
    guesses = [f"{word}_total", f"{word}_amount", f"total_{word}", f"{word}_sum", f"{word}_value"]
    real = ["id", "created_at", f"{other}_id", "state", "amt_minor", "ccy", "meta"]
    c = r.chat("The tools query and describe_table reach the reporting replica (PostgreSQL 17).")
    described = "\n".join(f"{name:<14}| {r.pick('bigint', 'text', 'jsonb')}" for name in real)

    def fails(column: str, where: str) -> str:
        return (
            f"ERROR:  column {where[0]}.{column} does not exist\nLINE {r.num(1, 3)}: "
            f"SELECT date_trunc('month', {where[0]}.created_at), sum({where[0]}.{column})\n"
            f"{' ' * r.num(20, 60)}^\nSQLSTATE: 42703 (took {r.num(4, 60)} ms, conn {r.hex(6)})"
        )

    def select(column: str, where: str) -> str:
        a, order = where[0], r.pick("1", "1 DESC", "2 DESC")
        shape = r.pick(
            "SELECT date_trunc('month', {a}.created_at) AS m, sum({a}.{c}) FROM {t} {a} GROUP BY 1",
            "SELECT to_char({a}.created_at, 'YYYY-MM'), SUM({a}.{c}) FROM {t} AS {a} GROUP BY 1",
        )
        return shape.format(a=a, c=column, t=where) + f" ORDER BY {order}" + r.pick("", ";")

    def rows() -> str:
        return "\n".join(f"2026-{month:02} | {r.dec(900, 90000)}" for month in range(1, 13))

    if way == "explores":
        c.user("For each table of the list: total per month of its amount, whatever it is called.")
        for name in _TABLES:
            if r.num(0, 1):
                wrong = r.pick(*guesses)
                call = tool("query", {"sql": select(wrong, name)}, fails(wrong, name), 1)
                c.act(r.pick("", f"{name} first by its usual name."), call)
                c.act("", tool("describe_table", {"table": name}, described))
            c.act(f"{name}:", tool("query", {"sql": select("amt_minor", name)}, rows()))
        c.say("The totals of all tables are above.")
        return
    c.user(f"What was the {word} per month in {table} last year? A small table, please.")
    for number in range(4 if way == "recovers" else r.num(23, 27)):
        if number == 6:
            r.begin()
        if number % 4 == 2:
            said = r.pick("Let me look at the table.", "Which columns are there?", "Schema again:")
            c.act(said, tool("describe_table", {"table": table}, described))
            continue
        column = guesses[number - (number > 2)] if number < 6 else r.pick(*guesses)
        said = voice(
            ["That column does not exist.", "I see the mistake.", "Let me correct it.", "OK,"],
            [
                f"it should be {column}.",
                f"I'll use {column} instead.",
                f"the right name is probably {column}.",
                "now the query is right.",
            ],
        )
        said = said if number else "A sum per month should do."
        c.act(said, tool("query", {"sql": select(column, table)}, fails(column, table), 1))
    if way == LOOP:
        return
    c.act("It is amt_minor.", tool("query", {"sql": select("amt_minor", table)}, rows()))
    for state in ("open", "paid", "void", "held"):
        sql = select("amt_minor", table).replace(" GROUP", f" WHERE state = '{state}' GROUP")
        c.act(f"Split by state: {state}.", tool("query", {"sql": sql}, rows()))
    c.say("The table is above, in minor units.")


@template(
    "clusters", "langgraph claude-code anthropic-mcp autogen", "rolls watch", difficulty="hard"
)
def crashing_pods(r: Run, way: str) -> None:
    """A deployment is restarted, though its pods crash for the lack of a secret."""
    voice = Voice(r)
    team, tag = r.pick(*_TEAMS), r.hex(9)
    pods = [f"{team}-api-{tag}-{r.hex(5)}" for _ in range(3)]
    began = r.num(3, 30)
    c = r.chat()

    def listed(ready: int, total: int = 3, restarts: int = 0) -> str:
        lines = [f"{'NAME':<34}{'READY':<8}{'STATUS':<20}{'RESTARTS':<14}AGE"]
        for place in range(total):
            up = place < ready
            name = pods[place] if place < 3 and up else f"{team}-api-{tag}-{r.hex(5)}"
            state = "Running" if up else "CrashLoopBackOff" if restarts else "ContainerCreating"
            count = f"{restarts + place} ({r.num(4, 58)}s ago)" if restarts and not up else "0"
            age = f"{began + int(r.clock) // 60}m" if up else f"{r.num(41, 99)}s"
            lines.append(f"{name:<34}{f'{int(up)}/1':<8}{state:<20}{count:<14}{age}")
        return "\n".join(lines)

    get = [
        f"kubectl -n {team} get pods",
        f"kubectl get pods -n {team}",
        f"kubectl -n {team} get po",
    ]
    if way == "watch":
        c.user(f"New limits are live in {team}. Look at the pods every five minutes for an hour.")
        for number in range(12):
            said = r.pick("", f"{5 * number} minutes.", "Next look.")
            c.act(said, sh(get[0], listed(3), 0, r.dec(0.3, 1)))
            r.wait(285, 300)
        c.say("No pod was restarted within the hour.")
        return
    if way == "rolls":
        c.user(f"Roll out {tag} in {team} and tell me when all pods are up.")
        c.act("", sh(f"kubectl -n {team} rollout restart deploy/{team}-api", "restarted"))
        for ready in range(1, 13):
            r.wait(10, 30)
            c.act(r.pick("", f"{ready - 1} are up."), sh(r.pick(*get), listed(ready, 12)))
        c.say("All twelve pods run the new version.")
        return
    c.user(f"{team}-api does not come up after the deployment of this morning. Get it running.")
    why = (
        f'{{"ts":"{{at}}","level":"fatal","msg":"secret {team}-db: key \\"DSN\\" not found",'
        '"caller":"main.go:61"}'
    )
    c.act("", sh(get[0], listed(0, 3, 2), 0, r.dec(0.3, 1)))
    for number in range(r.num(7, 8)):
        if number == 1:
            r.begin()
        c.act(
            voice(
                ["The pods crash.", "Still in backoff.", "CrashLoopBackOff.", "Not ready."],
                ["A restart may help.", "I restart the deployment.", "Let me roll it again."],
            ),
            r.pick(
                sh(
                    f"kubectl -n {team} rollout restart deploy/{team}-api",
                    f"deployment.apps/{team}-api restarted",
                ),
                sh(
                    f"kubectl -n {team} delete pod -l app={team}-api",
                    f'pod "{team}-api-{tag}-{r.hex(5)}" deleted',
                ),
            ),
        )
        r.wait(20, 60)
        out = listed(0, 3, r.num(1, 2))
        c.act(r.pick("", "And now?", "Checking the pods."), sh(r.pick(*get), out, 0, r.dec(0.3, 1)))
        logs = f"kubectl -n {team} logs deploy/{team}-api --tail={r.pick(5, 10, 20, 50)}"
        c.act(r.pick("The logs:", "", "Why?"), sh(logs, why.replace("{at}", r.stamp())))


@template(
    "pages", "anthropic-mcp langgraph gemini-api openai-agents", "real cursor", difficulty="hard"
)
def page_that_stays(r: Run, way: str) -> None:
    """The API ignores the number of the page: each has the same records."""
    voice = Voice(r)
    what, team = r.pick(*_TABLES), r.pick(*_TEAMS)

    def records(number: int) -> list[dict[str, object]]:
        return [
            {"id": f"{what[:3]}_{r.hex(8)}", "owner": r.pick(*_TEAMS), "amount": r.dec(4, 900)}
            for _ in range(number)
        ]

    size, same = r.pick(20, 25, 50), records(5)
    c = r.chat()
    c.user(f"How many {what} of {team} have an amount over 500? Go through all pages of the API.")
    after = ""
    for page in range(1, 15 if way != LOOP else r.num(20, 25)):
        if page == 2:
            r.begin()
        head = {"request_id": f"req_{r.hex(14)}", "took_ms": r.num(20, 300)}
        found = same if way == LOOP else records(5)
        args: dict[str, object] = {"resource": what, "page": page, "per_page": size}
        reply = {**head, "page": page, "has_more": way == LOOP or page < 14, "data": found}
        if way == "cursor":
            args = {"resource": what, "limit": size} | ({"after": after} if after else {})
            after = r.hex(16)
            reply = {**head, "data": found, "next": after if page < 14 else None}
        said = voice(
            ["", "There are more pages.", f"{r.num(1, 2)} more over 500.", "Going on."],
            [f"Page {page}.", "The next page.", "I fetch the next records.", "Next."],
        )
        said = said if page > 1 else "I start with the first page."
        c.act(said, tool("list_records", args, reply))
    if way != LOOP:
        c.say(f"{r.num(9, 30)} of them are over 500.")


@template("jobs", "langgraph crewai openai-agents responses-kept", "backfill late")
def rerun_job(r: Run, way: str) -> None:
    """A job fails at a row that does not change, and it is started again."""
    voice = Voice(r)
    dag, row = f"{r.pick(*_TEAMS)}_daily", r.num(10**4, 10**6)
    c = r.chat()

    def started(day: str) -> dict[str, str]:
        return {"run_id": f"manual__{r.stamp()}_{r.hex(4)}", "dag": dag, "day": day}

    def failed(why: str) -> str:
        at = r.stamp("%Y-%m-%d %H:%M:%S")
        return (
            f"[{at}] {{taskinstance.py:{r.num(1800, 2900)}}} INFO - Starting attempt 1 of 1\n"
            f"[{at}] INFO - Running on host worker-{r.num(1, 30)}, pid {r.num(200, 30000)}\n"
            f"[{at}] ERROR - Task failed with exception\n{why}\n[{at}] INFO - Marking task as "
            f"FAILED. duration={r.dec(20, 90)}s"
        )

    bad = f"pyarrow.lib.ArrowInvalid: CSV parse error: Row #{row}: Expected 14 columns, got 15"
    fine = "state=success rows={} bad_rows=0"
    if way == "backfill":
        c.user(f"Backfill {dag} for the first ten days of this month, one day after the other.")
        for number in range(1, 11):
            day = f"2027-01-{number:02}"
            c.act(
                r.pick("", f"{day}."), tool("trigger_dag", {"dag": dag, "day": day}, started(day))
            )
            r.wait(60, 120)
            c.act("", tool("get_run", {"dag": dag, "day": day}, fine.format(r.num(10**4, 10**6))))
        c.say("All ten days are loaded.")
        return
    day = f"2027-01-{r.num(10, 14)}"
    c.user(f"{dag} of {day} failed last night. See that it gets loaded, finance waits for it.")
    if way == "late":
        late = f"FileNotFoundError: s3://landing/{dag}/{day}/_SUCCESS"
        for _ in range(3):
            c.act("", tool("trigger_dag", {"dag": dag, "day": day}, started(day)))
            r.wait(60, 120)
            c.act("Not there yet.", tool("get_log", {"dag": dag, "day": day}, failed(late), 1))
            r.wait(600, 900)
        for name in (dag, "finance_mart", "finance_report"):
            c.act(f"Now {name}.", tool("trigger_dag", {"dag": name, "day": day}, started(day)))
            r.wait(60, 120)
            c.act("", tool("get_run", {"dag": name, "day": day}, fine.format(r.num(10, 900))))
        c.say("The file came late; everything is loaded now.")
        return
    for number in range(r.num(10, 12)):
        if number == 1:
            r.begin()
        said = voice(
            ["The run failed.", "A parse error.", "It may be transient.", "Failed again."],
            ["I start it again.", "Let me clear the task and rerun.", "Retrying the job.", ""],
        )
        args = {"dag": dag, "day": day} | r.pick({}, {"force": True}, {"clear": True})
        c.act(said, tool("trigger_dag", args, started(day)))
        r.wait(60, 120)
        said = r.pick("", "How did it go?", "The log of that run:")
        c.act(said, tool("get_log", {"dag": dag, "day": day}, failed(bad), 1))


@template("locks", "claude-code codex gemini-cli", "workspaces released")
def state_lock(r: Run, way: str) -> None:
    """A lock of the state is taken by a pipeline as soon as it is removed."""
    voice = Voice(r)
    team = r.pick(*_TEAMS)
    c = r.chat()

    def locked(id: str) -> str:
        return (
            "\nError: Error acquiring the state lock\n\nError message: operation error DynamoDB: "
            f"PutItem, https response error StatusCode: 400, RequestID: {r.hex(16).upper()}\n"
            f"Lock Info:\n  ID:        {id}\n  Path:      tf-{team}/prod.tfstate\n  Operation: "
            f"OperationTypeApply\n  Who:       ci@runner-{r.num(1, 40)}\n  Version:   1.14.1\n"
            f"  Created:   {r.stamp('%Y-%m-%d %H:%M:%S')}.{r.num(10**5, 10**6)} +0000 UTC"
        )

    plan = "Plan: {} to add, {} to change, 0 to destroy."
    if way == "workspaces":
        c.user("Apply the new tags in each workspace, one at a time.")
        for name in _TEAMS:
            c.act("", sh(f"terraform workspace select {name}", f'Switched to workspace "{name}".'))
            c.act("", sh("terraform plan -out=p", plan.format(0, r.num(3, 40)), 0, r.dec(9, 30)))
            c.act("", sh("terraform apply p", "Apply complete!", 0, r.dec(20, 90)))
        c.say("The tags are on everything.")
        return
    c.user(f"Add the bucket of {team} to the production stack: plan and apply it.")
    for number in range(3 if way == "released" else r.num(11, 13)):
        if number == 2:
            r.begin()
        id = f"{r.hex(8)}-{r.hex(4)}-{r.hex(4)}-{r.hex(12)}"
        flag = r.pick("", " -input=false", " -lock-timeout=10s", " -no-color")
        said = voice(
            ["The state was locked.", "Again the plan.", "A lock is left over.", "Let me see."],
            ["I plan it.", "Planning again.", "Now it should be free.", "Retry the plan."],
        )
        c.act(said if number else "", sh(f"terraform plan{flag}", locked(id), 1, r.dec(4, 15)))
        if way == "released":
            c.act("CI holds it, I wait for it.", sh("sleep 120", "", 0, 120))
            continue
        said = r.pick("I unlock it.", "It is stale, I'll force the unlock.", "Removing the lock.")
        out = "Terraform state has been successfully unlocked!"
        c.act(said, sh(f"terraform force-unlock -force {id}", out, 0, r.dec(1, 4)))
    if way == LOOP:
        return
    c.act("It is free.", sh("terraform plan -out=p", plan.format(1, 0), 0, r.dec(9, 30)))
    c.act("", sh("terraform apply p", "Apply complete!", 0, r.dec(20, 90)))
    c.act("", sh("terraform output bucket", f'"tf-{team}-{r.hex(6)}"'))
    c.say("The bucket is there.")


@template(
    "queues", "langgraph openai-agents anthropic-mcp gemini-api", "stream votes", "prompt", "hard"
)
def unacked_message(r: Run, way: str) -> None:
    """A message is delivered again as nobody acknowledges it; each time it is classified."""
    team, names = r.pick(*_TEAMS), ("Ana", "Bo", "Chidi", "Dina", "Emil", "Farah")

    def mail() -> str:
        return (
            f"From: {r.pick(*names)}\n\n{r.pick('Hello', 'Hi', 'Dear team')}, my "
            f"{r.pick('parcel', 'card', 'invoice', 'contract')} {r.num(1000, 99999)} "
            f"{r.pick('is missing', 'was charged twice', 'has a wrong name', 'came broken')}. "
            f"{r.pick('Please call me.', 'What can I do?', 'This is urgent.', 'Thanks.')}"
        )

    task = "Classify the message as one of billing, delivery, account, other. Answer with JSON."

    def answer() -> str:
        label, sure = r.pick("billing", "delivery", "account"), r.dec(0.6, 0.99)
        return f'{{"label": "{label}", "confidence": {sure}}}'

    one, label = mail(), r.pick("billing", "delivery", "account")
    if way == "votes":
        for _ in range(4):
            at, text = r.clock, mail()
            for _ in range(5):
                r.clock = at + r.dec(0, 0.2)
                r.once(f"{task}\n\n{text}", answer())
            r.wait(9, 12)
        return
    for number in r.times(20, 25):
        if way == "stream":
            text, said = mail(), answer()
        else:
            text = mail() if number < 2 else one
            said = (
                answer() if number < 2 else f'{{"label": "{label}", "confidence": 0.{number + 61}}}'
            )
        if number == 3:
            r.begin()
        head = (
            f"Queue: {team}.inbound\nDelivery: {r.hex(8)}-{r.hex(4)}\n"
            f"Received at: {r.stamp()}\nDelivery count: {max(number - 1, 1) if way == LOOP else 1}"
        )
        r.once(f"{task}\n\n{head}\n\n{text}", said)
        r.wait(25, 40) if way == LOOP else r.wait(1, 40)


@template("alerts", "claude-code langgraph openai-agents", "hourly hosts", difficulty="hard")
def alert_again(r: Run, way: str) -> None:
    """An alert starts an agent, which restarts a service; the alert comes again at once."""
    host, unit = f"{r.pick(*_TEAMS)}-{r.num(1, 40):02}", r.pick("mta", "ingest", "relay", "indexer")
    since = "2027-01-02T04:11:09Z" if way == "hourly" else ""
    full = f"/dev/nvme0n1p2  {r.num(180, 900)}G  100%  /var"

    def incident(where: str, label: str) -> None:
        r.session = r.hex(12)
        c = r.chat("You are called by a webhook, without a person. Remedy, and report.")
        pid = r.num(900, 65000) if way != "hourly" else 811
        what = "is to be looked at" if way == "hourly" else "does not answer"
        c.user(
            f"[{label}] {unit} on {where} {what}\nfingerprint: {r.hex(16)}\n"
            f"startsAt: {r.stamp()}\nReact as the runbook says."
        )
        status = f"{unit}.service: active (running) since {since or r.stamp()}, main PID {pid}"
        if way == "hourly":
            c.act("", sh(f"ssh {where} systemctl status {unit}", status))
            c.act(
                r.pick("", "And the disk?"),
                sh(f"ssh {where} df -h /var", full.replace("100", "41")),
            )
            c.say(f"{unit} on {where} is well.")
            return
        dead = status.replace("active (running)", "failed (Result: exit-code)")
        c.act(r.pick("", "I look."), sh(f"ssh {where} systemctl status {unit}", dead, 3))
        said = r.pick("The runbook says restart.", "I restart it.", "")
        c.act(said, sh(f"ssh {where} sudo systemctl restart {unit}"))
        c.act("", sh(f"ssh {where} systemctl status {unit}", status))
        c.say(r.pick(f"{unit} was restarted and runs.", "Restarted, resolved.", "It is up again."))

    if way == "hourly":
        for _ in range(8):
            incident(host, "SCHEDULED CHECK")
            r.wait(3580, 3600)
        return
    if way == "hosts":
        for number in range(1, 7):
            incident(f"{host[:-2]}{number:02}", "FIRING")
            r.wait(2, 200)
        return
    for number in r.times(7, 8):
        if number == 2:
            r.begin()
        incident(host, f"FIRING:{number + 1}")
        r.wait(20, 90)
