"""Programs that ask: the same prompt until its answer is valid, errands started anew by a timer."""

from __future__ import annotations

import re
from random import Random

from bench.loops.field.cast import edit, read, sh
from bench.loops.field.fifth.common import (
    CITIES,
    FIELDS,
    FIRMS,
    HALF,
    PEOPLE,
    Project,
    look,
    maybe,
)
from bench.loops.field.run import LOOP, Run


def _letter(run: Run, firm: str) -> str:
    """Return a letter to extract something from."""
    rows = "\n".join(
        f"  {run.num(1, 40)} x {run.pick('crates', 'hoses', 'lamps', 'sacks', 'reels')} "
        f"at {run.dec(2, 90)} EUR"
        for _ in run.times(3, 6)
    )
    return (
        f"{firm}, {run.pick(*CITIES)}\nInvoice {run.num(10000, 99999)} of {run.num(1, 28)} "
        f"{run.pick('March', 'April', 'June')} "
        f"2026\n\n{rows}\n\nPayable within {run.num(7, 60)} days. "
        f"Contact: {run.pick(*PEOPLE)}."
    )


@HALF.template("prompt-retry", "gemini-api langgraph autogen", "batch samples", "prompt")
def not_valid_json(run: Run, way: str) -> None:
    """Ask for JSON of the same letter until it is valid, which it never is."""
    fields = ", ".join(run.some([*FIELDS, "due", "contact", "currency"], 5))
    head = run.mix(
        "You extract data from letters.|Extract the fields from the letter below.",
        [f"Return only JSON with: {fields}."],
    )

    def prompt(letter: str, error: str = "") -> str:
        text = f"{head}\n\n<letter>\n{letter}\n</letter>"
        return f"{text}\n\n{error}" if error else text

    def answer(letter: str, good: bool) -> str:
        values = Random(letter)
        rows = [f'"{name}": {values.randint(100, 90000) / 100}' for name in fields.split(", ")]
        if run.chance.random() < 0.3:
            rows.reverse()
        gap = run.pick(", ", ",\n  ")
        if good:
            return f"{{{gap.join(rows)}}}"
        head = run.pick("Here is the data:", "The fields of the letter:", "Sure, as JSON:")
        return f"{head}\n```json\n{{{gap.join(rows)},}}\n```"

    def complaint(number: int) -> str:
        where = f"line {run.num(1, 9)} column {run.num(2, 60)} (char {run.num(20, 300)})"
        return run.mix(
            [
                f"Attempt {number}: your answer was not valid JSON",
                "Invalid JSON",
                "Could not parse it",
            ],
            [f"(Expecting property name: {where}).", f"(Extra data: {where}).", "."],
            "Try again.|Return JSON only!|Answer again, with JSON only.",
        )

    letters = [_letter(run, firm) for firm in run.some(FIRMS, 16)]
    if way == LOOP:
        for letter in letters[: run.num(3, 6)]:
            run.once(prompt(letter), answer(letter, True))
            run.wait(0.2, 2)
        for number in run.times(20, 30):
            if number == 2:
                run.begin()
            error = complaint(number) if number else ""
            run.once(prompt(letters[-1], error), answer(letters[-1], False))
            run.wait(0.5, 8)
        return
    if way == "samples":
        for letter in letters[:7]:
            for _ in range(4):
                run.once(prompt(letter), answer(letter, True))
                run.wait(0.2, 2)
            run.wait(5, 40)
        return
    for number, letter in enumerate(letters):
        run.once(prompt(letter), answer(letter, number % 5 != 2))
        run.wait(0.2, 2)
        if number % 5 == 2:
            run.once(prompt(letter, complaint(1)), answer(letter, True))


@HALF.template("timer", "langgraph openai-agents", "monitor shards", "prompt")
def attempt_by_number(run: Run, way: str) -> None:
    """A scheduler sends the same task with the number of the attempt; the file stays missing."""
    firm = run.pick(*FIRMS)
    months = ["May", "June", "July", "August", "September"]
    id = run.hex(6)
    tasks = {
        LOOP: f"Reconcile the ledger of {firm} for the month from the attachment.",
        "monitor": f"Say in one sentence whether the shop of {firm} is healthy. Alert if not.",
        "shards": f"Find entries in this part of the ledger of {firm} that look wrong.",
    }

    def rows(count: int) -> list[str]:
        return [
            f"{run.num(1, 28)}.{run.num(1, 12)}. {run.pick(*FIRMS)} {run.dec(9, 9000)} {run.hex(5)}"
            for _ in range(count)
        ]

    for number in run.times(21, 32):
        if way == LOOP:
            month, attempt = months[min(number, 4)], max(number - 3, 1)
            file = f"{firm.split()[0].lower()}_{month.lower()}.csv"
            head = f"[job {id}-{month.lower()}] attempt {attempt} of 99, {run.stamp()}"
            data = f"{file}:\n" + "\n".join(rows(6))
            reply = f"{month} is reconciled; {run.num(2, 9)} entries are open."
            if number == 6:
                run.begin()
            if number > 3:
                data = f"(no attachment: {file} not found, last look {run.stamp()})"
                reply = run.mix(
                    [
                        f"I cannot reconcile {month}:",
                        "I am unable to do this:",
                        "Not possible yet:",
                    ],
                    [f"the attachment {file} is missing.", f"{file} was not included.", "no data."],
                    "Please provide it.|Status: RETRY.|I will need the file.",
                )
        elif way == "monitor":
            head = f"[watch {id}] {run.stamp()}"
            orders, slow = run.num(200, 900), run.num(90, 700)
            load = f"errors={run.num(0, 30)} queue={run.num(0, 90)}"
            data = f"orders_per_min={orders} p95_ms={slow} {load}"
            reply = (
                f"Healthy: {orders} orders a minute, {slow} ms." if slow < 600 else "ALERT: slow."
            )
        else:
            head = f"[job {id}] shard {number + 1}, {run.stamp()}"
            part = rows(7)
            data, reply = "\n".join(part), f"Suspicious: {run.pick(*part)} (no receipt)."
        run.once(f"{head}\n{tasks[way]}\n\n{data}", reply)
        run.wait(*{LOOP: (240, 360), "monitor": (295, 305), "shards": (0.2, 2)}[way])


@HALF.template(
    "growing", "anthropic-mcp gemini-api", "converges puzzles", "prompt", difficulty="hard"
)
def ever_longer_prompt(run: Run, way: str) -> None:
    """Send all answers and errors so far, and ask for a function that compiles at last."""
    project = Project(run, "ts")
    task = (
        f"Write a TypeScript function {project.function(0)} that takes {project.nouns[0]}s and "
        f"returns the one with the largest {run.pick(*FIELDS)}. Answer with code only."
    )

    def code(number: int, name: str) -> str:
        text = project.source(number)
        body = text[text.rindex("export function") :]
        return re.sub(r"function \w+", f"function {name}", body)

    def error(number: int, line: int) -> str:
        kind = project.nouns[(number + 1) % 9].capitalize()
        return f"index.ts({line},{line % 9 + 5}): error TS2304: Cannot find name '{kind}'."

    name = project.function(0)
    history = ""
    line = run.num(2, 6)
    for number in run.times(20, 28):
        if (way == "puzzles" and number % 4 == 0) or (way == "converges" and number % 8 == 0):
            history = ""
            name = project.function(number // 4)
            task = (
                f"Write a TypeScript function {name} that takes "
                f"{project.nouns[number // 4 % 9]}s and returns them by {run.pick(*FIELDS)}, "
                f"{run.num(2, 40)} at most. Answer with code only."
            )
        if way == LOOP and number == 3:
            run.begin()
        answer = code(min(number, 2) if way == LOOP else number, name)
        if way == LOOP and number > 2:
            answer = answer.replace("found", run.pick("found", "items", "all"))
        said = error(min(number, 2) if way == LOOP else number, line if way == LOOP else 3 + number)
        run.once(f"{task}{history}", answer)
        run.wait(1, 6)
        prompt = run.pick("Fix it.", "Correct the error.", "Try again.", "Please repair this.")
        history += (
            f"\n\nYour answer:\n{answer}\n\nThe compiler ({run.dec(0.4, 2)}s):\n{said}\n{prompt}"
        )


@HALF.template(
    "restart", "claude-code codex openhands langgraph", "tickets resumes hourly", difficulty="hard"
)
def started_anew(run: Run, way: str) -> None:
    """A supervisor starts a session for the same errand whenever one ends in the same failure."""
    project = Project(run, "py")
    host = f"{run.pick('vault', 'mirror', 'builder')}-{run.num(1, 9)}.internal"
    errand = (
        f"Publish the package {project.name}: run the tests, build it, upload it to {host}. "
        "Exit when it is done."
    )
    listed = [f"{project.verbs[n]} {project.nouns[n]}s" for n in range(9)]
    for number in run.times(7, 9):
        run.session = run.hex(12)
        chat = run.chat()
        if way == LOOP and number == 1:
            run.begin()
        version = f"{run.num(1, 4)}.{number}.0" if way == "hourly" else "2.4.1"
        if way == LOOP:
            chat.user(errand + run.pick("", "", " The last session did not finish."))
        elif way == "hourly":
            chat.user(f"{errand} (started by the timer at {run.stamp('%H:%M')})")
        elif way == "tickets":
            ticket = f"{project.name.upper()[:4]}-{run.num(100, 999)}"
            attr = run.pick(*FIELDS)
            chat.user(
                f"Ticket {ticket}: {listed[number]} by {attr} when {attr} is empty. Fix and test."
            )
        else:
            chat.user(f"Work on TODO.md of {project.name}: do the next open item, then stop.")
        if way in (LOOP, "hourly"):
            chat.act(
                maybe(run, run.pick("I start with the tests.", "Tests first.")),
                sh(
                    project.command(),
                    project.tested([], project.total + number * (way == "hourly")),
                ),
            )
            wheel = f"{project.name}-{version}-py3-none-any.whl"
            parts = "\n".join(f"adding '{project.name}/{noun}.py'" for noun in project.nouns)
            built = (
                "* Creating isolated environment: venv+uv...\n* Getting build dependencies...\n"
                f"* Building sdist...\n* Building wheel from "
                f"sdist\ncreating build/lib/{project.name}\n"
                f"{parts}\nremoving build/bdist.linux-x86_64/wheel\n"
                f"Successfully built {wheel} in {run.dec(2, 9)}s"
            )
            chat.act(maybe(run, "Now the build."), sh("python -m build", built, 0, run.dec(4, 9)))
            upload = f"twine upload -r {host} dist/*"
            if way == "hourly":
                size = run.num(40, 90)
                out = f"Uploading {project.name}-{version}-py3-none-any.whl\n100% {size} kB"
                chat.act(maybe(run, "Upload."), sh(upload, out, 0, 3))
                chat.say(f"Version {version} is published.")
            else:
                for again in range(run.num(1, 2)):
                    out = (
                        f"Uploading distributions to https://{host}/legacy/\nUploading {wheel}\n"
                        f"100% {'━' * 40} 48.{run.num(1, 9)}/48.9 kB • "
                        f"00:00 • {run.dec(3, 40)} MB/s\n"
                        f"WARNING  Error during upload. Retry with the --verbose option.\n"
                        f"ERROR    HTTPError: 507 Insufficient Storage from https://{host}/legacy/ "
                        f"(trace {run.hex(8)})"
                    )
                    say = "Once more." if again else "Upload."
                    chat.act(maybe(run, say), sh(upload, out, 1, run.dec(1, 4)))
                chat.say(
                    run.mix([f"The upload to {host} failed with 507."], "I stop.|Not published.")
                )
            run.wait(*((3400, 3600) if way == "hourly" else (20, 400)))
            continue
        if way == "resumes":
            marks = [f"- [{'x' if n < number else ' '}] {item}" for n, item in enumerate(listed)]
            chat.act(look(run, "the list"), read("TODO.md", "\n".join(marks)))
        path = project.path(number)
        chat.act(maybe(run, look(run, path)), read(path, project.source(number)))
        chat.act("", edit(path, "LIMIT", f"{run.pick(*FIELDS).upper()}_LIMIT"))
        out = project.tested([], project.total + number)
        chat.act(maybe(run, "Tests."), sh(project.command(), out, 0, run.dec(3, 9)))
        if way == "resumes":
            chat.act("", edit("TODO.md", f"- [ ] {listed[number]}", f"- [x] {listed[number]}"))
        chat.say(f"Done: {listed[number]}.")
        run.wait(20, 400)
