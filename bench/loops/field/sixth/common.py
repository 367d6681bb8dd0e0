"""What the modules share: words, a voice for the model, a project with code and tests."""

from __future__ import annotations

import re
from random import Random

from bench.loops.field.cast import FORMS, Act, edit, grep, read, sh, todo, write
from bench.loops.field.run import Chat, Half, Run

HALF = Half("sixth")

NOUNS = [
    "invoice",
    "parcel",
    "tariff",
    "refund",
    "voucher",
    "ledger",
    "roster",
    "quota",
    "lease",
    "booking",
    "shipment",
    "payout",
    "basket",
    "rebate",
    "claim",
    "permit",
    "badge",
    "locker",
    "meter",
    "ticket",
    "survey",
    "pledge",
    "coupon",
    "courier",
    "pallet",
    "depot",
    "fleet",
    "sticker",
    "premium",
    "grant",
    "stipend",
    "tenant",
    "timesheet",
    "shift",
    "recipe",
    "outlet",
    "beacon",
    "sensor",
]
VERBS = [
    "load",
    "store",
    "merge",
    "expire",
    "renew",
    "settle",
    "allocate",
    "score",
    "rank",
    "reserve",
    "release",
    "validate",
    "publish",
    "archive",
    "enrich",
    "route",
    "normalise",
    "export",
    "import",
    "reconcile",
]
SERVICES = [
    "checkout",
    "pricing",
    "ledger-api",
    "notifier",
    "search-indexer",
    "media-proxy",
    "identity",
    "scheduler",
    "webhooks",
    "geo-lookup",
    "report-runner",
    "stock-sync",
    "quotes",
    "payouts",
    "audit-log",
    "session-store",
    "feed-builder",
]
PEOPLE = [
    "Maren Oduya",
    "Tomas Lindqvist",
    "Ines Carvalho",
    "Yusuf Demir",
    "Hanna Kowalska",
    "Ravi Menon",
    "Clara Beck",
    "Noor Haddad",
    "Petra Novak",
    "Owen Tully",
    "Sanna Virtanen",
    "Diego Fuentes",
    "Aiko Mori",
    "Luca Ferri",
    "Wanda Achterberg",
    "Femi Balogun",
    "Greta Holm",
    "Julien Marchand",
    "Mina Sato",
    "Kofi Asante",
]
FIRMS = [
    "Brightwater Foods",
    "Holm & Sons",
    "Kestrel Optics",
    "Lowland Cycles",
    "Marlow Print",
    "Northgate Dental",
    "Ostrava Steelworks",
    "Pinecrest Hotels",
    "Quarry Lane Books",
    "Ridgeway Farms",
    "Silverline Freight",
    "Tidewater Yachts",
    "Umber Ceramics",
    "Vale Pharmacy",
    "Westbrook Motors",
    "Yarrow Textiles",
]
CITIES = [
    "Leeds",
    "Porto",
    "Gdansk",
    "Malmo",
    "Turin",
    "Ghent",
    "Aarhus",
    "Brno",
    "Cork",
    "Linz",
    "Nantes",
    "Utrecht",
    "Bilbao",
    "Tartu",
    "Bergen",
    "Graz",
    "Lyon",
    "Split",
]

_TAGGED = re.compile(r"(?:<([^<>]+)>)?(.*)", re.DOTALL)
_CHOICE = re.compile(r"\[([^\[\]|]*(?:\|[^\[\]|]*)+)\]")


def tell(run: Run, text: str) -> str:
    """Return a text with one of each `[this|that]` chosen."""
    while _CHOICE.search(text):
        text = _CHOICE.sub(lambda found: run.chance.choice(found[1].split("|")), text)
    return re.sub(r" +(?=[.,?!]( |$))", "", re.sub(r"(?<=\S) {2,}", " ", text)).strip()


class Voice:
    """What a model says beside its calls: in varied words, sometimes nothing.

    A text like `<git|pytest>Again.` is for acts whose tool or arguments match.
    """

    def __init__(self, run: Run, *texts: str, empty: float = 0.18, first: str = "") -> None:
        self.run, self.empty, self.first = run, empty, first
        self.texts = [_TAGGED.fullmatch(text) for text in texts]
        self.lately: list[str] = []

    def __call__(self, act: Act | None = None) -> str:
        if self.first:
            text, self.first = self.first, ""
            return tell(self.run, text)
        if self.run.chance.random() < self.empty:
            return plain(self.run, act) if act else ""
        about = f"{act.kind or act.verb} {act.args}" if act else ""
        fits = [
            found[2]
            for found in self.texts
            if found and (not found[1] or re.search(found[1], about))
        ]
        fresh = [text for text in fits if text not in self.lately] or fits
        if not fresh:
            return plain(self.run, act) if act else ""
        text = self.run.chance.choice(fresh)
        self.lately = [*self.lately[-(len(fits) // 2) :], text]
        return tell(self.run, text)


def plain(run: Run, act: Act) -> str:
    """Return what goes without saying; forms that write calls as text seldom leave it out."""
    if FORMS[run.form].says is None and run.chance.random() < 0.85:
        return ""
    match act.verb:
        case "read":
            return tell(run, f"[Let me|I'll] [read|open|look at] {act.args['path']}.")
        case "edit":
            return tell(run, f"[Let me|I'll|Now I'll] [change|edit|update] {act.args['path']}.")
        case "write":
            return tell(run, f"[Let me|I'll|Now I'll] write {act.args['path']}.")
        case "grep":
            return tell(run, f"[Let me|I'll] [search for|find] {act.args['pattern']}.")
        case "sh":
            cmd = act.args["cmd"]
            if len(cmd) > 60 or any(mark in cmd for mark in "[]|\n"):
                return tell(run, f"[Let me|I'll] [run|use] {cmd.split()[0]}.")
            return tell(run, f"[Let me run|Running|I'll run|Next:] `{cmd}`.")
        case "tool":
            return tell(run, f"[I need|I'll use|Let me use|Next:] {act.kind}.")
    return tell(run, "[I'll keep|Keeping] the plan up to date.")


def quiet(chat: Chat, act: Act) -> None:
    """Have the model do something without a word, or with few."""
    chat.act(plain(chat.run, act), act)


def do(chat: Chat, say: Voice, act: Act) -> None:
    """Have the model do something and say what suits it."""
    chat.act(say(act), act)


def slug(name: str) -> str:
    return re.sub(r"[^a-z]+", "-", name.lower()).strip("-")


def mail_of(name: str, firm: str) -> str:
    return f"{name.lower().replace(' ', '.')}@{slug(firm)}.example"


def edit_error(run: Run, path: str, old: str) -> str:
    """Return what the form's tool says of a text that it does not find."""
    match run.form:
        case "claude-code":
            found = f"String to replace not found in file.\nString: {old}"
            return f"<tool_use_error>{found}</tool_use_error>"
        case "codex":
            return (
                f"apply_patch verification failed: Failed to find expected lines in {path}:\n{old}"
            )
        case "gemini-cli" | "qwen-code":
            return (
                f"Failed to edit, 0 occurrences found for old_string in {path}. Original old_string"
                " was not found; no edits made. The exact text must match, with all whitespace and "
                "indentation. Use read_file to verify."
            )
        case "opencode":
            return (
                "Error: Could not find oldString in the file. It must match exactly, including "
                "whitespace, indentation, and line endings."
            )
        case "openhands":
            return (
                "ERROR:\nNo replacement was performed, old_str "
                f"`{old}` did not appear verbatim in {path}."
            )
        case "cline":
            return (
                f"The tool execution failed with the following error:\n<error>\nThe SEARCH block:\n"
                f"{old}\n...does not match anything in the file.\n</error>\nThe file was reverted "
                f"to its original state. If you need the latest content of {path}, read it again."
            )
    return f"error: text not found in {path}"


class Project:
    """A code base with modules and tests that read the same each time."""

    def __init__(self, run: Run, lang: str = "") -> None:
        self.run = run
        self.lang = lang or run.pick("py", "py", "ts", "go")
        self.words = run.some(NOUNS, 9)
        self.verbs = run.some(VERBS, 9)
        self.name = f"{self.words[0]}-{run.pick('service', 'core', 'api', 'worker', 'hub')}"
        self.package = self.name.replace("-", "_")
        self.total = run.num(38, 260)
        self.secret = run.hex(8)

    def path(self, place: int) -> str:
        word = self.words[place % 9]
        return {
            "py": f"src/{self.package}/{word}.py",
            "ts": f"src/{word}/{word}.service.ts",
            "go": f"internal/{word}/{word}.go",
        }[self.lang]

    def test(self, place: int) -> str:
        word = self.words[place % 9]
        return {
            "py": f"tests/test_{word}.py",
            "ts": f"test/{word}.service.spec.ts",
            "go": f"internal/{word}/{word}_test.go",
        }[self.lang]

    def call(self, place: int) -> str:
        verb, word = self.verbs[place % 9], self.words[place % 9]
        both = f"{verb}{word.title()}"
        return {"py": f"{verb}_{word}", "ts": both, "go": both[0].upper() + both[1:]}[self.lang]

    def case(self, place: int) -> str:
        """Return the name of a test."""
        verb, word = self.verbs[place % 9], self.words[place % 9]
        tails = ("when_empty", "keeps_order", "after_expiry", "with_two_currencies", "rounds_up")
        tail = tails[place % 5]
        match self.lang:
            case "py":
                return f"{self.test(place)}::test_{verb}_{word}_{tail}"
            case "ts":
                return f"{word.title()}Service > should {verb} the {word} {tail.replace('_', ' ')}"
        return f"Test{verb.title()}{word.title()}/{tail}"

    def body(self, place: int) -> str:
        """Return one function."""
        chance = Random(f"{self.secret}{place}")
        word, name = self.words[place % 9], self.call(place)
        limit, rate = chance.randrange(5, 90), chance.randrange(2, 40) / 100
        other = self.words[(place + 3) % 9]
        match self.lang:
            case "py":
                return (
                    f"def {name}(items: list[{word.title()}], now: datetime) -> Decimal:\n"
                    f'    """{self.verbs[place % 9].title()} each {word} that is still open."""\n'
                    f"    total = Decimal(0)\n    for item in items:\n"
                    f"        if item.{other}_id is None or item.age(now) > {limit}:\n"
                    f"            continue\n        total += item.amount * Decimal('{rate}')\n"
                    "    return total.quantize(CENT)"
                )
            case "ts":
                return (
                    f"  async {name}(items: {word.title()}[], now: Date): Promise<number> {{\n"
                    f"    let total = 0;\n    for (const item of items) {{\n"
                    f"      if (!item.{other}Id || item.age(now) > {limit}) continue;\n"
                    f"      total += item.amount * {rate};\n    }}\n"
                    f"    this.logger.debug(`{name}: ${{total}}`);\n"
                    "    return Math.round(total * 100) / 100;\n  }"
                )
        return (
            f"func {name}(items []{word.title()}, now time.Time) (int64, error) {{\n"
            f"\tvar total int64\n\tfor _, item := range items {{\n"
            f'\t\tif item.{other.title()}ID == "" || item.Age(now) > {limit}*time.Hour {{\n'
            f"\t\t\tcontinue\n\t\t}}\n\t\ttotal += item.Amount * {int(rate * 100)} / 100\n\t}}\n"
            "\treturn total, nil\n}"
        )

    def variants(self, place: int) -> list[tuple[str, str]]:
        """Return lines of a function, each with what it could be changed to."""
        found = []
        swaps = (
            (" > ", " >= "),
            (" or ", " and "),
            (" || ", " && "),
            (" is None", " == ''"),
            (
                "age(now)",
                f"age({'now.astimezone(UTC)' if self.lang == 'py' else 'startOfDay(now)'})",
            ),
            ("Age(now)", "Age(now.UTC())"),
            ("quantize(CENT)", "quantize(CENT, ROUND_HALF_UP)"),
            ("Math.round", "Math.floor"),
            ("item.amount", "abs(item.amount)" if self.lang == "py" else "item.net"),
            ("item.amount", "item.net_amount" if self.lang == "py" else "(item.amount - item.fee)"),
            ("in items:", "in sorted(items, key=lambda item: item.id):"),
            ("of items)", "of [...items].sort(byId))"),
            ("range items", "range sorted(items)"),
            ("total, nil", "max(total, 0), nil"),
            ("= 0;", "= this.base ?? 0;"),
            ("Decimal(0)", "Decimal('0.00')"),
        )
        for line in self.body(place).split("\n"):
            found += [(line, line.replace(old, new)) for old, new in swaps if old in line]
        return found

    def change(self, place: int) -> Act:
        """Return an edit of one line."""
        old, new = self.run.chance.choice(self.variants(place))
        return edit(self.path(place), old, new)

    def source(self, place: int) -> str:
        word = self.words[place % 9]
        both = f"{self.body(place)}\n\n\n{self.body(place + 2)}"
        match self.lang:
            case "py":
                head = (
                    f'"""{word.title()}s of {self.name}."""\n\nfrom datetime import datetime\n'
                    f"from decimal import Decimal\n\nfrom {self.package}.models import "
                    f'{word.title()}\n\nCENT = Decimal("0.01")\n\n\n'
                )
                return head + both
            case "ts":
                return (
                    "import { Injectable, Logger } from '@nestjs/common';\n"
                    f"import {{ {word.title()} }} from './{word}.entity';\n\n@Injectable()\n"
                    f"export class {word.title()}Service {{\n  private readonly logger = new "
                    f"Logger({word.title()}Service.name);\n\n{both}\n}}"
                )
        return f'package {word}\n\nimport "time"\n\n{both}'

    def checks(self, place: int) -> str:
        """Return the text of a module with tests."""
        name, word = self.call(place), self.words[place % 9]
        match self.lang:
            case "py":
                tests = "\n\n\n".join(
                    f"def {self.case(at).split('::')[1]}(make_{word}, now):\n"
                    f"    items = [make_{word}(amount={at * 7 + 3}), make_{word}(amount=0)]\n"
                    f"    assert {name}(items, now) == Decimal('{at * 3}.{at % 10}0')"
                    for at in (place, place + 9)
                )
                return f"from {self.package}.{word} import {name}\n\n\n{tests}"
            case "ts":
                return (
                    f"describe('{word.title()}Service', () => "
                    f"{{\n  it('should {self.verbs[place % 9]} "
                    f"the {word}', async () => {{\n    const total = await service.{name}("
                    f"[make({{ amount: {place * 7 + 3} }})], NOW);\n"
                    f"    expect(total).toBe({place * 3}.5);\n  }});\n}});"
                )
        return (
            f"func Test{name}(t *testing.T) {{\n\tgot, err := {name}(fixture(t), now)\n"
            f"\trequire.NoError(t, err)\n\trequire.Equal(t, int64({place * 31}), got)\n}}"
        )

    @property
    def command(self) -> str:
        return {"py": "pytest -q", "ts": "npx jest", "go": "go test ./..."}[self.lang]

    def only(self, place: int) -> str:
        """Return the command that runs the tests of one module."""
        match self.lang:
            case "py":
                return f"pytest -q {self.test(place)}"
            case "ts":
                return f"npx jest {self.test(place)}"
        return f"go test ./internal/{self.words[place % 9]}/..."

    def passed(self, number: int = 0) -> str:
        run, number = self.run, number or self.total
        match self.lang:
            case "py":
                return f"{'.' * min(number, 72)} [100%]\n{number} passed in {run.dec(0.6, 9)}s"
            case "ts":
                return (
                    f"Test Suites: {number // 7 + 1} passed, {number // 7 + 1} total\n"
                    f"Tests:       {number} passed, {number} total\nSnapshots:   0 total\n"
                    f"Time:        {run.dec(1.2, 14, 3)} s\nRan all test suites."
                )
        lines = [
            f"ok  \t{self.name}/internal/{word}\t{run.dec(0.01, 2, 3)}s" for word in self.words[:6]
        ]
        return "\n".join(lines)

    def failed(self, places: list[int], got: str = "", total: int = 0) -> str:
        """Return the run of a suite in which the tests of these modules fail."""
        run, total = self.run, total or self.total
        match self.lang:
            case "py":
                parts = []
                for at in places:
                    want, have = f"{at * 3}.{at % 10}0", got or f"{at * 3 + 1}.00"
                    name = self.case(at).split("::")[1]
                    parts.append(
                        f"{'_' * 20} {name} {'_' * 20}\n\n"
                        f">       assert {self.call(at)}(items, now) == Decimal('{want}')\n"
                        f"E       AssertionError: assert Decimal('{have}') == Decimal('{want}')\n\n"
                        f"{self.test(at)}:{at * 6 + 14}: AssertionError"
                    )
                lines = "\n".join(
                    f"FAILED {self.case(at)} - AssertionError: assert Decimal('"
                    f"{got or f'{at * 3 + 1}.00'}') == ..."
                    for at in places
                )
                body = "\n".join(parts)
                dots = "".join("F" if k in places else "." for k in range(min(total, 72)))
                return (
                    f"{dots} [100%]\n{'=' * 30} FAILURES {'=' * 30}\n{body}\n{'=' * 22} short "
                    f"test summary info {'=' * 22}\n{lines}\n{len(places)} failed, "
                    f"{total - len(places)} passed in {run.dec(0.6, 9)}s"
                )
            case "ts":
                parts = [
                    f"  ● {self.case(at)}\n\n    expect(received).toBe(expected) // Object.is "
                    f"equality\n\n    Expected: {at * 3}.5\n    Received: {got or at * 3 + 1}\n\n"
                    f"      at Object.<anonymous> ({self.test(at)}:{at * 5 + 12}:19)\n"
                    for at in places
                ]
                return (
                    f"FAIL {self.test(places[0])} ({run.dec(4, 9)} s)\n" + "\n".join(parts) + "\n"
                    f"Test Suites: 1 failed, {total // 7} passed, {total // 7 + 1} total\n"
                    f"Tests:       {len(places)} failed, {total - len(places)} passed, {total} "
                    f"total\nTime:        {run.dec(4, 14, 3)} s"
                )
        parts = [
            f"--- FAIL: {self.case(at)} ({run.dec(0, 0.3)}s)\n    {self.words[at % 9]}_test.go:"
            f"{at * 4 + 21}: \n        \tError:      \tNot equal: \n"
            f"        \t            \texpected: {at * 31}\n        \t            \tactual  : "
            f"{got or at * 31 + 4}"
            for at in places
        ]
        word = self.words[places[0] % 9]
        return "\n".join(
            [*parts, "FAIL", f"FAIL\t{self.name}/internal/{word}\t{run.dec(0.02, 2, 3)}s", "FAIL"]
        )

    def log(self) -> str:
        run = self.run
        acts = (
            "Fix {call} for empty lists",
            "Add {verb} to the {word} API",
            "Rename {call}",
            "Document {word}s",
            "Speed up {call}",
            "Drop the old {word} table",
            "Test {call} with two currencies",
            "Guard against a missing {word}",
            "Log {word}s that are skipped",
            "Bump dependencies",
            "Let {call} take a date",
            'Revert "Cache {word}s"',
        )
        return "\n".join(
            f"{run.hex(7)} "
            + act.format(call=self.call(place), verb=self.verbs[place], word=self.words[place])
            for place, act in enumerate(run.some(acts, 6))
        )

    def listing(self) -> str:
        return {
            "py": "README.md\nnoxfile.py\npyproject.toml\nsrc\ntests\nuv.lock",
            "ts": "README.md\nnest-cli.json\nnode_modules\npackage-lock.json\npackage.json\nsrc\n"
            "test\ntsconfig.json",
            "go": "Dockerfile\nMakefile\nREADME.md\ncmd\ngo.mod\ngo.sum\ninternal",
        }[self.lang]

    def earlier(self, chat: Chat) -> None:
        """Do another task first, in some sessions."""
        run = self.run
        alone = ("swe-agent", "mini-swe-agent", "openhands", "responses-kept")
        if run.chance.random() < 0.45 or run.form in alone or run.shows != "whole":
            return
        at = run.num(0, 8)
        chat.user(
            run.mix(
                "Please|First|Before the real task:",
                "review and tidy up|go through|check and mend",
                [f"{self.call(at)} and what is like it in {self.name},"],
                "one module after the other.|and run the tests of each module.|with tests.",
            )
        )
        self.work(chat, run.num(4, 13), at)
        chat.say(tell(run, "[Done|That is done]. [The tests pass|All is green] there."))
        run.wait(20, 400)

    def survey(self, chat: Chat, least: int = 4, most: int = 8, at: int = -1) -> None:
        """Look about in the code base, as one does at first."""
        run = self.run
        at = at if at >= 0 else run.num(0, 5)
        name, more = self.call(at), self.path(at + 4)
        doings: list[tuple[str, Act]] = [
            ("[Let me|I'll] [get an overview|look around] [first|].", sh("ls", self.listing())),
            ("[Let me|I'll] see what changed recently.", sh("git log --oneline -6", self.log())),
            (
                "",
                sh("git status --short", run.pick("", f" M {self.path(at + 1)}")),
            ),
            ("[Now|Next] the [code|implementation] itself.", read(self.path(at), self.source(at))),
            ("[Let me|I'll] read [what is beside it|a similar module] too.", self.reading(at + 1)),
            (
                "[Checking|Let me check] what the tests expect.",
                read(self.test(at), self.checks(at)),
            ),
            (
                f"[Who|Let me see who] calls {name}[?|, and how.]",
                grep(
                    name,
                    f"{self.path(at)}:{run.num(8, 30)}: {name}(items, now)\n"
                    f"{more}:{run.num(30, 90)}: {name}(batch, now)\n"
                    f"{self.test(at)}:{run.num(8, 50)}: {name}(items, now)",
                ),
            ),
            (
                "[Good|OK|Right], that gives me the [picture|shape|layout].",
                todo(
                    read_the_code="completed",
                    make_the_change="in_progress",
                    run_the_tests="pending",
                ),
            ),
        ]
        for place in sorted(run.some(range(len(doings)), min(run.num(least, most), 8))):
            text, act = doings[place]
            told = text and run.chance.random() < 0.7
            chat.act(tell(run, text) if told else plain(run, act), act)

    def reading(self, place: int) -> Act:
        return read(self.path(place), self.source(place))

    @property
    def mark(self) -> str:
        """How a comment begins."""
        return "#" if self.lang == "py" else "//"

    def work(self, chat: Chat, rounds: int, start: int = 0) -> None:
        """Go on with honest work, module by module: read, edit, test."""
        run = self.run
        say = Voice(
            run,
            "<^read>[Now|Next] [the next module|this one].",
            "<^read>[That works|Good]. [On to|Moving to] the next.",
            "<^edit>[Let me|I'll] [adapt|change] [this one|it] too.",
            "<^edit>[Here|In this one] [too|as well].",
            "<^sh>[Running|Let me run] its tests.",
            "<^read>[Reading|Let me read] the module first.",
            empty=0.35,
        )
        done, at = 0, start
        while done < rounds:
            path = self.path(at)
            steps = [
                read(path, self.source(at)),
                self.change(at),
                sh(self.only(at), self.passed(run.num(4, 19)), takes=run.dec(2, 9)),
            ]
            if run.chance.random() < 0.2:
                steps.insert(2, sh(self.only(at), self.failed([at % 9], total=9), code=1))
                steps.insert(3, self.change(at))
            if run.chance.random() < 0.2:
                more = f"docs/{self.words[at % 9]}-{at}.md"
                steps.append(write(more, f"# {self.words[at % 9]}\n\nSee {path}, {run.hex(5)}."))
            for step in steps:
                if done < rounds:
                    do(chat, say, step)
                done += 1
            at += 1
