"""Programs that call a model: prompts without history, restarts, timers, and teams of agents."""

from __future__ import annotations

import json

from bench.loops.field.cast import edit, grep, read, sh, tool
from bench.loops.field.run import LOOP, Half, Run, cycle
from bench.loops.field.third.speech import speech

HALF = Half("third")


# prompts


def _delivery_note(run: Run, weight: str) -> tuple[str, dict[str, object]]:
    """Return a note as text, and what a model reads in it."""
    lines = [
        {
            "item": run.pick("Flansch", "Dichtung", "Schraube M8", "Rohr 1/2", "Ventil"),
            "pieces": run.num(1, 400),
        }
        for _ in run.times(4, 12)
    ]
    number, customer = f"{run.num(100_000, 999_999)}", f"{run.hex(5).upper()} GmbH"
    rows = "\n".join(f"{line['item']:14} {line['pieces']:>4} Stk" for line in lines)
    text = (
        f"LIEFERSCHEIN {number}\nKunde: {customer}\nDatum: {run.num(1, 28)}."
        f"{run.num(1, 12)}.2026\n{rows}\nGewicht: {weight}"
    )
    return text, {"number": number, "customer": customer, "lines": lines}


_EXTRACT = """Extract the delivery note below as JSON. Answer with JSON only, after this schema:
{{"number": string, "customer": string, "weight_kg": number, "lines": [{{"item": string,
"pieces": integer}}]}}

<document>
{document}
</document>"""


@HALF.template(
    "prompt", "langgraph gemini-api anthropic-mcp openai-agents", "documents recovers", "prompt"
)
def never_valid(run: Run, way: str) -> None:
    """A program asks again with the validator's words; the JSON is wrong in the same way."""

    def ask(text: str, note: dict[str, object], weight: object, number: int) -> None:
        prompt = _EXTRACT.format(document=text)
        if number:
            prompt += (
                f"\n\nYour answer {number} was rejected: 1 validation error for DeliveryNote\n"
                "weight_kg\n  Input should be a valid number, unable to parse string as a number "
                "[type=float_parsing, input_value='siehe oben', input_type=str]"
            )
        run.once(prompt, json.dumps({**note, "weight_kg": weight}))

    if way == LOOP:
        text, note = _delivery_note(run, "siehe oben")
        for number in run.times(19, 30):
            if number == 4:
                run.begin()
            ask(text, note, "siehe oben", number)
            run.wait(1, 3)
        return
    for place in range(9 if way == "recovers" else 22):
        kilos = run.dec(20, 900)
        text, note = _delivery_note(run, f"ca. {kilos} kg, siehe oben")
        tries = 0 if way == "documents" else place % 4
        for number in range(tries + 1):
            ask(text, note, kilos if number == tries else "siehe oben", number)
            run.wait(0.2, 1)


@HALF.template(
    "prompt", "gemini-api langgraph anthropic-mcp", "samples users benchmark", "prompt", "hard"
)
def no_verdict(run: Run, way: str) -> None:
    """A program wants YES or NO, never gets it, and asks the same again, later and later."""
    text = speech(
        run,
        "The tenant says that the heating|A guest says that the lift|The driver reports: the door",
        "was out for|had been broken for|did not close for",
        f"{run.num(2, 9)} days.|most of {run.pick('May', 'March')}.|three nights in a row.",
        "They ask for their money back.|They want a discount.|They only wish to tell us.",
    )
    ask = "Is this message a complaint that needs a refund? Answer YES or NO, nothing else.\n\n"
    unsure = (
        "I'm not able to say whether a refund is needed, as that depends on the contract.",
        "Whether this needs a refund can't be said from the message alone.",
        "It depends: the contract decides whether money is due.",
    )
    if way == LOOP:
        delay = 1.0
        job = run.hex(12)
        for number in run.times(18, 26):
            if number == 3:
                run.begin()
            head = f"[job {job} attempt {number + 1} at {run.stamp()} trace {run.hex(16)}]\n"
            run.once(f"{head}{ask}{text}", run.pick(*unsure))
            run.wait(delay, delay * 1.3)
            delay = min(delay * 1.7, 300)
        return
    if way == "samples":
        start = run.clock
        for number in range(20):
            run.clock = start + number * 0.15
            run.once(ask + text, run.pick("YES", "YES", "NO"))
        return
    if way == "benchmark":
        for number in range(7):
            item = f"{text} (case {number + 1} of set {run.hex(4)})"
            for _ in range(4):
                run.once(ask + item, run.pick("YES", "NO"))
        return
    shop = f"You are the bot on the page of {run.hex(5).capitalize()} Garden Centre. Be brief.\n\n"
    asks = ("When are you open?", "when are you open", "Do you have parking?", "Opening hours")
    for _ in run.times(18, 26):
        run.session = run.hex(12)
        run.once(
            shop + run.pick(asks[0], asks[0], *asks),
            f"{run.pick('Hello!', 'Hi!', 'Sure:')} We open from 9 to 18 h, and parking is free.",
        )
        run.wait(20, 400)


@HALF.template("feedback", "gemini-api langgraph anthropic-mcp", "catalogue", "prompt")
def title_too_long(run: Run, way: str) -> None:
    """Ask for a shorter title; each is refused with the same words and added to a list."""
    things = ("tondeuse à batterie", "perceuse sans fil", "taille-haie", "scie sauteuse")
    rejected: list[str] = []
    thing = run.pick(*things)
    number = 0
    for number in run.times(21, 30):
        if number == 6:
            run.begin()
        if way != LOOP and number % 3 == 0:
            rejected, thing = [], f"{run.pick(*things)} réf. {run.hex(6)}"
        prompt = (
            f"Écris un titre de 60 caractères au plus pour : {thing}, 18 V, garantie 5 ans.\n"
            "Réponds par le titre seul."
        )
        for title in rejected[-4:]:
            prompt += f"\nREFUSÉ ({len(title)} caractères, maximum 60) : {title}"
        title = speech(
            run,
            f"{thing.capitalize()} 18 V|La {thing} 18 V|Nouvelle {thing} 18 V",
            "puissante et silencieuse|fiable et très légère|robuste et facile à manier",
            "pour tous vos travaux,|idéale pour la maison et le jardin,",
            "garantie 5 ans|avec garantie de cinq ans",
        )
        if way != LOOP and number % 3 == 2:
            title = f"{thing.capitalize()}, 18 V, garantie 5 ans"
        run.once(prompt, title)
        rejected.append(title)
        run.wait(0.3, 2)


# restarts


@HALF.template("restart", "claude-code codex mini-swe-agent openhands", "matrix")
def same_crash(run: Run, way: str) -> None:
    """A supervisor starts the agent again, which dies at the same step."""
    target = run.pick("wasm32", "riscv64", "aarch64-musl")
    task = "Build the release for {t} with `make dist`, sign it, and write NOTES.md."
    for number in run.times(6, 9):
        if number == 2:
            run.begin()
        run.session = run.hex(12)
        name = target if way == LOOP else f"{target}-v{18 + number}"
        size = f"{run.num(11, 30)}" if way != LOOP else "14"
        chat = run.chat()
        chat.user(task.format(t=name))
        chat.act("I'll look at the Makefile.", read("Makefile", f"dist: clean\n\t./mk {target}\n"))
        chat.act("", sh(f"./mk --deps {name}", f"deps for {name}: {size} packages", 0, 20))
        built = f"[{run.num(180, 260)}/912] Linking\nmk: dist/{name}.tar.zst: {size} MB"
        chat.act("", sh(f"make dist T={name}", built, 0, run.num(60, 140)))
        if way == LOOP:
            end = "signing with key 0x8C21… \nKilled"
            chat.act("Now the signature.", sh(f"gpg --detach-sign dist/{name}.tar.zst", end, 137))
            run.wait(20, 40)
            continue
        chat.act("", sh(f"gpg --detach-sign dist/{name}.tar.zst", f"ok {run.hex(16)}"))
        chat.say(f"The release for {name} is signed.")


@HALF.template("restart", "gemini-cli langgraph qwen-code", "queue", difficulty="hard")
def poison_message(run: Run, way: str) -> None:
    """A worker takes a message from a queue, fails, and the queue delivers it again."""
    body = f"Résumé du dossier {run.num(10_000, 99_999)} demandé par l'agence de Nantes."
    for number in run.times(9, 14):
        if number == 3:
            run.begin()
        run.session = run.hex(12)
        case = run.num(10_000, 99_999)
        if way != LOOP:
            body = f"Résumé du dossier {case} demandé par l'agence de {run.pick('Lille', 'Brest')}."
        chat = run.chat()
        chat.user(
            f"Message {run.hex(8)}, received {run.stamp()}, "
            f"deliveries: {number + 1 if way == LOOP else 1}\n\n{body}"
        )
        found = {"dossier": body.split()[3], "pages": 31 if way == LOOP else run.num(3, 90)}
        chat.act("", tool("open_case", {"id": body.split()[3]}, found))
        error = {"error": "PDF is encrypted", "pages_read": 0, "took_ms": run.num(90, 400)}
        ok = {"text": f"{run.pick('Litige', 'Sinistre')} du {run.num(1, 28)} mars", "pages_read": 3}
        bad = way == LOOP or number == 4
        chat.act("", tool("read_case", {"id": body.split()[3]}, error if bad else ok, bad))
        if bad:
            chat.say("Je ne peux pas lire ce dossier. Le message reste dans la file.")
        else:
            chat.say(f"Résumé : {ok['text']}, {found['pages']} pages.")
        run.wait(30, 60)


# teams


@HALF.template("team", "claude-code opencode codex", "side_by_side")
def report_refused(run: Run, way: str) -> None:
    """A lead sends a helper for the same again, as the report is never deep enough."""
    area = run.pick("billing", "identity", "catalogue", "routing")
    lead = run.chat("You lead. Give work to helpers with the tool Task, and judge their reports.")
    lead.user(
        f"Find out why {area} is slow, with helpers."
        if way == LOOP
        else "Audit all areas for missing timeouts, a helper each, side by side."
    )
    areas = "billing identity catalogue routing search media audit mail".split()
    report = f"{area}: p99 is 1.9 s. Cause: N+1 queries in {area}/views.py, line 118."
    if way != LOOP:
        asks = [f"Audit {name} for missing timeouts." for name in areas]
        founds = [run.num(1, 9) for _ in areas]
        begun = run.clock
        lead.act(
            "I start a helper for each area.",
            *(
                tool("Task", {"prompt": ask}, f"{found} calls without a timeout", 0, 75)
                for ask, found in zip(asks, founds, strict=True)
            ),
        )
        ended = run.clock
        for place, (name, ask, found) in enumerate(zip(areas, asks, founds, strict=True)):
            run.clock = begun + 12 + place * 1.3
            _help(run, name, ask, found)
        run.clock = ended
        lead.say(f"{sum(founds)} calls have no timeout; most are in one area.")
        return
    for number in run.times(6, 9):
        if number == 2:
            run.begin()
        prompt = speech(
            run,
            f"Find out why {area} is slow.|Examine the latency of {area}.|Dig into slow {area}.",
            "Be thorough.|Go deeper than before.|I need the root cause.|Name file and line.",
        )
        say = run.pick("Not deep enough.", "I want more detail.", "Let me have it checked.")
        begun = run.clock
        task = tool("Task", {"description": f"{area} latency", "prompt": prompt}, report, 0, 90)
        lead.act(say if number else "", task)
        ended, run.clock = run.clock, begun + 12
        _help(run, area, prompt, 0)
        run.clock = max(ended, run.clock)


def _help(run: Run, area: str, prompt: str, found: int) -> None:
    """Have a helper do a task; what it finds is about a number, or the known cause."""
    helper = run.chat("You are a helper. Report briefly.")
    helper.user(prompt)
    line = run.num(10, 900) if found else 118
    hit = f"{area}/views.py:{line}:    for row in rows: row.owner.load()"
    if found:
        hit = "\n".join(f"{area}/calls.py:{run.num(1, 900)}: http.get(url)" for _ in range(found))
    helper.act("", grep("load\\(|http\\.get", hit, area))
    helper.act("", read(f"{area}/views.py", f"# {area}\ndef index(request):\n    ...\n" * 4))
    helper.act("", sh(f"wc -l {area}/*.py | tail -1", f" {4100 + found * 37} total"))
    helper.say(f"{area}: see line {line}." if found else "N+1 queries in views.py, line 118.")


# timers


@HALF.template("timer", "langgraph openai-agents claude-code", "inbox cron", difficulty="hard")
def heartbeat_blocked(run: Run, way: str) -> None:
    """Wake each quarter of an hour, try what cannot succeed, and sleep."""
    pull = run.num(300, 9000)
    chat = run.chat("You are woken by a timer. Do what is open, then say what you did.")
    blocked = (
        f"X Pull request acme/infra#{pull} is not mergeable: required check `legacy-ci` has not "
        "reported; its workflow was removed on 2026-08-02"
    )
    for number in run.times(10, 16):
        if number == 2:
            run.begin()
        if way == "cron":
            run.session = run.hex(12)
            chat = run.chat("You are woken by a timer. Do what is open, then say what you did.")
        tick = f"HEARTBEAT {run.stamp('%H:%M')}: work on your open tasks."
        if way == LOOP:
            chat.user(f"{tick}\nOpen: merge #{pull}.")
            out, code = blocked, 1
        else:
            pull += run.num(1, 9)
            chat.user(f"{tick}\nOpen: merge what is approved.")
            code = int(number % 3 == 1)
            review = f"X Pull request acme/infra#{pull} is not mergeable: a review is required"
            out = review if code else f"✓ Merged acme/infra#{pull} ({run.hex(7)})"
        chat.act("", sh(f"gh pr merge {pull} --squash", out, code, run.dec(1, 3)))
        chat.say(
            speech(
                run,
                f"#{pull} is still blocked.|The merge of #{pull} did not go through.",
                "I'll try again at the next tick.|It has to wait.|Next try later.",
            )
            if code
            else f"#{pull} is merged."
        )
        run.wait(870, 900)


@HALF.template("timer", "gemini-api anthropic-mcp responses-kept", "tides", difficulty="hard")
def sensor_silent(run: Run, way: str) -> None:
    """Read a sensor that lost its battery; the gateway repeats its last value all night."""
    station = f"WX-{run.num(100, 999)}"
    chat = run.chat()
    chat.user(
        f"When the level at {station} falls below 210 cm, open the sluice. Look each ten minutes."
    )
    level = run.num(280, 320)
    for number in run.times(21, 32):
        if number == 3:
            run.begin()
        reading = {
            "station": station,
            "level_cm": level,
            "measured_at": "2027-01-15T07:41:12Z" if way == LOOP else run.stamp(),
            "served_at": run.stamp(),
            "battery_v": 0.0 if way == LOOP else run.dec(3.4, 3.6),
            "rssi": -run.num(70, 90),
            "quality": "last-known" if way == LOOP else "good",
        }
        say = speech(
            run,
            f"{level} cm.|The level is {level} cm.|Still {level} cm, above 210.|{level} cm now.",
            "I'll look again in ten minutes.|Nothing to do yet.|I wait.",
        )
        chat.act(say, tool("read_gauge", {"station": station}, reading))
        run.wait(590, 610)
        if way != LOOP:
            level -= run.num(0, 2)
    if way != LOOP:
        chat.say(f"It is at {level} cm; I go on looking.")


# equal in everything


@HALF.template("equal", "claude-code codex qwen-code", "commits", difficulty="easy")
def status_again(run: Run, way: str) -> None:
    """Look at the state of a repository again and again."""
    path = run.pick("src/pipe.c", "lib/frame.zig", "core/arena.odin")
    chat = run.chat()
    chat.user(f"Split the changes of {path} into small commits.")
    dirty = f"On branch main\nChanges not staged for commit:\n\tmodified:   {path}\n"
    parts = cycle(["header", "parser", "errors", "tests", "docs", "limits", "names"])
    for number in range(run.num(18, 28) if way == LOOP else 8):
        if number == 3:
            run.begin()
        chat.act("", sh("git status", dirty))
        if way == LOOP:
            continue
        part = next(parts)
        chat.act("", sh(f"git add -p {path} < /tmp/{part}.answers", f"({number + 1}/8) Stage? y"))
        out = f"[main {run.hex(7)}] Change the {part}\n 1 file changed, {run.num(2, 60)} insertions"
        chat.act("", sh(f"git commit -m 'Change the {part}'", out))
        if number == 4:
            chat.act("", edit(path, "limit = 0", f"limit = {run.num(1, 99)}"))
