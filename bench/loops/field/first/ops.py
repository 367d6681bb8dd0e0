"""Operations and data: deployments, pipelines, databases, forms of APIs, supervisors."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, sh, tool
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("first")

TEAMS = ("payments", "search", "mobile", "growth", "platform")


@HALF.template("polling", "claude-code langgraph openai-agents anthropic-mcp", "moves asked")
def workflow_run(r: Run, way: str) -> None:
    c, run = r.chat(), r.num(10**10, 10**11)
    jobs = ["lint", "unit", "build-arm64", "e2e-chrome", "e2e-webkit", "package", "publish"]
    ask = (
        f"I pushed release/{r.num(3, 9)}.{r.num(0, 20)}. Wait for CI run {run} and "
        "tell me the result."
    )
    if way == "asked":
        ask = (
            f"Look at run {run} every minute for a quarter of an hour and log whether it is alive."
        )
    c.user(ask)

    def view(done: int, failed: str = "") -> Act:
        states = [
            {"name": job, "status": "completed" if n < done else "queued", "startedAt": r.stamp()}
            for n, job in enumerate(jobs)
        ]
        state = (
            {"status": "completed", "conclusion": "failure"}
            if failed
            else {"status": "in_progress"}
        )
        out = json.dumps({"databaseId": run, **state, "failedJob": failed, "jobs": states})
        if r.form == "claude-code":
            return sh(f"gh run view {run} --json status,conclusion,jobs", out)
        return tool("get_workflow_run", {"owner": "acme", "run_id": run}, out)

    if way == "moves":
        for half in range(2, 2 * len(jobs)):
            c.act("Still running.", view(half // 2))
            r.wait(40, 80)
        c.say("The run is through: all jobs passed.")
    elif way == "asked":
        for _ in range(15):
            c.act("Minute check.", view(3))
            r.wait(60)
        c.say("It was alive at each of the 15 checks.")
    else:
        c.act("I look at the run.", view(4))
        r.wait(40, 80)
        c.act("Still going.", view(5, jobs[4]))
        r.begin()
        for _ in r.times(14, 20):
            say = r.mix("Let me wait|I'll wait|Waiting", "for the run to finish.|and check again.")
            c.act(say, view(5, jobs[4]))
            r.wait(30, 60)


@HALF.template("noise", "codex gemini-cli langgraph responses-kept", "rollout incident")
def pod_list(r: Run, way: str) -> None:
    c, app = r.chat(), r.pick("cart", "prices", "mailer", "thumbs")
    pods = [f"{app}-{r.hex(9)}-{r.hex(5)}" for _ in range(4)]
    age = r.num(3, 9)
    if way == "incident":
        ask = f"We watch an incident: list the pods of {app} each 30 s until I say stop, no action."
    else:
        ask = f"Is {app} healthy after the deploy of 14:00? Report and stop."
    c.user(ask)

    def pods_now(ready: int) -> Act:
        rows = [
            f"{pod}   {'1/1' if n < ready else '0/1'}     {'Running' if n < ready else 'Pending'}"
            f"   0          {age}m{r.num(1, 59)}s   10.4.{r.num(0, 9)}.{r.num(2, 250)}"
            for n, pod in enumerate(pods)
        ]
        out = "NAME   READY   STATUS   RESTARTS   AGE   IP\n" + "\n".join(rows)
        return sh(f"kubectl get pods -l app={app} -o wide", out, takes=r.dec(0.4, 1))

    if way == "rollout":
        for half in range(10):
            c.act("The rollout goes on.", pods_now(half // 2))
            r.wait(15, 40)
            age += 1
        c.say(f"All pods of {app} are ready.")
        return
    if way == LOOP:
        c.act("I look at the pods.", pods_now(4))
        r.begin()
    for _ in r.times(14, 19):
        say = r.mix("Let me check|I'll confirm|Checking", "the pods|their state", "again.|now.")
        c.act("Next look." if way == "incident" else say, pods_now(4))
        r.wait(25, 35)
        age += 1
    if way == "incident":
        c.user("Stop, thank you.")
        c.say("Stopped: four of four pods were ready all the time.")


@HALF.template("slow failure", "codex claude-code openhands responses-kept", "further")
def terraform_apply(r: Run, way: str) -> None:
    c, team = r.chat(), r.pick(*TEAMS)
    names = [f"aws_db_instance.{team}_{n}" for n in ("eu", "us", "ap", "sa", "af", "me", "ca")]
    c.user(f"Apply the stack of {team} in live/{team}. Creation may take some minutes each.")
    c.act("", sh("terraform plan -out=tf.plan", f"Plan: {len(names)} to add, 0 to change"))
    for turn in range(len(names)) if way == "further" else r.times(14, 17):
        name = names[turn if way == "further" else 0]
        if turn == 1:
            r.begin()
        minutes = r.num(4, 7)
        made = "\n".join(f"{one}: Creation complete after {r.num(3, 9)}m" for one in names[:turn])
        made = made if way == "further" else ""
        reason = "InvalidSubnet: no subnet group" if way == "further" else "InstanceQuotaExceeded"
        out = (
            f"{made}\n{name}: Still creating... [{minutes}m{r.num(0, 5)}0s elapsed]\n╷\n│ Error: "
            f"creating RDS DB Instance: api error {reason}\n│   RequestID: {r.hex(8)}-{r.hex(4)}\n╵"
        )
        c.act(
            r.mix("Applying|Apply", "again.|once more."),
            sh("terraform apply -auto-approve", out, 1, 60.0 * minutes),
        )
        if way == "further":
            c.act("It lacks a subnet group.", sh(f"./add-subnet {name}", f"added {r.hex(6)}"))
    if way == "further":
        c.act("", sh("terraform apply -auto-approve", "Apply complete! Resources: 7 added", 0, 400))
        c.say("The stack is up.")


@HALF.template("prompt", "langgraph gemini-api autogen anthropic-mcp", "batch third", "prompt")
def extract_json(r: Run, way: str) -> None:
    firms = [
        f"{a} {b}"
        for a in ("Nord", "Alba", "Kern", "Vela", "Orto")
        for b in ("Oil", "Rail", "Seed", "Tech")
    ]
    ask = "Extract supplier, total (number) and currency from the invoice as JSON.\n\nInvoice:\n"

    def text(firm: str) -> str:
        rows = "\n".join(f"{n}. Part {r.hex(5).upper()}  {r.dec(9, 900)} EUR" for n in range(6))
        return (
            f"{firm} GmbH, Hafenstr. {r.num(1, 99)}\nNo. "
            f"{r.num(10**6, 10**7)}\n{rows}\nSumme: fünfhundert"
        )

    fault = (
        "1 validation error for Invoice\ntotal\n  Input should be a valid number "
        "[type=float_parsing]"
    )
    if way == "batch":
        for firm in firms:
            r.once(
                ask + text(firm),
                json.dumps({"supplier": firm, "total": r.dec(9, 900), "currency": "EUR"}),
            )
        return
    for firm in firms[:5] if way == "third" else firms[:1]:
        invoice = text(firm)
        good = json.dumps({"supplier": firm, "total": r.dec(9, 900), "currency": "EUR"})
        bad = json.dumps({"supplier": firm, "total": "fünfhundert", "currency": "EUR"})
        for attempt in range(3) if way == "third" else r.times(16, 20):
            if attempt == 2:
                r.begin()
            again = (
                f"\n\n[{r.stamp()}] Attempt {attempt + 1}. The last answer was refused:\n{fault}"
            )
            done = way == "third" and attempt == 2
            r.once(ask + invoice + (again if attempt else ""), good if done else bad)
            r.wait(1, 2 ** min(attempt, 5))


@HALF.template("validation", "anthropic-mcp openai-agents crewai langgraph", "learns batch")
def invoice_form(r: Run, way: str) -> None:
    c = r.chat()
    firm, total = r.pick("Kessel AG", "Brill & Co", "Lund AB"), r.num(100, 9000)
    good = {"customer": firm, "due_date": "2027-02-28", "amount_cents": total * 100, "tax": "DE19"}
    bad = {**good, "due_date": "end of next month"}
    about = f"Bill {firm} {total} EUR, due at the end of next month."
    c.user(
        f"Create the invoices of the 16 partners in the list, all alike. {about}"
        if way == "batch"
        else about
    )

    def fault(key: str, why: str) -> dict[str, object]:
        detail = {"loc": ["body", key], "msg": why, "type": "value_error", "ctx": r.hex(6)}
        return {"status": 422, "detail": [detail]}

    if way == "batch":
        for _ in range(16):
            args = {**good, "customer": f"Partner {r.hex(5)}"}
            c.act("Next partner.", tool("create_invoice", args, {"status": "created"}))
    elif way == "learns":
        for key, value in (("due_date", "soon"), ("amount_cents", f"{total},00"), ("tax", "19%")):
            c.act(
                "Creating it.",
                tool("create_invoice", {**good, key: value}, fault(key, "invalid"), 1),
            )
        c.act("Now all fields are right.", tool("create_invoice", good, {"id": r.hex(8)}))
        for number in range(2, 9):
            c.say(f"Bill {number - 1} is created.")
            c.user(f"Bill {number}: {total + number} EUR to the same firm, please.")
            args = {**good, "amount_cents": (total + number) * 100}
            c.act("", tool("create_invoice", args, {"id": r.hex(8)}))
    else:
        for turn in r.times(15, 20):
            if turn == 2:
                r.begin()
            say = r.mix(
                "I apologize.|Sorry.|I see the error.", "I'll correct the date.|Fixing the format."
            )
            why = "Input should be a valid date in the format YYYY-MM-DD"
            c.act(say, tool("create_invoice", bad, fault("due_date", why), 1))
    if way != LOOP:
        c.say("The bills are created.")


@HALF.template(
    "supervisor", "autogen gemini-api langgraph anthropic-mcp", "monitor", "prompt", "hard"
)
def nightly_job(r: Run, way: str) -> None:
    job = r.pick("load_orders", "sync_crm", "dedupe_leads", "build_cube")
    fault = (
        f"psycopg.errors.UndefinedColumn: column o.{r.pick('vat_id', 'region_id')} does not exist"
    )
    head = f"You supervise the job {job}. Answer with one of RETRY, SKIP, PAGE and a reason.\n"
    jobs = [f"{job}_{r.hex(4)}" for _ in range(20)]
    for turn in r.times(16, 20):
        if turn == 2:
            r.begin()
        if way == "monitor":
            rows = r.num(10_000, 99_999)
            about = (
                f"{r.stamp()} job {jobs[turn]} ended with exit code 0, {rows} rows, "
                f"{r.num(20, 90)} s."
            )
            r.once(f"{head}\n{about}", "SKIP: nothing to do, the job ended well.")
            r.wait(60)
            continue
        about = (
            f"{r.stamp()} attempt {turn + 1}, pid {r.num(900, 9000)}: exit code "
            "1\nTraceback (most recent "
            f'call last):\n  File "/srv/jobs/{job}.py", line 88, in main\n    '
            f"rows = db.execute(SQL)\n{fault}"
        )
        say = r.mix(
            "RETRY:", "the error may be transient.|a new attempt may succeed.|try it again."
        )
        r.once(f"{head}\n{about}", say)
        r.wait(60, 64)


@HALF.template("variants", "codex claude-code langgraph swe-agent", "other-models found")
def dbt_run(r: Run, way: str) -> None:
    c, model = r.chat(), r.pick("fct_orders", "dim_store", "fct_visits", "int_baskets")
    fault = (
        f"Completed with 1 error and 0 warnings:\n\nDatabase Error in model {model} "
        f"(models/marts/{model}.sql)\n  002003 (42S02): SQL compilation error:\n  Object "
        "'RAW.SHOP.ORDERS_V2' does not exist or not authorized.\n\nDone. PASS=0 "
        "WARN=0 ERROR=1 SKIP=0"
    )
    c.user(f"The dashboard is stale: run the dbt model {model}, please.")
    flags = (
        "",
        " --full-refresh",
        " --threads 1",
        " --no-partial-parse",
        " --target prod",
        " --debug",
    )
    flags += (" --fail-fast", " --vars '{d: 1}'", " --no-version-check", " --defer --state prod")
    turns = {LOOP: r.num(16, 20), "found": 3, "other-models": 0}[way]
    for turn, flag in zip(range(turns), cycle(flags), strict=False):
        if turn == 3:
            r.begin()
        head = f"{r.stamp('%H:%M:%S')}  Running with dbt=1.11.{r.num(2, 3)}\n"
        cmd = f"dbt run --select {model}{flag}"
        say = r.mix("Let me try|I'll run it|Try", "with other options.|it another way.")
        c.act(say, sh(cmd, head + fault, 1, r.dec(8, 40)))
    if way == "found":
        c.act("Is it granted?", sh("snow sql -q 'show grants'", "ORDERS_V2: role LOADER only"))
        c.act("Grant it.", sh("snow sql -q 'grant select on ORDERS_V2 to role DBT'", "granted"))
        for number in range(7):
            cmd = f"dbt run --select {model}{f'_{number}' if number else ''}"
            c.act("Run.", sh(cmd, "Done. PASS=1 WARN=0 ERROR=0"))
        c.say("It is fresh again.")
    if way == "other-models":
        for number in range(12):
            other = f"{model}_{number}"
            c.act(
                "Next model above it.",
                sh(f"dbt run --select {other}", "Done. PASS=1 WARN=0 ERROR=0"),
            )
        c.say("All models above it are fresh.")


@HALF.template(
    "long cycle",
    "langgraph openai-agents claude-code responses-kept",
    "services",
    difficulty="hard",
)
def restart_cycle(r: Run, way: str) -> None:
    c = r.chat()
    services = [f"{a}-{b}" for a in ("geo", "tax", "img", "sms") for b in ("api", "worker", "cron")]
    c.user("Alert: error rate of geo-api above 5 %. Handle it. Restart other services as needed.")
    node, code = r.num(11, 44), r.num(502, 504)
    size = r.num(4, 8)

    def cycle_of(name: str, number: int) -> list[tuple[str, Act]]:
        at = r.stamp()
        rate = "7.3 %" if way == LOOP else f"{r.dec(0, 3)} %"
        log = f"{at} ERROR upstream {code} from node-{node}: certificate has expired"
        log = log if way == LOOP else f"{at} WARN {name} pool {r.hex(4)} full on node-{number}"
        return [
            (
                "error rate|the dashboard",
                tool("get_metric", {"query": f"rate(err{{s='{name}'}})"}, rate),
            ),
            ("logs|the latest errors", tool("get_logs", {"service": name, "lines": 50}, log)),
            ("restart|fresh instance", tool("restart", {"service": name}, {"ok": True, "at": at})),
            ("health|probes", tool("health", {"service": name}, {"ready": 3, "of": 3, "at": at})),
            (
                "deployments|revisions",
                tool("list_deploys", {"service": name}, f"r{node}, r{node - 1}"),
            ),
            ("events|the events", tool("get_events", {"service": name}, f"{at} Killing, Started")),
            (
                "config|settings",
                tool("get_config", {"service": name}, {"tls": "internal-ca", "n": name}),
            ),
            (
                "traffic|load",
                tool("get_metric", {"query": f"rps{{s='{name}'}}"}, f"{r.num(90, 110)}"),
            ),
        ][:size]

    for turn in range(-(-22 // size) + 1):
        name = services[turn % 12] if way != LOOP else services[0]
        if turn == 1:
            r.begin()
        for words, act in cycle_of(name, turn):
            c.act(r.mix("Let me look at|Now|Next:|I check", words, f"of {name}."), act)
            r.wait(5, 20)
    if way != LOOP:
        c.say("All are well.")


@HALF.template(
    "trimmed", "langgraph openai-agents crewai anthropic-mcp", "tables", "trimmed", "hard"
)
def orphan_rows(r: Run, way: str) -> None:
    c = r.chat()
    tables = [
        f"{a}_{b}" for a in ("order", "user", "stock") for b in ("items", "notes", "tags", "logs")
    ]
    c.user("Remove rows without a parent from the shop database. Report the number for each table.")
    table = r.pick(*tables)
    if way == "tables":
        for one in tables:
            sql = f"select count(*) from {one} c left join p on p.id = c.p_id where p.id is null"
            c.act("Count.", tool("query", {"sql": sql}, {"rows": [[0]], "ms": r.dec(1, 90)}))
            c.act("Nothing there; note it.", tool("note", {"table": one, "orphans": 0}, "noted"))
        c.say("There are none at all.")
        return
    for turn in r.times(10, 13):
        if turn == 1:
            r.begin()
        word = r.pick("c", "t", "x")
        sql = (
            f"select count(*) from {table} {word} where not exists (select 1 from p "
            f"where id = {word}.p_id)"
        )
        c.act(
            "How many are there?",
            tool("query", {"sql": sql}, {"rows": [[412]], "ms": r.dec(1, 90)}),
        )
        sql = f"delete from {table} where p_id not in (select id from p) /* try {turn} */"
        out = {"error": "permission denied for table " + table, "code": "42501", "ms": r.dec(1, 9)}
        c.act("Remove them.", tool("query", {"sql": sql}, out, 1))
