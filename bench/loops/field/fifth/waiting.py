"""Waiting: for jobs that died, pods that crash, logs that stand still, mails that never arrive."""

from __future__ import annotations

from collections.abc import Callable

from bench.loops.field.cast import read, sh, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIRMS,
    HALF,
    HOSTS,
    PEOPLE,
    Project,
    ask_to,
    asked_before,
    earlier,
    idea,
    look,
    maybe,
    onward,
    request_id,
    service_log,
    traceback,
)
from bench.loops.field.run import LOOP, Run
from bench.loops.field.wire import Json


@HALF.template("poll", "claude-code langgraph openai-agents", "moving asked")
def job_that_died(run: Run, way: str) -> None:
    """Ask for the state of a job whose worker is gone: minutes between the calls."""
    chat = run.chat("Tools: start_job, get_job, queue_metrics.")
    asked_before(run, chat)
    kind = run.pick("export", "reindex", "backfill", "render", "transcode")
    id, worker = f"{kind}-{run.hex(8)}", f"{run.pick(*HOSTS)}-{run.num(1, 30)}"
    begun = run.stamp()
    what = {
        LOOP: f"start the {kind} of last month and tell me when it is finished.",
        "moving": f"start the {kind} of last month and tell me when it is finished.",
        "asked": f"watch the {kind} queue for the next three hours, every five to ten minutes, and "
        "write down how deep it is; I want a chart of it.",
    }[way]
    chat.user(ask_to(run, what))
    if way != "asked":
        args = {"kind": kind, "month": "2026-10"}
        chat.act("I start it.", tool("start_job", args, {"job": id, "state": "queued"}))
        chat.act("", tool("get_job", {"job": id}, {"job": id, "state": "queued", "position": 2}))
    polls = run.num(20, 28)
    for number in range(polls):
        run.wait(120, 600)
        if way == "asked":
            depth = run.num(3, 900)
            out = {"queue": kind, "depth": depth, "oldest_s": depth * 2 + 7, "at": run.stamp()}
            say = run.pick("", f"Reading {number + 1}.", "The next reading.")
            chat.act(say, tool("queue_metrics", {"queue": kind}, out))
            continue
        if way == LOOP and number == 1:
            run.begin()
        done = round((number + run.dec(0.2, 0.8)) * 100 / polls, 1) if way == "moving" else 31.4
        state: Json = {
            "job": id,
            "state": "running",
            "progress": done,
            "worker": worker,
            "started_at": begun,
            "heartbeat_at": run.stamp() if way == "moving" else begun,
            "checked_at": run.stamp(),
            "request_id": request_id(run),
            "steps": [
                {"name": "prepare", "state": "succeeded", "seconds": 41},
                {"name": kind, "state": "running", "done": done, "unit": "percent"},
                {"name": "publish", "state": "waiting", "needs": [kind]},
            ],
            "labels": {"team": "data", "queue": f"{kind}-batch", "attempt": 1, "tier": "spot"},
            "links": {"self": f"/jobs/{id}", "logs": f"/jobs/{id}/logs?worker={worker}"},
        }
        say = run.mix(
            "Still running.|Not finished yet.|It is under way.|The job has not ended.",
            "I check again in a few minutes.|Let me wait a bit more.|I'll look again soon.|"
            "Checking once more.",
        )
        chat.act(maybe(run, say), tool("get_job", {"job": id}, state))
    if way == "moving":
        end = {"job": id, "state": "succeeded", "rows": run.num(9000, 90000)}
        chat.act("It should be through.", tool("get_job", {"job": id}, end))
    if way != LOOP:
        chat.say(f"The {kind} is finished." if way == "moving" else "Here are the readings.")


@HALF.template("log", "codex gemini-cli", "epochs tuned", difficulty="easy")
def log_stands_still(run: Run, way: str) -> None:
    """Sleep and read the end of a log whose process hangs."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    chat.user(
        ask_to(run, f"train the model of {project.name} with train.py and report its accuracy.")
    )
    chat.act(look(run, "the script"), read("train.py", project.source(0)))
    start = "nohup python train.py > train.log 2>&1 & echo $!"
    chat.act("I start it in the background.", sh(start, str(run.num(2000, 60000))))
    loss, epochs = run.dec(2, 4), run.num(24, 34)
    lines = [f"{run.stamp('%H:%M:%S')} loading 4 shards", "pin_memory: on, workers: 8"]
    stops = run.num(2, 3)
    for number in range(epochs):
        pause = run.pick(30, 60, 120, 300)
        run.wait(0.1, 0.5)
        if number == stops + 1:
            run.begin()
        if way == "tuned" and number % 6 == 5:
            lr = run.pick("3e-4", "1e-4", "5e-5")
            say = f"The loss flattens; I go on from here with a rate of {lr}."
            cmd = f"sed -i 's/^lr = .*/lr = {lr}/' conf.ini && kill -HUP $(pgrep -f train.py)"
            chat.act(say, sh(cmd, ""))
        if way != LOOP or number < stops:
            loss = round(loss * run.dec(0.9, 0.98), 4)
            rate = run.dec(70, 90, 1)
            lines.append(
                f"epoch {number + 1}/{epochs}  loss {loss:.4f}  acc {1 - loss / 6:.4f}  {rate} it/s"
            )
        tail = "\n".join(lines[-4:])
        cmd = f"sleep {pause}{run.pick(';', ' &&')} tail {run.pick('-n 4', '-4', '-n4')} train.log"
        if way == LOOP and run.chance.random() < 0.25:
            percent = run.dec(0, 0.3, 1)
            cmd += "; ps aux | grep '[t]rain.py'"
            tail += f"\nroot  4{stops}17  {percent}  9.1  python train.py"
        say = run.mix(
            "It is still training.|Training goes on.|I wait for the next epoch.|Not done yet.|"
            "Let me wait longer.|I check the log again.",
        )
        chat.act(maybe(run, say), sh(cmd, tail, 0, pause + 0.2))
    if way != LOOP:
        chat.say(f"The training is through, the loss is {loss}.")


@HALF.template("rollout", "claude-code responses-kept qwen-code", "many repaired", "elided")
def crash_again(run: Run, way: str) -> None:
    """Delete a pod that crashes, see its successor crash, describe it, and delete that."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    apps, space = project.nouns, project.name
    app, image = apps[0], f"registry.internal/{apps[0]}:{run.hex(7)}"
    what = {
        LOOP: f"get {app} in namespace {space} running.",
        "many": f"restart the deployments in {space} one after the other, each only if the one "
        "before is healthy.",
        "repaired": f"get {app} in namespace {space} running; it needs "
        f"several settings and secrets.",
    }[way]
    chat.user(ask_to(run, what))

    def pods(name: str, state: str, restarts: int) -> str:
        age = f"{run.num(1, 50)}s"
        row = f"{name}-{run.hex(9)}-{run.hex(5)}   {int(state == 'Running')}/1   {state}   "
        node = f"10.42.{run.num(0, 9)}.{run.num(2, 250)}   {run.pick(*HOSTS)}-{run.num(1, 9)}"
        head = "NAME   READY   STATUS   RESTARTS   AGE   IP   NODE   NOMINATED NODE"
        return f"{head}\n{row}{restarts}   {age}   {node}   <none>"

    def log(key: str) -> str:
        start = service_log(run, app, 7, f"missing key: {key}")
        return f"{start}\n{traceback(project, f'KeyError: {key!r}', 4)}"

    show = f"kubectl -n {space} get pods -o wide -l app="
    chat.act(
        look(run, "the namespace"), sh(f"kubectl -n {space} get deploy", f"{app}   0/1   1   0")
    )
    if way == LOOP:
        key = f"{run.pick(*apps).upper()}_URL"
        chat.act("", sh(f"kubectl -n {space} get deploy {app} -o jsonpath='{{..image}}'", image))
        steps: tuple[tuple[str, Callable[[], str]], ...] = (
            (f"{show}{app}", lambda: pods(app, "CrashLoopBackOff", run.num(1, 6))),
            (f"kubectl -n {space} logs deploy/{app} --tail=30", lambda: log(key)),
            (
                f"kubectl -n {space} delete pod -l app={app}",
                lambda: f'pod "{app}-{run.hex(5)}" deleted',
            ),
            (
                f"kubectl -n {space} rollout restart deploy/{app}",
                lambda: f"deployment.apps/{app} restarted",
            ),
        )
        length = run.num(2, 4)
        chosen = steps[:2] + steps[2:length] if length > 2 else (steps[0], steps[2])
        for number in range(length * run.num(6, 8) + 4):
            if number == length:
                run.begin()
            cmd, out = chosen[number % len(chosen)]
            says = (f"A fresh pod of {app} may help.", idea(run, "a stale pod"), "I restart it.")
            if " get " in cmd or " logs " in cmd:
                says = (f"I check {app}.", "How is it now?", "What does it say?")
            say = run.pick(*says)
            chat.act(maybe(run, say), sh(cmd, out(), 0, run.dec(0.4, 2)))
            run.wait(4, 60)
        return
    for number, noun in enumerate(apps):
        if way == "repaired":
            key = f"{noun.upper()}_URL"
            chat.act("", sh(f"kubectl -n {space} logs deploy/{app} --tail=30", log(key), 0, 1))
            say = f"`{key}` is missing, its value is in the vault."
            set_it = (
                f"kubectl -n {space} set env deploy/{app} {key}=$(vault read -field=url {noun})"
            )
            chat.act(maybe(run, say, 0.8), sh(set_it, f"deployment.apps/{app} env updated", 0, 1))
        else:
            cmd = f"kubectl -n {space} rollout restart deploy/{noun}"
            chat.act(maybe(run, onward(run, noun)), sh(cmd, f"deployment.apps/{noun} restarted"))
        run.wait(4, 60)
        name = app if way == "repaired" else noun
        state = "Running" if way == "many" or number == 8 else "CrashLoopBackOff"
        chat.act(
            maybe(run, "How is it?", 0.4),
            sh(show + name, pods(name, state, 0 if state == "Running" else number % 5 + 1), 0, 1),
        )
    chat.say(f"Everything in {space} is running.")


@HALF.template("inbox", "anthropic-mcp langgraph", "arrive asked")
def never_arrives(run: Run, way: str) -> None:
    """Look for a mail or file that nobody sends."""
    firm, person = run.pick(*FIRMS), run.pick(*PEOPLE)
    firms, cities = run.some(FIRMS, 14), run.some(CITIES, 14)
    chat = run.chat("You look after the inbox of the purchasing department.")
    asked_before(run, chat)
    what = {
        LOOP: f"wait for the offer of {firm} and enter it into the sheet.",
        "arrive": f"enter the offers that come in today into the sheet: {', '.join(firms)}.",
        "asked": "what is in the inbox?",
    }[way]
    chat.user(ask_to(run, what) if way != "asked" else what)
    body = f"Dear {person.split()[0]}, we will send our offer as soon as we can."
    old = {"id": run.num(100, 999), "from": firm, "subject": "Re: your request", "text": body}
    chat.act(look(run, "the thread"), tool("search_mail", {"query": firm}, {"mails": [old]}))
    sent = {"sent": True, "id": uuid_of(run)}
    letter = {"to": firm, "text": f"May we expect your offer today? {person}"}
    chat.act("I ask for it.", tool("send_mail", letter, sent))
    if way == LOOP:
        for number in run.times(19, 26):
            run.wait(60, 900)
            if number == 2:
                run.begin()
            query = run.pick(firm, f"from:{firm.split()[0].lower()}", f"{firm} offer", "offer")
            name = run.pick("search_mail", "search_mail", "list_inbox")
            args: Json = (
                {"query": query} if name == "search_mail" else {"folder": "INBOX", "unread": True}
            )
            out: Json = {"mails": [], "checked_at": run.stamp(), "request_id": request_id(run)}
            say = run.mix(
                "Nothing yet.|No mail.|It has not arrived.|Still waiting for them.",
                "I look again later.|I check once more.|Let me try another search.|One more look.",
            )
            chat.act(maybe(run, say, 0.7), tool(name, args, out))
        return
    for number, (other, city) in enumerate(zip(firms, cities, strict=True)):
        run.wait(60, 900)
        price = run.dec(900, 9000)
        mail = {"id": 1000 + number, "from": other, "subject": f"Offer, {city}", "total": price}
        mails = [] if number % 4 == 3 and way == "arrive" else [mail]
        args = {"folder": "INBOX", "unread": True}
        out = {"mails": mails, "checked_at": run.stamp()}
        chat.act(maybe(run, "Anything new?", 0.4), tool("list_inbox", args, out))
        if way == "asked":
            chat.say(f"One new mail: {other} in {city} offers {price} EUR.")
            run.wait(300, 1500)
            chat.user(
                run.pick("And now?", "Anything new?", "What came in since?", "Look again please.")
            )
            continue
        if mails:
            row = {"firm": other, "city": city, "total": price}
            chat.act(maybe(run, onward(run, other)), tool("add_row", row, {"row": number + 2}))
    chat.say("That was the last one for today.")


def uuid_of(run: Run) -> str:
    return f"<{run.hex(12)}@mail.internal>"
