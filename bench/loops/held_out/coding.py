"""Stories of coding agents: each as a loop, as a twin that moves on, and as one that recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from random import Random

from bench.loops.form import Json
from bench.loops.held_out.coders import Coder
from bench.loops.held_out.editors import CODERS
from bench.loops.held_out.projects import CHANGING, CHECKING, LOOKING, PROJECTS, Project, stint
from bench.loops.held_out.run import Act, Label, Plot, Turn, single
from bench.loops.scenario import Scenario

Story = Callable[[Coder, Project, Random, str], Plot]

AGAIN = (
    "Let me try that again.",
    "I will run it once more.",
    "That did not work; trying again.",
    "Hmm, the same. Let me retry.",
    "Let me take another approach.",
    "",
    *CHANGING,
    *CHECKING,
)


def _plot(project: Project, turns: Sequence[Turn], end: str = "") -> Plot:
    last = [Turn(end)] if end else []

    def summary(number: int) -> str:
        paths = {path for turn in turns[:number] for act in turn.acts for path in _paths(act)}
        touched = ", ".join(sorted(paths))
        return f"Work on {project.name}. Touched so far: {touched}. Next: go on with the task."

    return Plot(project.task, [*turns, *last], summary)


def _paths(act: Act) -> Iterator[str]:
    for key in ("file_path", "filePath", "path"):
        if key in act.args:
            yield str(act.args[key]).rsplit("/", 1)[-1]


def _begin(coder: Coder, project: Project, rng: Random) -> list[Turn]:
    nouns = rng.sample(list(project.nouns[6:]), 3)
    return stint(coder, project, rng, nouns)[: rng.randint(2, 8)]


def _rest(coder: Coder, project: Project, rng: Random, few: int = 3, many: int = 5) -> list[Turn]:
    nouns = rng.sample(list(project.nouns[:6]), rng.randint(few, many))
    return stint(coder, project, rng, nouns)


def _round(
    makes: Sequence[Callable[[], Act]], rng: Random, count: int, at_once: int = 1
) -> list[Turn]:
    """Return turns that use some acts over and over, one or several in each answer."""
    acts = (make() for make in cycle(makes))
    return [Turn(rng.choice(AGAIN), list(islice(acts, at_once))) for _ in range(count)]


def _much(rng: Random) -> int:
    return rng.randint(25, 42)


def command(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """The same failing command again; or each time another thing that fails."""
    begin = _begin(coder, project, rng)

    def fail() -> Act:
        return coder.shell(rng, project.check, project.failure(rng), 1)

    if style == "loop":
        return _plot(project, begin + _round([fail], rng, _much(rng)))
    if style == "recovers":
        tried = _round([fail], rng, rng.randint(3, 4))
        found = coder.shell(rng, "git diff HEAD~1 --stat", f" {project.file('core')} | 12 +++--")
        fixed = coder.shell(rng, project.check, f"all good in {rng.uniform(1, 5):.2f}s")
        turns = [*begin, *tried, Turn("What changed lately?", [found]), Turn("", [fixed])]
        rest = _rest(coder, project, rng)
        return _plot(project, turns + rest, "It works now; all tests pass.")
    turns = []
    for noun in project.nouns:
        broken = f"FAILED {project.file(noun)}: {noun} is not what it should be\n1 failed"
        shown = coder.shell(rng, project.check, broken, 1)
        old, new = project.lines(noun)[0], "\n".join(project.lines(noun, 2))
        turns.append(Turn(rng.choice(CHECKING), [shown]))
        turns.append(Turn(rng.choice(CHANGING), [coder.edit(project.file(noun), old, new)]))
    return _plot(project, turns, "Every failure is fixed and the command passes.")


def unmatched_edit(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """Edits whose old text is never found; or that land one after another."""
    begin = _begin(coder, project, rng)
    noun = project.nouns[0]
    path, lines = project.file(noun), project.lines(noun)
    old, new = lines[0].replace("(", "( "), "\n".join(project.lines(noun, 4))

    def miss() -> Act:
        return coder.edit(path, old, new, fits=False)

    def look() -> Act:
        return coder.read(path, project.page(noun), 12)

    if style == "loop":
        makes = rng.choice([[miss], [miss, look], [miss, miss, look]])
        return _plot(project, begin + _round(makes, rng, _much(rng)))
    if style == "recovers":
        turns = [*begin, *_round([miss], rng, 3), Turn("It has no space there.", [look()])]
        turns.append(Turn("Now with the exact text.", [coder.edit(path, lines[0], new)]))
        rest = stint(coder, project, rng, project.nouns[1:5])
        return _plot(project, turns + rest, "All edits are in.")
    turns = list(begin)
    for part in range(rng.randint(15, 20)):
        was, now = project.lines(noun, part), project.lines(noun, part + 8)
        if part % 6 == 5:
            missed = coder.edit(path, was[0] + " ", now[0], fits=False)
            turns.append(Turn(rng.choice(CHANGING), [missed]))
            turns.append(Turn(rng.choice(LOOKING), [coder.read(path, was, part * 9 + 1)]))
        turns.append(Turn(rng.choice(CHANGING), [coder.edit(path, was[0], "\n".join(now))]))
    return _plot(project, turns, f"{path} is rewritten part by part.")


def same_error(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """The same error whatever is tried; or other errors, and an end."""
    begin = _begin(coder, project, rng)

    def attempt(line: str) -> Callable[[], Act]:
        return lambda: coder.shell(rng, line, project.failure(rng), 1)

    makes = [attempt(line) for line in project.tries]
    if style == "loop":
        return _plot(project, begin + _round(makes, rng, _much(rng)))
    if style == "recovers":
        turns = begin + _round(makes, rng, 4)
        turns.append(Turn("A setting.", [coder.shell(rng, "env | sort | head -3", "PROXY=off")]))
        good = f"{project.name}: fine after {rng.uniform(2, 8):.1f}s"
        turns.append(Turn("", [coder.shell(rng, f"PROXY=on {project.check}", good)]))
        return _plot(project, turns + _rest(coder, project, rng), "Solved: the proxy was off.")
    turns = list(begin)
    for line, noun in zip(cycle(project.tries), project.nouns, strict=False):
        said = f"error: {noun} is needed by {project.name} and is missing ({rng.randint(1, 99)} ms)"
        turns.append(Turn(rng.choice(CHECKING), [coder.shell(rng, line, said, 1)]))
        added = f"added {noun} {rng.randint(1, 9)}.{rng.randint(0, 20)}"
        turns.append(Turn("", [coder.shell(rng, f"make add-{noun}", added)]))
    return _plot(project, turns, "Everything that was missing is there; it runs.")


def back_and_forth(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """Two, three or six actions in turn, which show the same; or the same with changes between."""
    begin = _begin(coder, project, rng)
    nouns = project.nouns[:6]

    def read(noun: str) -> Callable[[], Act]:
        return lambda: coder.read(project.file(noun), project.page(noun), 30)

    def check() -> Act:
        return coder.shell(rng, project.check, project.failure(rng), 1)

    def state() -> Act:
        return coder.shell(rng, "git status --short", f" M {project.file(nouns[0])}")

    sizes = {2: [read(nouns[0]), check], 3: [read(nouns[0]), read(nouns[1]), check]}
    sizes[6] = [*(read(noun) for noun in nouns[:4]), state, check]
    if style == "loop":
        size = rng.choice((2, 3, 6))
        wide = 2 if size == 6 and coder.harness.flat is None else 1
        turns = begin + _round(sizes[size], rng, max(_much(rng), 26 + size), wide)
        return _plot(project, turns)
    turns = list(begin)
    if style == "recovers":
        turns += _round(sizes[2], rng, 6)
        return _plot(project, turns + _rest(coder, project, rng), "Found it and fixed it.")
    for part in range(11):
        noun = nouns[part % 2]
        shown = coder.read(project.file(noun), project.page(noun, part + 1), 30)
        turns.append(Turn(rng.choice(AGAIN), [shown]))
        changed = coder.edit(project.file(noun), *project.lines(noun, part + 1)[:2])
        turns.append(Turn(rng.choice(CHANGING), [changed]))
        left = [f"FAILED {noun}: {one}" for one in project.nouns[part:]]
        result = "\n".join(left) or "all pass"
        done = coder.shell(rng, project.check, result, 1 if left else 0)
        turns.append(Turn(rng.choice(CHECKING), [done]))
    return _plot(project, turns, "Both files agree now and the check passes.")


def red_test(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """An edit made and undone while the test stays red; or fewer failures each time."""
    begin = _begin(coder, project, rng)
    noun = project.nouns[1]
    path, one, two = project.file(noun), project.lines(noun)[0], project.lines(noun, 3)[0]

    def red() -> Act:
        return coder.shell(rng, project.check, project.failure(rng), 1)

    makes = [lambda: coder.edit(path, one, two), red, lambda: coder.edit(path, two, one), red]
    if style == "loop":
        return _plot(project, begin + _round(makes, rng, _much(rng) + 3))
    if style == "recovers":
        turns = begin + _round(makes, rng, 6)
        other = coder.edit(project.file("rounding"), "half_up", "half_even")
        turns.append(Turn("It is not here. The cause is elsewhere.", [other]))
        green = coder.shell(rng, project.check, f"ok, all pass in {rng.uniform(1, 4):.2f}s")
        turns.append(Turn("", [green]))
        return _plot(project, turns + _rest(coder, project, rng), "Green.")
    turns = list(begin)
    for part in range(11):
        changed = coder.edit(path, project.lines(noun, part)[0], project.lines(noun, part + 9)[0])
        left = [f"FAILED test_{noun}_{word}" for word in project.nouns[part:]]
        total = f"{len(left)} failed, {40 - len(left)} passed in {rng.uniform(1, 4):.2f}s"
        result = coder.shell(rng, project.check, "\n".join([*left, total]), 1 if left else 0)
        turns += [Turn(rng.choice(CHANGING), [changed]), Turn(rng.choice(CHECKING), [result])]
    return _plot(project, turns, "No test fails any more.")


def search(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """Searches with the same few hits or none; or each with new ones."""
    begin = _begin(coder, project, rng)
    words = ["retry_policy", "RetryPolicy", "retry.policy", "policy.*retry", "retryPolicy"]
    hits = [f"docs/notes.md:{rng.randint(3, 90)}: the retry policy is set elsewhere"]

    def look(word: str, found: Sequence[str]) -> Callable[[], Act]:
        return lambda: coder.search(word, found)

    makes = [look(word, hits if at % 2 else []) for at, word in enumerate(words)]
    if style == "loop":
        return _plot(project, begin + _round(makes, rng, _much(rng) + 3))
    if style == "recovers":
        turns = begin + _round(makes, rng, 4)
        found = [f"{project.file('backoff')}:7: def give_up_after(times)"]
        turns.append(Turn("It may have another name.", [coder.search("give_up", found)]))
        return _plot(project, turns + _rest(coder, project, rng), "Found and changed.")
    turns = list(begin)
    for noun in project.nouns:
        for part in range(2):
            line = project.lines(noun, part * 3)[0].strip()
            found = [f"{project.file(noun)}:{rng.randint(5, 300)}: {line}"]
            turns.append(Turn("", [coder.search(line.split("(")[0], found)]))
    return _plot(project, turns, "I have a list of all places that use it.")


def reading(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """The same parts of a file read over and over; or one part after another."""
    begin = _begin(coder, project, rng)
    noun = project.nouns[2]

    def part(number: int) -> Callable[[], Act]:
        lines = project.page(noun, number)
        return lambda: coder.read(project.file(noun), lines, number * 200 + 1)

    def window(page: Sequence[str], start: int) -> Callable[[], Act]:
        return lambda: coder.read(project.file(noun), page[start : start + 11], start + 1)

    if style == "loop":
        makes = [part(number) for number in range(rng.randint(1, 4))]
        if len(makes) == 1:  # windows that overlap
            page = project.page(noun)
            makes = [window(page, start) for start in (0, 3, 1, 4, 2)]
        return _plot(project, begin + _round(makes, rng, _much(rng) + 3))
    if style == "recovers":
        turns = begin + _round([part(0)], rng, 4)
        return _plot(project, turns + _rest(coder, project, rng), "Done.")
    turns = begin + [Turn(rng.choice(LOOKING), [part(number)()]) for number in range(24)]
    return _plot(project, turns, "I have read the whole file; this is what it does: it decodes.")


def missing_tool(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """A tool that does not exist; or, after a few tries, one that does."""
    begin = _begin(coder, project, rng)
    asked = ["run_tests", "execute_tests", "repo_browser.open_file"]

    def call() -> Act:
        name = asked[0] if rng.random() < 0.7 else rng.choice(asked[:2])
        args: Json = {"path": project.folder, "verbose": rng.choice(["true", "false"])}
        return coder.unknown(name, args)

    wrong = [coder.unknown(name, {"path": project.folder, "verbose": "true"}) for name in asked[:2]]
    first = [Turn(rng.choice(AGAIN), [one]) for one in wrong]
    if style == "loop":
        return _plot(project, begin + first + _round([call], rng, _much(rng)))
    tried = first + _round([call], rng, 2 if style == "recovers" else 1)
    rest = _rest(coder, project, rng, 4, 6)
    return _plot(project, begin + tried + rest, "Done with the tools that there are.")


def bad_arguments(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """A call that lacks an argument each time; or that is put right."""
    begin = _begin(coder, project, rng)
    noun = project.nouns[3]
    good = coder.edit(project.file(noun), project.lines(noun)[0], project.lines(noun, 5)[0])
    key = next((key for key in good.args if "new" in key or key == "diff"), "patch")
    args = {name: value for name, value in good.args.items() if name != key}
    said = f"Invalid arguments for {good.name}: the required parameter '{key}' is missing."

    def call() -> Act:
        return Act(good.name, args or {"input": "*** Begin"}, said)

    if style == "loop":
        return _plot(project, begin + _round([call], rng, _much(rng)))
    tried = _round([call], rng, 4 if style == "recovers" else 2)
    turns = [*begin, *tried, Turn("With all arguments now.", [good])]
    return _plot(project, turns + _rest(coder, project, rng, 4, 6), "The edits are in.")


def resumed(coder: Coder, project: Project, rng: Random, style: str) -> Plot:
    """The same files read and the same edit missed after each cut; or the next files."""
    begin = stint(coder, project, rng, project.nouns[9:])[:3]
    nouns = project.nouns[:6]
    if style == "loop":
        old = project.lines(nouns[0])[0] + "  "

        def look_at(noun: str) -> Callable[[], Act]:
            return lambda: coder.read(project.file(noun), project.page(noun), 5)

        makes = [look_at(noun) for noun in nouns[: rng.randint(3, 6)]]
        makes.append(lambda: coder.edit(project.file(nouns[0]), old, "pass", fits=False))
        makes.append(lambda: coder.shell(rng, project.check, project.failure(rng), 1))
        return _plot(project, begin + _round(makes, rng, rng.randint(34, 46)))
    turns = begin + stint(coder, project, rng, rng.sample(list(nouns), 6))
    if style == "recovers":
        again = project.nouns[0]
        look = coder.read(project.file(again), project.page(again), 5)
        turns[9:9] = [Turn("It was cleared; reading it again.", [look]) for _ in range(3)]
        check = coder.shell(rng, project.check, project.failure(rng), 1)
        turns[15:15] = [Turn(rng.choice(AGAIN), [check]) for _ in range(3)]
    return _plot(project, turns, "All six are ported, and what failed is fixed.")


STORIES: dict[str, Story] = {
    "failing command": command,
    "unmatched edit": unmatched_edit,
    "same error": same_error,
    "back and forth": back_and_forth,
    "red test": red_test,
    "code search": search,
    "re-reading": reading,
    "missing tool": missing_tool,
    "bad arguments": bad_arguments,
}
CUTS = ("compacted", "trimmed", "elided")
CUT_STORIES: tuple[Story, ...] = (resumed, red_test, resumed, unmatched_edit)
HARD = {"back and forth", "red test", "compacted", "elided", "trimmed", "kept", "same error"}
EASY = {"failing command", "missing tool", "bad arguments"}


def level(kind: str, style: str) -> str:
    """Return how hard it is to tell a run of this kind from its twin."""
    if kind in EASY and style != "recovers":
        return "easy"
    return "hard" if kind in HARD or style == "recovers" else "medium"


def _tell(
    seed: int, kind: str, number: int, coder: Coder, style: str, story: Story, shows: str
) -> Scenario:
    place = coder.harness.name.lower().replace(" ", "-")
    name = f"{kind.replace(' ', '-')}/{number}-{place}-{style}"
    rng = Random(f"{seed}/{name}")
    project = PROJECTS[(number * 2 + len(kind)) % len(PROJECTS)]
    label = Label(name, kind, style == "loop", shows, level(kind, style))
    return single(label, coder.harness, story(coder, project, rng, style), rng)


def scenarios(seed: int) -> list[Scenario]:
    """Return the runs of coding agents."""
    made: list[Scenario] = []
    for at, kind in enumerate([*STORIES, *CUTS]):
        shows = kind if kind in CUTS else "whole"
        apt = CODERS[:8] if kind in ("missing tool", "bad arguments") else CODERS
        styles = ["loop", "moves"]
        for number in range(4):
            coder = apt[(at * 4 + number * 2) % len(apt)]
            story = CUT_STORIES[number] if kind in CUTS else STORIES[kind]
            more = ["recovers"] if number % 2 else []
            made += [
                _tell(seed, kind, number, coder, style, story, shows) for style in styles + more
            ]
    codex = CODERS[1]
    for number, story in enumerate((command, red_test, search, unmatched_edit)):
        for style in ("loop", "moves", "recovers")[: 2 + number % 2]:
            made.append(_tell(seed, "kept", number, codex, style, story, "kept"))
    return made
