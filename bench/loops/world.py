"""Invented projects: the files, tests, pages and tickets that agents of scenarios meet."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

TOOK = "@TOOK@"
"""Stands in a result for a duration, in seconds."""
CLOCK = "@CLOCK@"
"""Stands in a result for the time of day."""
PID = "@PID@"
"""Stands in a result for the number of a process."""
CHUNK = "@CHUNK@"
"""Stands in a result for six hex digits that are never twice the same."""
REQUEST = "@REQUEST@"
"""Stands in a result for the id of a request, which is never twice the same."""

_NOUNS = """account batch billing bucket cache calendar cart channel checkout cluster config cursor
customer delivery device digest draft event export feature feed filter gateway import index invoice
job journal ledger lease locale mailer manifest matcher metric notice order outbox parser payment
planner policy pool profile queue quota rate refund region report request retry roster route rule
scanner schedule schema segment session shard signal snapshot sync tariff tenant ticket token upload
usage vendor voucher webhook window worker""".split()
_VERBS = """apply build check clean collect count decode expand fetch flush group join list load map
merge normalize parse pick plan prune pull rank read render resolve round scan score select send
shift sort split stage store sum trim update validate wrap""".split()
_PLAIN = """after all are at be because before both by case can change does each every first for
from has if in is it keep last limit line may more must never new next no not of old on one only
other over same should so that the their then there this to two under until value when where which
while with without""".split()
_PEOPLE = "ana bo carla dmitri eva femi gul hana ivo jon kaya lena mats nora omar pia".split()
_SUFFIX = {"py": "py", "ts": "ts", "go": "go"}


@dataclass(frozen=True, slots=True)
class Act:
    """What an agent does once: `read`, `run`, `edit`, or a call of the tool of that name."""

    kind: str
    args: Mapping[str, Any]
    result: str
    exit_code: int = 0
    image: str = ""
    """A screenshot that comes with the result, in base64."""


@dataclass(frozen=True, slots=True)
class Round:
    """One answer of a model: what it says, and does; and what came of it."""

    text: str
    acts: Sequence[Act] = ()


@dataclass(slots=True)
class World:
    """One project, drawn at random; every call of a method draws further."""

    rng: random.Random
    language: str = ""
    name: str = ""
    root: str = ""
    _names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.language = self.rng.choice(list(_SUFFIX))
        self.name = f"{self.noun()}-{self.noun()}"
        home = self.rng.choice(["/home/{}", "/Users/{}/src", "/srv/{}", "/workspace/{}"])
        self.root = f"{home.format(self.rng.choice(_PEOPLE))}/{self.name}"

    def noun(self) -> str:
        return self.rng.choice(_NOUNS)

    def verb(self) -> str:
        return self.rng.choice(_VERBS)

    def new_name(self) -> str:
        """Return a name that this world has not used yet."""
        while True:
            name = f"{self.verb()}_{self.noun()}"
            if len(self._names) > 2000 or name in self._names:
                name += f"_{self.rng.randrange(10_000)}"
            if name not in self._names:
                self._names.add(name)
                return name

    def file(self, folder: str = "src") -> str:
        return f"{self.root}/{folder}/{self.new_name()}.{_SUFFIX[self.language]}"

    def sentence(self, words: int = 0) -> str:
        count = words or self.rng.randint(6, 16)
        pool = [self.rng.choice(_PLAIN if i % 3 else _NOUNS) for i in range(count)]
        return " ".join(pool).capitalize() + "."

    def prose(self, sentences: int = 3) -> str:
        return " ".join(self.sentence() for _ in range(sentences))

    def hex(self, digits: int) -> str:
        return "".join(self.rng.choices("0123456789abcdef", k=digits))

    def uuid(self) -> str:
        digits = self.hex(32)
        cuts = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[a:b] for a, b in pairwise(cuts))

    # files and commands

    def code(self, lines: int = 0) -> str:
        """Return the text of a source file."""
        wanted = lines or self.rng.randint(8, 55)
        said = [f"# {self.sentence()}" if self.language == "py" else f"// {self.sentence()}"]
        while len(said) < wanted:
            said += self._function()
        return "\n".join(said[:wanted])

    def _function(self) -> list[str]:
        rng, name, a, b = self.rng, self.new_name(), self.noun(), self.noun()
        number = rng.randint(2, 900)
        if self.language == "py":
            return [
                "",
                f"def {name}({a}, {b}=None, limit={number}):",
                f'    """{self.sentence(7)}"""',
                f"    if {a} is None or len({a}) > limit:",
                f"        raise ValueError({self.sentence(4)!r})",
                f"    found = [{self.verb()}_{b}(one) for one in {a}]",
                f"    return found[:{rng.randint(1, 9)}] if {b} else found",
            ]
        if self.language == "ts":
            return [
                "",
                f"export function {name}({a}: string[], {b}?: number): string[] {{",
                f"  const limit = {b} ?? {number};",
                f"  if ({a}.length > limit) throw new Error('{self.sentence(4)}');",
                f"  return {a}.map((one) => {self.verb()}(one, '{self.noun()}'));",
                "}",
            ]
        return [
            "",
            f"func {name}({a} []string, {b} int) ([]string, error) {{",
            f"\tif len({a}) > {number} {{",
            f'\t\treturn nil, errors.New("{self.sentence(4)}")',
            "\t}",
            f"\treturn {self.verb()}({a}, {b}+{rng.randint(1, 9)}), nil",
            "}",
        ]

    def read(self, path: str = "", text: str = "") -> Act:
        return Act("read", {"path": path or self.file()}, text or self.code())

    def run(self, command: str, output: str, exit_code: int = 0) -> Act:
        return Act("run", {"command": command}, output, exit_code)

    def edit(self, path: str = "") -> Act:
        """Return a change of a file to what it was not before."""
        old, new = self._function()[1:4], self._function()[1:4]
        return Act(
            "edit", {"path": path or self.file(), "old": "\n".join(old), "new": "\n".join(new)}, ""
        )

    def grep(self, pattern: str = "") -> Act:
        wanted = pattern or self.new_name()
        hits = [
            f"src/{self.new_name()}.{_SUFFIX[self.language]}:{self.rng.randint(3, 400)}:"
            f"    {wanted}({self.noun()}, {self.noun()})"
            for _ in range(self.rng.randint(2, 9))
        ]
        return self.run(f"grep -rn {wanted} src/", "\n".join(hits))

    def listing(self, folder: str = "src") -> Act:
        rows = [
            f"-rw-r--r-- 1 dev dev {self.rng.randint(200, 40_000):6} "
            f"Mar {self.rng.randint(1, 28):2} 09:{self.rng.randint(10, 59)} "
            f"{self.new_name()}.{_SUFFIX[self.language]}"
            for _ in range(self.rng.randint(4, 14))
        ]
        return self.run(f"ls -la {folder}", "\n".join([f"total {len(rows) * 8}", *rows]))

    def test_command(self) -> str:
        name = self.new_name()
        return {
            "py": f"python -m pytest tests/test_{name}.py -x -q",
            "ts": f"npx vitest run test/{name}.test.ts",
            "go": f"go test ./internal/{self.noun()}/... -run Test{name.title().replace('_', '')}",
        }[self.language]

    def failure(self, name: str = "", passed: int = 0) -> str:
        """Return what a run of tests prints when one of them fails."""
        rng, test = self.rng, name or self.new_name()
        got, line, ok = rng.randint(2, 99), rng.randint(12, 400), passed or rng.randint(2, 40)
        call = f"{self.verb()}_{self.noun()}"
        if self.language == "py":
            return "\n".join(
                [
                    "=" * 35 + " FAILURES " + "=" * 35,
                    f"_____________________________ test_{test} _____________________________",
                    "",
                    f"    def test_{test}():",
                    f"        found = {call}({got}, {self.noun()!r})",
                    f">       assert found == {got + 1}",
                    f"E       assert {got} == {got + 1}",
                    f"E        +  where {got} = {call}({got})",
                    "",
                    f"tests/test_{test}.py:{line}: AssertionError",
                    "=" * 27 + " short test summary info " + "=" * 28,
                    f"FAILED tests/test_{test}.py::test_{test} - assert {got} == {got + 1}",
                    f"1 failed, {ok} passed in {TOOK}s",
                ]
            )
        if self.language == "ts":
            return "\n".join(
                [
                    f" ❯ test/{test}.test.ts ({ok + 1} tests | 1 failed) {TOOK}s",
                    f"   × {call} keeps {self.noun()} in order",
                    f"     → expected {got} to be {got + 1} // Object.is equality",
                    "",
                    f" FAIL  test/{test}.test.ts > {call}",
                    f"AssertionError: expected {got} to be {got + 1}",
                    f" ❯ test/{test}.test.ts:{line}:20",
                    "",
                    f" Tests  1 failed | {ok} passed ({ok + 1})",
                    f" Start at  {CLOCK}",
                    f" Duration  {TOOK}s",
                ]
            )
        title = test.title().replace("_", "")
        return "\n".join(
            [
                f"--- FAIL: Test{title} ({TOOK}s)",
                f"    {test}_test.go:{line}: {call}() = {got}, want {got + 1}",
                "FAIL",
                f"FAIL\texample.com/{self.name}/internal/{self.noun()}\t{TOOK}s",
                "FAIL",
            ]
        )

    def passing(self) -> str:
        count = self.rng.randint(3, 60)
        return {
            "py": f"{'.' * count} [100%]\n{count} passed in {TOOK}s",
            "ts": f" Test Files  1 passed (1)\n      Tests  {count} passed ({count})",
            "go": f"ok  \texample.com/{self.name}/internal/{self.noun()}\t{TOOK}s",
        }[self.language]

    # services and pages

    def page(self) -> str:
        head = f"# {self.sentence(4)[:-1]}"
        return "\n\n".join([head, *(self.prose() for _ in range(self.rng.randint(2, 6)))])

    def url(self) -> str:
        site = self.rng.choice(["docs", "blog", "wiki", "forum"])
        return f"https://{site}.{self.noun()}.example/{self.noun()}/{self.new_name()}"

    def say(self, *aims: str) -> str:
        """Return what a model says before it acts."""
        aim = self.rng.choice(aims) if aims else self.sentence(5).lower()[:-1]
        opening = self.rng.choice(
            ["Let me {}.", "I'll {}.", "Now I will {}.", "Next: {}.", "I need to {}.", "OK, {}."]
        )
        said = opening.format(f"{aim} of {self.noun()}" if self.rng.random() < 0.3 else aim)
        return f"{self.sentence()} {said}" if self.rng.random() < 0.4 else said

    def task(self) -> str:
        wish = self.rng.choice(
            [
                "The tests of {a} fail since the last release. Find out why and fix it.",
                "Add {a} support to {b}; keep the old behaviour of {c}.",
                "Users report that {a} loses entries of {b}. Please repair it.",
                "Refactor {a} so that {b} no longer needs {c}.",
                "Make the build of {a} green again.",
            ]
        )
        names = {key: self.new_name() for key in "abc"}
        return f"{wish.format(**names)} {self.prose(2)}"
