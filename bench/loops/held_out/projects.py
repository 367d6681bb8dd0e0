"""Software projects on which coding agents work: files, tests, errors, and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.loops.held_out.coders import Coder
from bench.loops.held_out.run import Turn, hexes


@dataclass(frozen=True, slots=True)
class Project:
    """A project, its words, and the one thing in it that will not work."""

    name: str
    task: str
    folder: str
    ending: str
    nouns: Sequence[str]
    check: str
    """The command that shows whether the task is done."""
    single: str
    """The command that runs the tests of one noun."""
    trouble: Sequence[str]
    """What the stubborn failure prints; {ms}, {pid} and {id} are noise."""
    tries: Sequence[str]
    """Commands by which one might get around it."""

    def file(self, noun: str) -> str:
        """Return the file about a noun."""
        return f"{self.folder}/{noun}{self.ending}"

    def lines(self, noun: str, part: int = 0) -> list[str]:
        """Return some lines of that file."""
        verbs = ("load", "check", "merge", "store", "render", "drop", "split", "rank")
        verb, then = verbs[part % 8], verbs[(part + 3) % 8]
        tail = "" if part < 8 else f"_{'abcdefgh'[part // 8 % 8]}"
        match self.ending:
            case ".py":
                return [
                    f"def {verb}_{noun}{tail}(rows, limit=None):",
                    f'    """Return what {noun} has after {verb}."""',
                    f"    kept = [{then}_{noun}(row) for row in rows if row.{noun}_id]",
                    "    return kept[:limit]",
                ]
            case ".ts":
                return [
                    f"export async function {verb}_{noun}{tail}(input: {noun}Input) {{",
                    f"  const found = await this.{then}.for_{noun}(input.id);",
                    f"  return found.map((one) => to_{noun}_view(one));",
                    "}",
                ]
            case ".go":
                return [
                    f"func (s *Store) {verb}_{noun}{tail}(ctx context.Context, id string) error {{",
                    f"\tif err := s.{then}.Do(ctx, id); err != nil {{",
                    f'\t\treturn fmt.Errorf("{verb} {noun}: %w", err)',
                    "\t}",
                    "\treturn nil",
                    "}",
                ]
            case _:
                return [
                    f"pub fn {verb}_{noun}{tail}(input: &[u8]) -> Result<{noun}_t, Error> {{",
                    f"    let mut reader = {then}_reader::new(input);",
                    f"    reader.{noun}().map_err(Error::from)",
                    "}",
                ]

    def page(self, noun: str, part: int = 0) -> list[str]:
        """Return a longer part of that file, some lines of which all files have."""
        mark = "#" if self.ending == ".py" else "//"
        return [
            f"{mark} {self.name}: see the notes of the project before you change this",
            "",
            *self.lines(noun, part),
            "",
            *self.lines(noun, part + 1),
            "",
            f"{mark} what follows is for {noun} of the old format, and goes when that goes",
            *self.lines(f"old_{noun}", part + 2),
        ]

    def failure(self, rng: Random) -> str:
        """Return what the stubborn failure prints this time."""
        text = "\n".join(self.trouble)
        spent, pid = f"{rng.uniform(0.4, 9.0):.2f}", str(rng.randint(300, 99_000))
        return text.replace("{ms}", spent).replace("{pid}", pid).replace("{id}", hexes(rng, 8))

    def passed(self, rng: Random, noun: str) -> str:
        """Return what passing tests of one file print."""
        return f"{self.file(noun)} {noun}: {rng.randint(3, 9)} passed in {rng.uniform(0.1, 3):.2f}s"


PROJECTS = (
    Project(
        "ledger",
        "Invoices in several currencies are rounded wrongly. Fix the rounding, and make sure that "
        "`pytest tests/billing` passes.",
        "ledger/billing",
        ".py",
        "invoice tariff refund credit discount receipt payout currency dunning voucher".split(),
        "pytest tests/billing -q",
        "pytest tests/billing/test_{noun}.py -q",
        [
            "F.....                                                   [100%]",
            "E   AssertionError: assert Decimal('19.990') == Decimal('19.99')",
            "tests/billing/test_rounding.py:41: AssertionError",
            "FAILED tests/billing/test_rounding.py::test_three_currencies",
            "1 failed, 5 passed in {ms}s",
        ],
        [
            "pytest tests/billing -q -x",
            "python -m pytest tests/billing -q --no-header",
            "pytest tests/billing -q -p no:cacheprovider",
            "pytest tests/billing -q --lf",
        ],
    ),
    Project(
        "harbour",
        "The build of the web client broke after the move to ESM. Get `npm run build` green again "
        "and keep the public types as they are.",
        "src/client",
        ".ts",
        "berth vessel cargo pilot tide manifest customs crane quay anchor".split(),
        "npm run build",
        "npx vitest run src/client/{noun}.test.ts",
        [
            "> harbour@4.2.0 build",
            "> tsc -p tsconfig.build.json && vite build",
            "src/client/session.ts(88,14): error TS2742: The inferred type of 'session' cannot be "
            "named without a reference to '@harbour/core/dist/types'.",
            "npm error Lifecycle script `build` failed with error: code 2",
            "npm error A complete log is in /home/dev/.npm/_logs/{pid}-debug-0.log",
        ],
        [
            "npx tsc -p tsconfig.build.json && npx vite build",
            "rm -rf dist && npm run build",
            "npm run build -- --force",
            "npm ci --ignore-scripts && npm run build",
        ],
    ),
    Project(
        "relay",
        "Messages are delivered twice when the broker restarts. Write a test for it and fix the "
        "consumer.",
        "internal/consumer",
        ".go",
        "offset lease batch cursor shard replay dedup topic group partition".split(),
        "go test ./internal/consumer/...",
        "go test -run {noun} ./internal/consumer/",
        [
            "--- FAIL: TestNoDoubleDelivery ({ms}s)",
            "    consumer_test.go:117: got 2 deliveries of the same message, want 1",
            "FAIL",
            "FAIL    example.org/relay/internal/consumer     {ms}s",
        ],
        [
            "go test -count=1 ./internal/consumer/...",
            "go test -race ./internal/consumer/...",
            "go clean -testcache && go test ./internal/consumer/...",
            "go test -run TestNoDoubleDelivery ./internal/consumer/...",
        ],
    ),
    Project(
        "tessera",
        "Port the tile decoder to the new format. `cargo test -p decoder` must pass.",
        "crates/decoder/src",
        ".rs",
        "header palette layer stripe mosaic chunk filter gamut raster outline".split(),
        "cargo test -p decoder",
        "cargo test -p decoder {noun}",
        [
            "   Compiling decoder v0.9.1 (/crates/decoder)",
            "error[E0502]: cannot borrow `*self` as mutable because it is also borrowed",
            "   --> crates/decoder/src/stream.rs:203:21",
            "error: could not compile `decoder` (lib test) due to 1 previous error",
            "real {ms}s, build {id}",
        ],
        [
            "cargo test -p decoder --lib",
            "cargo clean -p decoder && cargo test -p decoder",
            "cargo test -p decoder --offline",
            "RUST_BACKTRACE=1 cargo test -p decoder",
        ],
    ),
    Project(
        "almanac",
        "Set the project up in this container: install what it needs, run the migrations, and get "
        "the smoke tests to pass.",
        "almanac/sources",
        ".py",
        "moon eclipse season solstice meteor comet planet horizon twilight zenith".split(),
        "pip install -r requirements.txt",
        "pytest tests/sources/test_{noun}.py -q",
        [
            "Collecting tzfeed==3.1",
            "  WARNING: Retrying after connection broken by 'NewConnectionError(<pip.Connection "
            "object at 0x7f{id}>: [Errno -3] Temporary failure in name resolution)'",
            "ERROR: Could not find a version that satisfies the requirement tzfeed==3.1",
            "ERROR: No matching distribution found for tzfeed==3.1",
        ],
        [
            "pip install tzfeed==3.1",
            "pip install --no-cache-dir tzfeed==3.1",
            "python -m pip install --retries 9 tzfeed==3.1",
            "uv pip install tzfeed==3.1",
        ],
    ),
)

LOOKING = (
    "Let me look at this file.",
    "I need to see how this is written.",
    "Next I read the part that does the work.",
    "",
)
CHANGING = ("I change this now.", "This is the place; editing it.", "Now the fix.", "")
CHECKING = ("Let me check.", "Running it to be sure.", "Now let me see whether that worked.", "")


def stint(coder: Coder, project: Project, rng: Random, nouns: Sequence[str]) -> list[Turn]:
    """Return honest work on some files: each is read, changed, and tested."""
    turns: list[Turn] = []
    for noun in nouns:
        path, lines = project.file(noun), project.lines(noun)
        swapped = [*project.lines(noun, 1)[:2], f"  // {noun} done" if "ts" in path else lines[2]]
        command = project.single.format(noun=noun)
        turns += [
            Turn(rng.choice(LOOKING), [coder.read(path, project.page(noun), rng.randint(2, 40))]),
            Turn(rng.choice(CHANGING), [coder.edit(path, lines[0], "\n".join(swapped))]),
            Turn(
                rng.choice(CHECKING),
                [coder.shell(rng, command, project.passed(rng, noun), 0)],
            ),
        ]
    return turns
