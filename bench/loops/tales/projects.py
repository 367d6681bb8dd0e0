"""Invented projects: their files, their sources, and what their tools print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Round, find, read, shell


@dataclass(frozen=True, slots=True)
class Project:
    """A project in one language."""

    name: str
    language: str
    test: str
    """The command that runs its tests."""
    lint: str
    build: str
    folder: str
    ending: str
    modules: Sequence[str]
    verbs: Sequence[str]
    nouns: Sequence[str]

    def path(self, module: str) -> str:
        return f"{self.folder}/{module}.{self.ending}"


PROJECTS = (
    Project(
        "tidewatch", "python", "python -m pytest -q", "ruff check .", "python -m build",
        "tidewatch", "py",
        ("harbour", "almanac", "gauge", "datum", "station", "surge", "export", "moon", "chart"),
        ("predict", "level", "interpolate", "fetch", "shift", "blend"),
        ("tide", "gauge", "offset", "harmonic", "slack", "crest"),
    ),
    Project(
        "parcelkit", "typescript", "npx vitest run", "npx eslint src", "npx tsc -p .",
        "src", "ts",
        ("label", "carrier", "tariff", "weight", "customs", "pickup", "address", "barcode", "zone"),
        ("quote", "pack", "route", "stamp", "split", "declare"),
        ("parcel", "tariff", "zone", "waybill", "pallet", "postcode"),
    ),
    Project(
        "loamdb", "rust", "cargo test --quiet", "cargo clippy --all-targets", "cargo build",
        "src", "rs",
        ("segment", "compact", "memtable", "wal", "bloom", "cursor", "manifest", "cache", "merge"),
        ("flush", "seek", "replay", "evict", "encode", "split"),
        ("segment", "block", "key", "cursor", "record", "epoch"),
    ),
    Project(
        "brasswind", "go", "go test ./...", "golangci-lint run", "go build ./...",
        "internal", "go",
        ("score", "clef", "render", "midi", "voice", "beam", "server", "layout", "upload"),
        ("Engrave", "Transpose", "Beam", "Parse", "Align", "Tie"),
        ("score", "staff", "measure", "note", "rest", "slur"),
    ),
    Project(
        "orchardist", "java", "./gradlew test", "./gradlew checkstyleMain", "./gradlew assemble",
        "src/main/java/orchardist", "java",
        ("Graft", "Harvest", "Ledger", "Tree", "Blossom", "Cellar", "Picker", "Frost", "Press"),
        ("graft", "prune", "harvest", "weigh", "store", "press"),
        ("tree", "crate", "blossom", "variety", "row", "yield"),
    ),
)  # fmt: skip


def pick_project(rng: Random) -> Project:
    return rng.choice(PROJECTS)


def source(project: Project, module: str, rng: Random, functions: int = 4) -> str:
    """Return a source file with some small functions."""
    parts = []
    for verb in rng.sample(project.verbs, min(functions, len(project.verbs))):
        a, b = rng.sample(project.nouns, 2)
        number = rng.randrange(2, 90)
        parts.append(_function(project.language, verb, a, b, number))
    head = {
        "python": f'"""The {module} of {project.name}."""\n\nimport math\n',
        "typescript": f"// {module}\nimport {{ assert }} from './check';\n",
        "rust": f"//! The {module}.\nuse std::collections::BTreeMap;\n",
        "go": f"package {module}\n",
        "java": f"package {project.name};\n\npublic final class {module} {{\n",
    }[project.language]
    return head + "\n" + "\n\n".join(parts)


def _function(language: str, verb: str, a: str, b: str, number: int) -> str:
    return {
        "python": f"def {verb}_{a}({b}: float) -> float:\n    if {b} < {number}:\n"
        f"        return 0.0\n    return math.floor({b} / {number})",
        "typescript": f"export function {verb}_{a}({b}: number): number {{\n"
        f"  if ({b} < {number}) return 0;\n  return Math.floor({b} / {number});\n}}",
        "rust": f"pub fn {verb}_{a}({b}: u64) -> u64 {{\n    if {b} < {number} {{\n"
        f"        return 0;\n    }}\n    {b} / {number}\n}}",
        "go": f"func {verb}{a}({b} int) int {{\n\tif {b} < {number} {{\n\t\treturn 0\n\t}}\n"
        f"\treturn {b} / {number}\n}}",
        "java": f"    static int {verb}_{a}(int {b}) {{\n        if ({b} < {number}) {{\n"
        f"            return 0;\n        }}\n        return {b} / {number};\n    }}",
    }[language]


def line_of(project: Project, rng: Random) -> str:
    """Return one line of code."""
    a, b = rng.sample(project.nouns, 2)
    verb, number = rng.choice(project.verbs), rng.randrange(2, 99)
    return {
        "python": f"    {a} = {verb}_{b}({b}, limit={number})",
        "typescript": f"  const {a} = {verb}_{b}({b}, {number});",
        "rust": f"    let {a} = {verb}_{b}({b}, {number})?;",
        "go": f"\t{a} := {verb}{b}({b}, {number})",
        "java": f"        int {a} = {verb}_{b}({b}, {number});",
    }[project.language]


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing test, and why it fails."""

    module: str
    test: str
    reason: str
    line: int


def draw_failure(project: Project, rng: Random, module: str = "") -> Failure:
    module = module or rng.choice(project.modules)
    a, b = rng.sample(project.nouns, 2)
    expected, actual = rng.sample(range(3, 400), 2)
    reason = rng.choice(
        (
            f"expected {expected} but got {actual}",
            f"{a} of {b} is missing",
            f"{a} must come before {b}",
            f"unexpected {a} in {b}",
        )
    )
    test = f"test_{rng.choice(project.verbs).lower()}_{a}_{rng.choice(('empty', 'late', 'twice'))}"
    return Failure(module, test, reason, rng.randrange(12, 240))


def tested(project: Project, failures: Sequence[Failure], passed: int, noise: Noise) -> str:
    """Return what a run of the tests prints, with the times of this run."""
    took = noise.seconds(0.4, 7)
    bad = len(failures)
    lines: list[str] = []
    match project.language:
        case "python":
            for f in failures:
                lines += [f"____ {f.test} ____", f"tests/test_{f.module}.py:{f.line}: in {f.test}"]
                lines.append(f"E   AssertionError: {f.reason}")
            lines += [f"FAILED tests/test_{f.module}.py::{f.test} - {f.reason}" for f in failures]
            counts = f"{bad} failed, {passed} passed" if bad else f"{passed} passed"
            lines.append(f"{counts} in {took}s")
        case "typescript":
            for f in failures:
                lines.append(f" FAIL  test/{f.module}.test.ts > {f.test}")
                lines.append(f"AssertionError: {f.reason}\n ❯ test/{f.module}.test.ts:{f.line}:11")
            lines.append(f" Test Files  {bad} failed | {9 - min(bad, 8)} passed (9)")
            lines.append(f"      Tests  {bad} failed | {passed} passed ({bad + passed})")
            lines.append(f"   Start at  {noise.clock()}\n   Duration  {took}s")
        case "rust":
            for f in failures:
                lines.append(f"---- {f.module}::{f.test} stdout ----")
                lines.append(
                    f"thread '{f.module}::{f.test}' ({noise.pid()}) panicked at "
                    f"src/{f.module}.rs:{f.line}:9:\n{f.reason}"
                )
            state = "FAILED" if bad else "ok"
            lines.append(
                f"test result: {state}. {passed} passed; {bad} failed; 0 ignored; finished in "
                f"{took}s"
            )
        case "go":
            for f in failures:
                lines.append(f"--- FAIL: {f.test} ({noise.seconds(0, 1)}s)")
                lines.append(f"    {f.module}_test.go:{f.line}: {f.reason}")
                lines.append(f"FAIL\tbrasswind/internal/{f.module}\t{noise.seconds()}s")
            lines.append(f"ok  \tbrasswind/internal/server\t{took}s" if not bad else "FAIL")
            lines.append(f"# {passed} passed, {bad} failed")
        case _:
            for f in failures:
                lines.append(f"{f.module}Test > {f.test} FAILED")
                lines.append(
                    f"    AssertionFailedError: {f.reason} at {f.module}Test.java:{f.line}"
                )
            lines.append(f"{passed + bad} tests completed, {bad} failed")
            lines.append(f"BUILD {'FAILED' if bad else 'SUCCESSFUL'} in {took}s")
    return "\n".join(lines)


def look_around(project: Project, rng: Random, count: int) -> list[Round]:
    """Return rounds in which an agent gets to know a project; all of them differ."""
    modules = rng.sample(project.modules, len(project.modules))
    listing = "\n".join(f"{project.path(module)}" for module in project.modules)
    rounds = [
        Round(
            f"I'll first see what {project.name} consists of.",
            [shell(f"ls {project.folder}", listing)],
            note=f"{project.name} has {len(project.modules)} modules in {project.folder}.",
        ),
        Round(
            "The history may tell what changed lately.",
            [shell("git log --oneline -5", _log(project, rng))],
            note="The last commits touch " + ", ".join(modules[:3]) + ".",
        ),
    ]
    for number, module in enumerate(modules):
        path = project.path(module)
        noun = rng.choice(project.nouns)
        if number % 3 == 2:
            hits = "\n".join(
                f"{project.path(rng.choice(modules))}:{rng.randrange(5, 90)}:"
                f"{line_of(project, rng)}"
                for _ in range(rng.randrange(2, 6))
            )
            deed = find(f"{noun}_\\w+ *=", project.folder, hits)
            said = f"Where else is {noun} set? Searching for it beside {module}."
        else:
            deed = read(path, source(project, module, rng))
            said = f"Now {path}, which should hold what is done with {noun}."
        rounds.append(Round(said, [deed], note=f"Looked into {module} ({noun})."))
    return rounds[:count]


def _log(project: Project, rng: Random) -> str:
    noise = Noise(rng)
    return "\n".join(
        f"{noise.hex(7)} {verb.capitalize()} the {noun} of {module}"
        for verb, noun, module in zip(
            rng.sample(project.verbs, 5),
            rng.sample(project.nouns, 5),
            rng.sample(project.modules, 5),
            strict=True,
        )
    )
