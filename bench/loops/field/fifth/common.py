"""What the modules of this set share: a repository with tests, and ways to put things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from bench.loops.field.cast import FORMS, Act, edit, grep, read, sh, tool, write
from bench.loops.field.run import Chat, Half, Run

HALF = Half("fifth")

NOUNS = (
    "invoice ledger shipment depot carrier meter tariff booking berth roster parcel claim sensor "
    "recipe ticket venue loan member quote voucher pallet route crew charter"
).split()
VERBS = (
    "load merge price close split allocate settle rank expand resolve trim audit replay reserve"
).split()
FIELDS = "amount weight score volume balance quantity margin priority".split()
PACKAGES = (
    "harbourmaster millstone tallyboard quayline greenhouse waybill stockroom brickyard "
    "farebox lanternworks cellarbook orchardry"
).split()
PEOPLE = (
    "Ines Okafor|Tomasz Wrona|Mei Castellanos|Birgit Aalto|Rashid Demir|Fiona MacAskill|"
    "Joao Pinheiro|Anneke Visser|Dmitri Halloran|Leila Haddad|Pia Lindqvist|Samuel Owusu"
).split("|")
FIRMS = (
    "Northgate Cold Storage|Veldhuis Logistics|Ferrovia Textil|Cobalt & Rye|Halden Marine|"
    "Pumice Labs|Ostrava Glassworks|Tern Island Foods|Brightmoor Clinics|Kestrel Print|"
    "Sandoval Timber|Juniper Freight|Lowland Dairy|Arctic Char Co|Meridian Roofing|Elm Street Toys|"
    "Quarry Road Cycles|Bluewater Pumps|Saffron Catering|Tidewrack Salvage"
).split("|")
CITIES = (
    "Gdansk Porto Leeds Graz Turku Malaga Ghent Lyon Brno Aarhus Trieste Cork Split Bergen Tartu "
    "Utrecht Bilbao Zagreb Genoa Linz"
).split()
HOSTS = "atlas boreas cirrus dorado ember fulmar gannet heron".split()


class Failure(NamedTuple):
    """A test that fails, and how."""

    path: str
    name: str
    line: int
    code: str
    got: str
    wanted: str


class Project:
    """A repository: its files, and what its tests print."""

    def __init__(self, run: Run, language: str = "", size: int = 9) -> None:
        self.run, self.size = run, size
        self.seed = run.hex(10)
        self.language = language or run.pick("py", "ts")
        self.name = run.pick(*PACKAGES)
        self.nouns = run.some(NOUNS, size)
        self.verbs = run.some(VERBS, 9)
        self.total = run.num(38, 190)

    def path(self, number: int) -> str:
        noun = self.nouns[number % self.size]
        return f"{self.name}/{noun}.py" if self.language == "py" else f"src/{noun}.ts"

    def test(self, number: int) -> str:
        noun = self.nouns[number % self.size]
        return f"tests/test_{noun}.py" if self.language == "py" else f"src/{noun}.test.ts"

    def function(self, number: int) -> str:
        verb, noun = self.verbs[number % 9], self.nouns[number % self.size]
        return f"{verb}_{noun}" if self.language == "py" else f"{verb}{noun.capitalize()}"

    def command(self, number: int = -1) -> str:
        """Return what runs the tests: of one module, or all."""
        where = self.test(number) if number >= 0 else ""
        head = "python -m pytest -q" if self.language == "py" else "npx vitest run"
        return f"{head} {where}".strip()

    def source(self, number: int, edition: int = 0) -> str:
        """Return a module; each edition has another function at its end."""
        chance = Random(f"{self.seed}{number % self.size}")
        lines = _head(self, number, chance)
        for place in range(chance.randint(3, 5) + edition):
            verb = self.verbs[(number + place) % 9]
            lines += _function(self.language, verb, self.nouns[number % self.size], chance)
        return "\n".join(lines)

    def failure(self, number: int) -> Failure:
        """Return how a test of a module fails."""
        chance = Random(f"{self.seed}f{number % self.size}")
        noun, attr = self.nouns[number % self.size], chance.choice(FIELDS)
        want = chance.randint(11, 900) / 4
        got = want + chance.choice((-0.25, 0.01, -1.0, 12.0, 0.5))
        how = chance.choice(("rounds", "skips_empty", "once", "in_order"))
        name = f"test_{self.verbs[number % 9]}_{noun}_{how}"
        code = f"{self.function(number)}(sample).{attr}"
        return Failure(
            self.test(number), name, chance.randint(18, 160), code, f"{got:g}", f"{want:g}"
        )

    def tested(self, failures: Sequence[Failure], total: int = 0) -> str:
        """Return what a test run prints; its durations differ each time."""
        total = total or self.total
        seconds = self.run.dec(1.8, 14.0)
        if self.language == "py":
            return _pytest(self, failures, total, seconds)
        return _vitest(self, failures, total, seconds)


def _head(project: Project, number: int, chance: Random) -> list[str]:
    other = project.nouns[(number + 1) % project.size]
    noun = project.nouns[number % project.size]
    if project.language == "py":
        return [
            f'"""The {noun}s of a {other}."""',
            "",
            "from __future__ import annotations",
            "",
            "from dataclasses import dataclass, replace",
            f"from {project.name}.{other} import {other.capitalize()}",
            "",
            f"LIMIT = {chance.randint(3, 400)}",
            "",
            "",
            "@dataclass(frozen=True)",
            f"class {noun.capitalize()}:",
            "    id: str",
            *(f"    {attr}: float = 0.0" for attr in chance.sample(FIELDS, 3)),
            "",
        ]
    return [
        f'import {{ {other.capitalize()} }} from "./{other}";',
        "",
        f"export const LIMIT = {chance.randint(3, 400)};",
        "",
        f"export interface {noun.capitalize()} {{",
        "  id: string;",
        *(f"  {attr}: number;" for attr in chance.sample(FIELDS, 3)),
        "}",
    ]


def _function(language: str, verb: str, noun: str, chance: Random) -> list[str]:
    attr, number = chance.choice(FIELDS), chance.randint(2, 60)
    kind = noun.capitalize()
    if language == "py":
        bodies = (
            [
                f"    kept = [one for one in found if one.{attr} > {number}]",
                "    if not kept:",
                "        return None",
                f"    return replace(kept[0], {attr}=sum(one.{attr} for one in kept))",
            ],
            [
                f"    ordered = sorted(found, key=lambda one: one.{attr}, reverse=True)",
                f"    for one in ordered[:{number}]:",
                f"        if one.{attr} and one.id not in SEEN:",
                "            return one",
                "    return None",
            ],
            [
                "    totals: dict[str, float] = {}",
                "    for one in found:",
                f"        totals[one.id] = round(totals.get(one.id, 0) + one.{attr}, 2)",
                f"    return max(found, key=lambda one: totals[one.id] / {number}, default=None)",
            ],
        )
        head = f"def {verb}_{noun}(found: list[{kind}]) -> {kind} | None:"
        return [
            "",
            head,
            f'    """{verb.capitalize()} {noun}s by {attr}."""',
            *chance.choice(bodies),
        ]
    shapes = (
        [
            f"  const kept = found.filter((one) => one.{attr} > {number});",
            "  if (!kept.length) return undefined;",
            f"  return {{ ...kept[0], {attr}: kept.reduce((sum, one) => sum + one.{attr}, 0) }};",
        ],
        [
            f"  const ordered = [...found].sort((a, b) => b.{attr} - a.{attr});",
            f"  return ordered.slice(0, {number}).find((one) => one.{attr} !== 0);",
        ],
    )
    head = f"export function {verb}{kind}(found: {kind}[]): {kind} | undefined {{"
    return ["", head, *chance.choice(shapes), "}"]


def _pytest(project: Project, failures: Sequence[Failure], total: int, seconds: float) -> str:
    lines = _progress(failures, total)
    if failures:
        lines.append(" FAILURES ".center(80, "="))
    for one in failures:
        sample = f"sample = [{project.nouns[one.line % 9].capitalize()}(id='{one.line}')]"
        lines += [
            f" {one.name} ".center(80, "_"),
            "",
            sample,
            "",
            f"    def {one.name}(sample):",
            f">       assert {one.code} == {one.wanted}",
            f"E       assert {one.got} == {one.wanted}",
            f"E        +  where {one.got} = {one.code}",
            "",
            f"{one.path}:{one.line}: AssertionError",
        ]
    if failures:
        lines.append(" short test summary info ".center(80, "="))
        lines += [
            f"FAILED {one.path}::{one.name} - assert {one.got} == {one.wanted}" for one in failures
        ]
    failed = f"{len(failures)} failed, " if failures else ""
    lines.append(f"{failed}{total - len(failures)} passed in {seconds:.2f}s")
    return "\n".join(lines)


def _progress(failures: Sequence[Failure], total: int) -> list[str]:
    """Return the dots of a run, in rows."""
    dots = ["."] * max(total, 1)
    for number, one in enumerate(failures):
        dots[(one.line + number) % len(dots)] = "F"
    rows = ["".join(dots[place : place + 64]) for place in range(0, len(dots), 64)]
    shares = [min(100, (place + 1) * 6400 // len(dots)) for place in range(len(rows))]
    return [f"{row:<72}[{share:3}%]" for row, share in zip(rows, shares, strict=True)]


def _vitest(project: Project, failures: Sequence[Failure], total: int, seconds: float) -> str:
    run = project.run
    lines = [" RUN  v3.2.4 /srv/work", ""]
    failed = {one.path for one in failures}
    files = [project.test(number) for number in range(project.size)] if total > 20 else []
    lines += [
        f" ✓ {path} ({len(path) % 7 + 3} tests) {run.num(4, 90)}ms"
        for path in files
        if path not in failed
    ]
    for one in failures:
        lines += [
            f" FAIL  {one.path} > {one.name.replace('_', ' ')}",
            f"AssertionError: expected {one.got} to be {one.wanted} // Object.is equality",
            "",
            f"- Expected   {one.wanted}",
            f"+ Received   {one.got}",
            "",
            f" ❯ {one.path}:{one.line}:{one.line % 30 + 4}",
            f"    {one.line - 1}|   const sample = load();",
            f"    {one.line}|   expect({one.code}).toBe({one.wanted});",
            "       |          ^",
        ]
    count = f"{len(failures)} failed | " if failures else ""
    start = run.stamp("%H:%M:%S")
    lines += [
        "",
        f" Test Files  {len(failed)} failed | {len(files)} in all",
        f"      Tests  {count}{total - len(failures)} passed ({total})",
        f"   Start at  {start}",
        f"   Duration  {seconds:.2f}s (transform "
        f"{seconds * 70:.0f}ms, tests {seconds * 400:.0f}ms)",
    ]
    return "\n".join(lines)


def build_log(run: Run, steps: Sequence[str]) -> str:
    """Return the log of an image's build up to some step, with times."""
    lines = [
        f'#0 building with "default" instance using docker driver ({run.stamp("%H:%M:%S")})',
        f"#1 [internal] load build definition from Dockerfile\n#1 DONE {run.dec(0.1, 0.4)}s",
        f"#2 [internal] load metadata for docker.io/library/python\n#2 DONE {run.dec(0.3, 2)}s",
    ]
    for number, step in enumerate(steps, 3):
        end = "CACHED" if number < 6 else f"DONE {run.dec(0.2, 9)}s"
        lines.append(f"#{number} [{number - 2}/{len(steps) + 1}] {step}\n#{number} {end}")
    return "\n".join(lines)


# ways to put things


ASIDES = (
    "I keep an eye on the output.",
    "The other parts stay untouched.",
    "I will mention this in the summary.",
    "This should be quick.",
    "One step at a time.",
    "Nothing else needs to change for this.",
    "I note what comes back for the report at the end.",
    "If that is in order, the rest should follow from it without much ado.",
    "I prefer to look at the facts here instead of guessing what the reason may be.",
)


def maybe(run: Run, text: str, share: float = 0.65) -> str:
    """Return the text or none, as models often call a tool without a word; or more of it."""
    if run.chance.random() >= share:
        return ""
    return f"{text} {run.pick(*ASIDES)}" if run.chance.random() < 0.15 else text


def put(run: Run, *parts: Sequence[str]) -> str:
    """Return a sentence of one choice for each part, without blanks before marks."""
    return re.sub(r" ([.,;!])", r"\1", run.mix(*parts))


def once_more(run: Run, thing: str) -> str:
    """Return what a model says when it tries again."""
    return put(
        run,
        "Let me|I'll|I will|Let me just|Okay, let me",
        "try|retry|have another go at|go back to",
        [thing],
        "and see what comes back.|; it may have been a hiccup.|once more.|with a small adjustment.|"
        "again, a bit more carefully.|to rule out a transient "
        "problem.|in a slightly different way.",
    )


def idea(run: Run, thing: str) -> str:
    """Return a new theory of why something fails."""
    return put(
        run,
        "I see the issue now:|The problem seems to be|Looking closer, it must be|Ah,|I think it is",
        [thing],
        "- this should fix it.|, so I change that.|; adjusting it now.|. Let me correct it.|"
        ", which explains the failure.",
    )


def onward(run: Run, thing: str) -> str:
    """Return what a model says when something is done and the next begins."""
    return run.mix(
        "Good,|That works;|Done with that one;|Fine,|Great,",
        "next is|on to|now for|the next one is|I continue with",
        [f"{thing}."],
    )


def look(run: Run, thing: str) -> str:
    return run.mix(
        "Let me look at|I'll check|I want to see|I need to understand|Let me open",
        [thing],
        "first.|to get the context.|before I change anything.|now.",
    )


def request_id(run: Run) -> str:
    return f"req_{run.hex(16)}"


def uuid(run: Run) -> str:
    return f"{run.hex(8)}-{run.hex(4)}-4{run.hex(3)}-a{run.hex(3)}-{run.hex(12)}"


QUESTIONS = ("what", "which", "where", "how", "when", "why", "who")


def ask_to(run: Run, what: str) -> str:
    """Return a task as a person would write it; a question stays one."""
    close = run.pick(
        "Work on your own and tell me when it is done.",
        "No need to check back with me.",
        "Report at the end in a few sentences.",
        "I am in meetings until the evening.",
        "Thanks!",
    )
    if what.startswith(QUESTIONS) or " is flaky" in what:
        return f"{what[0].upper()}{what[1:]} {close}"
    head = run.pick("Please", "Could you please", "Your task:", "We need you to")
    return f"{head} {what} {close}"


def together(run: Run, chat: Chat, say: str, *acts: Act) -> None:
    """Do these in one round, if the form can, or one after the other."""
    if FORMS[run.form].says or run.chance.random() < 0.4:
        for number, act in enumerate(acts):
            chat.act("" if number else say, act)
    else:
        chat.act(say, *acts)


# what was before


def earlier(run: Run, chat: Chat, project: Project, most: int = 5) -> None:
    """Do an earlier task of the same session, in about half of the runs."""
    if run.chance.random() < 0.45:
        return
    first, is_python = run.num(0, 8), project.language == "py"
    kind = run.pick("docs", "types", "tests", "explain")
    what = {
        "docs": f"write a page in docs/ for each module of {project.name} that has none.",
        "types": f"make what the functions of {project.name} return immutable.",
        "tests": f"raise the coverage of {project.name}; begin with what has no test.",
        "explain": f"look up where {project.name} reads {project.nouns[first]}s, and who calls it.",
    }[kind]
    chat.user(ask_to(run, what))
    for number in range(first, first + run.num(2, most)):
        path, fn = project.path(number), project.function(number)
        chat.act(maybe(run, look(run, f"`{path}`")), read(path, project.source(number)))
        if kind == "explain":
            hit = f"{project.path(number + 1)}:{run.num(9, 300)}:    {fn}(found)"
            chat.act(maybe(run, f"Who calls `{fn}`?"), grep(fn, hit))
            continue
        noun = project.nouns[number % project.size]
        text = f"# {noun.capitalize()}s\n\n`{fn}` takes a list and returns one or none."
        if kind == "docs":
            chat.act("", write(f"docs/{noun}.md", text))
            continue
        new = f"return tuple({fn}(found))" if is_python else f"return Object.freeze({fn}(found))"
        if kind == "tests":
            new = f"assert {fn}([]) is None" if is_python else f"expect({fn}([])).toBeUndefined()"
        where = project.test(number) if kind == "tests" else path
        chat.act(maybe(run, f"I change `{where}`."), edit(where, f"{fn}(found)", new))
        out = project.tested([], project.total - 20 + number)
        chat.act("", sh(project.command(), out, 0, run.dec(3, 9)))
    chat.say(
        run.mix("Done.|That is finished.|All set.", [f"It was about {project.function(first)}."])
    )
    run.wait(20, 900)


def asked_before(run: Run, chat: Chat) -> None:
    """Answer a few questions of the same session, in about half of the runs."""
    if run.chance.random() < 0.45:
        return
    topics = run.some(
        ("opening hours", "holidays", "parking", "price list", "contacts", "canteen"), 4
    )
    for topic in topics[: run.num(1, 4)]:
        firm, value = run.pick(*FIRMS), run.num(2, 90)
        ask = run.pick(
            "What do we know of the {}?", "Please look up the {}.", "Can you find the {}?"
        )
        chat.user(ask.format(f"{topic} of {firm}"))
        found = {"firm": firm, "topic": topic, "text": f"{topic}: see note {value}", "rank": 1}
        chat.act(
            maybe(run, look(run, f"the {topic}")), tool("search_notes", {"query": topic}, [found])
        )
        chat.say(f"{firm}, {topic}: see note {value}, written by {run.pick(*PEOPLE)}.")
        run.wait(20, 600)


# what services and builds print


def traceback(project: Project, error: str, depth: int = 6) -> str:
    """Return how a Python program of a project ends; the same each time."""
    chance = Random(f"{project.seed}{error}")
    lines = ["Traceback (most recent call last):"]
    for number in range(depth):
        noun, verb = chance.choice(project.nouns), chance.choice(project.verbs)
        path = f"/srv/work/{project.name}/{noun}.py"
        lines += [
            f'  File "{path}", line {chance.randint(9, 400)}, in {verb}_{noun}',
            f"    {chance.choice(FIELDS)} = "
            f"self.{chance.choice(project.verbs)}({noun}, retry={number})",
            "    " + " " * len(f"{noun}") + "^" * chance.randint(8, 30),
        ]
    return "\n".join([*lines, error])


def service_log(run: Run, app: str, lines: int, end: str) -> str:
    """Return the log of a service that starts and ends so; only times and ids differ."""
    chance = Random(f"{run.session}{app}{end}")
    pid = run.num(1, 40)
    rows = []
    for _ in range(lines):
        part = chance.choice(("config", "pool", "router", "metrics", "tls", "scheduler", "cache"))
        what = chance.choice(("loaded", "bound", "registered", "started", "warmed", "checked"))
        count = chance.randint(1, 90)
        rows.append(
            f"{run.stamp()} INFO  [{app}:{pid}] {part} {what} {count} entries "
            f"in {run.dec(0.1, 9)}ms span={run.hex(8)}"
        )
    return "\n".join([*rows, f"{run.stamp()} ERROR [{app}:{pid}] {end}"])


def bundle_log(project: Project, modules: int, seconds: float) -> str:
    """Return what a bundler prints: its files with sizes."""
    chance = Random(f"{project.seed}bundle")
    rows = [
        f"vite v7.1.4 building for production...\ntransforming...\n✓ {modules} modules transformed."
    ]
    for noun in project.nouns:
        size = chance.randint(900, 400_000) / 1000
        name = f"dist/assets/{noun}-{chance.randrange(16**8):08x}.js"
        rows.append(f"{name:<44} {size:>8.2f} kB │ gzip: {size / 3:>7.2f} kB")
    return "\n".join([*rows, f"✓ built in {seconds:.2f}s"])


def http_head(run: Run, status: str, kind: str = "application/json") -> str:
    """Return the head of an answer over HTTP."""
    return (
        f"HTTP/2 {status}\ndate: {run.stamp('%A, %d-%b-%y %H:%M:%S GMT')}\ncontent-type: {kind}\n"
        f"server: envoy\nx-request-id: "
        f"{uuid(run)}\nx-envoy-upstream-service-time: {run.num(2, 400)}\n"
        f"strict-transport-security: max-age=31536000\nvary: Accept-Encoding, Origin\n"
        f'cache-control: no-store\netag: W/"{run.hex(12)}"\n'
    )
