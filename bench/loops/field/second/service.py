"""Services: jobs, hosts, calendars, programs that call a model with one prompt."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, sh, tool
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("second")

CITIES = ("Bergen", "Porto", "Gdynia", "Trieste", "Malmö", "Varna", "Cork", "Split", "Turku")


@HALF.template("polling", "codex openai-agents gemini-api crewai", "advances ordered")
def render_job(r: Run, way: str) -> None:
    c, job = r.chat(), f"rnd_{r.hex(8)}"
    frames = r.num(400, 900)
    ask = f"The film {job} is in the render farm. Give me its link when it is ready."
    if way == "ordered":
        ask = (
            f"Log the state of {job} every two minutes, 15 times, whatever it is. Do nothing else."
        )
    c.user(ask)

    def state(name: str, done: int) -> Act:
        out = {
            "job": job,
            "state": name,
            "frames": done,
            "of": frames,
            "polled_at": r.stamp(),
            "node": "r-7",
        }
        if name == "CANCELLED":
            out |= {"ended_at": "2027-01-15T07:50:11Z", "reason": "quota of the project is used up"}
        if r.form == "codex":
            return sh(f"farm status {job} --json", json.dumps(out))
        return tool("render_status", {"job": job}, out)

    if way == "advances":
        for part in range(1, 13):
            c.act("Not yet ready.", state("RUNNING", frames * part // 12))
            r.wait(60, 200)
        c.act("", state("DONE", frames))
        c.say(f"Here it is: https://farm.example/{job}.mp4")
    elif way == "ordered":
        for number in range(15):
            c.act(f"{number + 1} of 15.", state("PAUSED", 12))
            r.wait(120)
        c.say("All 15 states are logged: it was paused all the time.")
    else:
        c.act("", state("RUNNING", 80))
        r.wait(60, 90)
        c.act("A third is done.", state("CANCELLED", 131))
        r.begin()
        for _ in r.times(14, 19):
            r.wait(30, 120)
            c.act(
                r.mix(
                    "Not ready yet.|The film is not ready.|Still waiting.",
                    "I ask again.|I poll once more.|Next poll.",
                ),
                state("CANCELLED", 131),
            )


@HALF.template("noise", "claude-code openhands anthropic-mcp responses-kept", "fills watch")
def disk_usage(r: Run, way: str) -> None:
    c, host = r.chat(), f"{r.pick('db', 'mq', 'fs')}{r.num(1, 40)}.ops.example"
    used = r.num(40, 60)
    watch = (
        f"Watch the disk of {host} while I move files by hand. A look each minute, until I write."
    )
    c.user(
        watch
        if way == "watch"
        else f"Is the disk of {host} filling up? Look and give me a yes or no."
    )

    def look(percent: int) -> Act:
        up = (
            f"{r.stamp('%H:%M:%S')} up {r.num(100, 400)} days, load average: "
            f"{r.dec(0, 2)}, {r.dec(0, 2)}"
        )
        text = (
            f" {up}\nFilesystem  Size  Used Avail Use% Mounted on\n/dev/vdb1   500G  "
            f"{percent * 5}G  -  {percent}% /data"
        )
        return sh(f"ssh {host} 'uptime; df -h /data'", text, takes=r.dec(0.5, 2))

    if way == "fills":
        for step in range(9):
            c.act("And now?", look(used + 4 * step))
            r.wait(60, 90)
        c.say("Yes: it gains 20 GB a minute.")
        return
    if way == LOOP:
        c.act("", look(used))
        c.act("A second look to compare.", look(used))
        r.begin()
    for _ in r.times(14, 18):
        c.act(
            "One look."
            if way == "watch"
            else r.mix("I measure|I look", "again|once more", "to be certain.|to see a trend."),
            look(used),
        )
        r.wait(50, 70)
    if way == "watch":
        c.user("Thanks, I am through.")
        c.say(f"It stood at {used} % all the time.")


@HALF.template("slow failure", "claude-code gemini-cli langgraph responses-kept", "epochs")
def training(r: Run, way: str) -> None:
    c, model = r.chat(), r.pick("wake-word", "leaf-spot", "ocr-small", "gait")
    c.user(f"Train {model} to a validation loss below 0.2 on the box with one GPU.")
    size = r.num(900, 2000)
    for turn in range(9) if way == "epochs" else r.times(14, 16):
        if turn == 2:
            r.begin()
        loss = f"{0.9 - turn * 0.09:.3f}"
        seed = r.num(1, 9999)
        log = (
            f"[{r.stamp()}] loading 41,200 clips from data/{model}\n[{r.stamp()}] model has 31.4 M "
            f"parameters, batch 256, bf16\n[{r.stamp()}] epoch {turn if way == 'epochs' else 0}: "
            "validating before the first step\n"
        )
        if way == "epochs":
            cmd = f"python train.py {model} --resume ckpt/{turn}.pt --epochs 1"
            c.act(
                "The next epoch.",
                sh(cmd, f"{log}val_loss {loss} saved ckpt/{turn + 1}.pt", 0, r.num(300, 800)),
            )
            continue
        fault = (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size} "
            "MiB. GPU 0 has 8.00 GiB, of which 112.00 MiB are free. If reserved but unallocated "
            "memory is large, try setting PYTORCH_ALLOC_CONF=expandable_segments:True"
        )
        cmd = f"python train.py {model} --seed {seed}"
        c.act(
            r.mix("With another seed.|It may have been a bad draw.|One more start."),
            sh(cmd, log + fault, 1, r.num(240, 900)),
        )
    if way == "epochs":
        c.say("The validation loss is 0.18.")


@HALF.template(
    "prompt", "gemini-api langgraph openai-agents anthropic-mcp", "sampling classify", "prompt"
)
def sql_of_question(r: Run, way: str) -> None:
    city, year = r.pick(*CITIES), r.num(2015, 2026)
    schema = "create table ferry (id int, port text, dep timestamptz, cars int, crew int);"
    ask = (
        f"You write SQL for Postgres. Schema:\n{schema}\nQuestion: how many cars left "
        f"{city} in {year}, by month?"
    )
    if way == "classify":
        for number in range(18):
            note = (
                f"{r.pick('Lost bag', 'Late ferry', 'Rude crew', 'Cold meal')} from "
                f"{r.pick(*CITIES)}, {r.hex(5)}"
            )
            r.once(
                f"Is this message praise, complaint or question? One word.\n\n{number}: {note}",
                "complaint",
            )
        return
    if way == "sampling":
        clock = r.clock
        for number in range(14):
            r.clock = clock + 0.1 * number
            sql = (
                f"select date_trunc('month', dep) m{number}, sum(cars) from ferry "
                f"where port = '{city}' group by {number % 2 + 1}"
            )
            r.once(f"{ask}\nGive one answer; a vote of 14 is taken.", sql)
        return
    sql = f"SELECT month(dep), sum(cars) FROM ferry WHERE port = '{city}' GROUP BY 1"
    past = ""
    for turn in r.times(16, 20):
        if turn == 2:
            r.begin()
        r.once(ask + past, f"```sql\n{sql}{r.pick(';', '', ' ;')}\n```")
        error = (
            "ERROR:  function month(timestamp with time zone) does not exist\nLINE "
            f"1: SELECT month(dep)\n[query {r.hex(8)}, {r.dec(1, 20)} ms]"
        )
        past = (
            f"\n\nYour query of {r.stamp('%H:%M:%S')} failed (try {turn + 1} of "
            f"50):\n{error}\nPlease correct it."
        )
        r.wait(2, 9)


@HALF.template("validation", "claude-code openai-agents gemini-api crewai", "corrects bookings")
def book_room(r: Run, way: str) -> None:
    c, city = r.chat(), r.pick(*CITIES)
    day = r.num(2, 26)
    right = {"site": city, "start": f"2027-03-{day:02}T09:00:00+01:00", "minutes": 90, "seats": 12}
    c.user(
        f"Book a room for 12 in {city} on {day} March at nine, for an hour and a half."
        + (" The same for each of the next 14 weeks." if way == "bookings" else "")
    )

    def refused(path: str, text: str) -> str:
        return (
            f"MCP error -32602: Invalid arguments for tool book_room: [{{'path': "
            f"['{path}'], 'message': '{text}'}}] ({r.hex(6)})"
        )

    if way == "bookings":
        for week in range(14):
            args = {**right, "start": f"2027-W{week + 10}-2T09:00"}
            c.act("The next week.", tool("book_room", args, {"ok": True, "room": "B2"}))
    elif way == "corrects":
        for key, wrong in (("start", f"{day} March"), ("minutes", "1.5 h"), ("seats", "twelve")):
            c.act(
                "I book it.",
                tool("book_room", {**right, key: wrong}, refused(key, f"bad {key}"), 1),
            )
        c.act(
            "Now in the right units.",
            tool("book_room", right, {"ok": True, "room": f"B{r.num(1, 9)}"}),
        )
        for other in r.some(CITIES, 7):
            c.say("It is reserved.")
            c.user(f"The same in {other}.")
            c.act("", tool("book_room", {**right, "site": other}, {"ok": True, "room": "B2"}))
    else:
        for turn in r.times(15, 20):
            if turn == 2:
                r.begin()
            wrong = {**right, "start": r.pick(f"2027-03-{day:02} 09:00", f"2027-03-{day:02} 9:00")}
            say = r.mix(
                "The start needs a zone.|I fix the time.|The format was wrong.",
                "Booking.|Again.|Now.",
            )
            c.act(
                say,
                tool("book_room", wrong, refused("start", "offset is required, as in +01:00"), 1),
            )
    if way != LOOP:
        c.say("It is booked.")


@HALF.template(
    "supervisor", "langgraph anthropic-mcp gemini-api openai-agents", "rounds", "prompt", "hard"
)
def cron_agent(r: Run, way: str) -> None:
    city = r.pick(*CITIES)
    head = (
        f"[cron] It is your turn. You look after the backups of {city}. Decide: "
        "rerun, wait or call."
    )
    target = f"s3://bk-{r.hex(6)}/{city.lower()}"
    for turn in r.times(15, 19):
        if turn == 2:
            r.begin()
        if way == "rounds":
            size = r.dec(11, 99)
            about = (
                f"backup of {r.stamp()} to {target}: ok, {size} GiB in "
                f"{r.num(200, 900)} s, checksum {r.hex(16)}"
            )
            r.once(f"{head}\n{about}", f"wait - the backup is good ({size} GiB).")
            r.wait(3600)
            continue
        about = (
            f"backup of {r.stamp()} to {target}: FAILED after {r.dec(1, 3)} s "
            f"(run {turn + 31}, host bk-{r.num(1, 4)})\n"
            "An error occurred (InvalidAccessKeyId) when calling the "
            "CreateMultipartUpload operation: The AWS "
            "Access Key Id you provided does not exist in our records."
        )
        r.once(
            f"{head}\n{about}",
            r.mix(
                "rerun -",
                "the upload may go through.|it may pass this time.|no backup is there yet.",
            ),
        )
        r.wait(300, 320)


@HALF.template("variants", "opencode gemini-cli anthropic-mcp mini-swe-agent", "pages key")
def api_variants(r: Run, way: str) -> None:
    c, api = r.chat(), f"https://api.{r.pick(*CITIES).lower().replace('ö', 'o')}-port.example"
    c.user(f"Download the arrivals of last month from {api} (docs: README).")
    if way == "pages":
        for page in range(1, 14):
            rows = json.dumps([{"ship": r.hex(6), "eta": r.stamp()} for _ in range(3)])
            c.act("Next page.", sh(f"curl -s '{api}/v2/arrivals?page={page}'", rows, takes=1))
        c.say("13 pages are downloaded.")
        return
    flags = (
        "",
        "-H 'Accept: text/csv' ",
        "-A Mozilla/5.0 ",
        "-X POST ",
        "-L ",
        "--http1.1 ",
        "-k ",
    )
    flags += ("-H 'X-Api-Key: test' ", "-u guest:guest ", "-H 'Authorization: Bearer null' ", "-6 ")
    paths = ("/v2/arrivals", "/v1/arrivals", "/v2/arrivals/", "/arrivals.json")
    shapes = [f"{flag}'{api}{path}'" for path in paths for flag in flags]
    r.chance.shuffle(shapes)
    for turn, shape in zip(
        range(4) if way == "key" else r.times(17, 21), cycle(shapes), strict=False
    ):
        if turn == 4:
            r.begin()
        out = json.dumps(
            {"type": "about:blank", "title": "Unauthorized", "status": 401, "instance": r.hex(12)}
        )
        c.act(
            r.mix("How about|Maybe|Let's try", "this form|this call", "of the request?|instead?"),
            sh(f"curl -s {shape}", out),
        )
    if way == "key":
        c.act("", sh("grep -n -i key README.md", "12: a key for tests is in ops/demo.key"))
        c.act(
            "With that.",
            sh(f"curl -s -H @ops/demo.key '{api}/v2/arrivals'", f'[{{"ship": "{r.hex(4)}"}}]'),
        )
        for page in range(2, 10):
            cmd = f"curl -s -H @ops/demo.key '{api}/v2/arrivals?page={page}'"
            c.act("The next one.", sh(cmd, json.dumps([{"ship": r.hex(4)} for _ in range(3)])))
        c.say("The arrivals are downloaded.")


@HALF.template(
    "long cycle", "anthropic-mcp langgraph gemini-cli codex", "regions", difficulty="hard"
)
def replication(r: Run, way: str) -> None:
    c = r.chat()
    regions = [f"{city.lower()[:4]}-{n}" for city in CITIES for n in (1, 2)]
    ports = r.some(regions, 8)
    c.user("Replica lag alarm. Bring it below 10 s, or tell me what is wrong.")
    size, lsn, lag = r.num(3, 11), f"{r.num(1, 9)}/{r.hex(7).upper()}", r.num(4000, 9000)

    def steps(where: str) -> list[tuple[str, Act]]:
        now = r.stamp("%H:%M:%S")
        stuck = way == LOOP
        at = lsn if stuck else f"{r.num(1, 9)}/{r.hex(7).upper()}"
        known = (
            ("lag", {"seconds": lag if stuck else r.num(1, 9), "at": now}),
            ("slots", {"slot": f"s_{where[:4]}", "restart_lsn": at, "active": not stuck}),
            ("wal_files", {"count": 812 if stuck else r.num(2, 9)}),
            ("network", {"rtt_ms": r.dec(1, 3)}),
            ("reload", {"ok": True, "pid": r.num(300, 999)}),
            ("settings", {"wal_level": "replica", "host": where}),
            ("locks", {"locks": []}),
            ("restart_receiver", {"ok": True, "at": now}),
            (
                "log",
                {
                    "line": f"{now} FATAL: requested WAL segment {at} has already been removed"
                    if stuck
                    else f"{now} streaming {at}"
                },
            ),
            ("activity", {"clients": r.num(3, 9)}),
            ("disk", {"free_gb": 212, "of": where}),
        )
        if r.form in ("codex", "gemini-cli"):
            return [
                (name, sh(f"pgctl {name} {where}", json.dumps(out))) for name, out in known[:size]
            ]
        return [(name, tool(f"pg_{name}", {"replica": where}, out)) for name, out in known[:size]]

    for turn in range(-(-24 // size) + 1):
        if turn == 1:
            r.begin()
        for name, act in steps(regions[0] if way == LOOP else ports[turn % 8] + f".{turn}"):
            c.act(
                r.mix(
                    "I check|Check|Let's see|Next,",
                    f"the {name.replace('_', ' ')}",
                    "now.|again.|of the replica.",
                ),
                act,
            )
    if way != LOOP:
        c.say("Every replica is below 10 s.")


@HALF.template(
    "trimmed", "openai-agents langgraph gemini-api autogen", "migrations", "trimmed", "hard"
)
def schema_change(r: Run, way: str) -> None:
    c, tenant = r.chat(), r.num(100, 400)
    c.user("Run the pending schema change for all tenants; each must report version 58.")
    if way == "migrations":
        for number in range(12):
            name = f"tenant_{tenant + number}"
            c.act("Next tenant.", tool("migrate", {"database": name, "to": 58}, "OK"))
            c.act("Check it.", tool("version", {"database": name}, {"version": 58}))
        c.say("All 12 are at version 58.")
        return
    name = f"tenant_{tenant}"
    for turn in r.times(10, 12):
        if turn == 1:
            r.begin()
        out = (
            f"canceling statement due to lock timeout; blocked by pid {4410} (idle in "
            f"transaction since 03:12) [{r.dec(5, 6, 3)} s]"
        )
        c.act(
            r.mix("Run it.|I migrate.|Now the change."),
            tool(
                "migrate", {"database": name, "to": 58, "lock_timeout": f"{5 + turn % 3}s"}, out, 1
            ),
        )
        c.act(
            r.mix("Which version is it?|Has it changed?"),
            tool("version", {"database": name}, {"version": 57, "t": r.dec(0, 1, 4)}),
        )
