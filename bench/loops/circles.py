"""Stories of coding agents whose whole history shows the loop, and of honest ones like them.

A loop's story takes the world and how many rounds, and returns `(rounds, begins)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from bench.loops.story import Loop, opening, repeat
from bench.loops.world import TOOK, Act, Round, World

Story = Callable[..., Loop]
Tell = Callable[[World, int], list[Round]]


def go_on(
    world: World, count: int, lead: int, act: Callable[[int], Act], wording: str, first: int = 1
) -> Loop:
    """Return rounds whose act is made anew each time; the first so many bring something new."""
    rounds = opening(world, lead)
    said = world.say("try that")
    for index in range(count - lead):
        text = {"same": said, "none": ""}.get(wording) or world.say("try that", "check it again")
        rounds.append(Round("" if wording == "none" else text, [act(index)]))
    return rounds, lead + first


# reading, and nothing else


def looks_only(size: int) -> Story:
    """The same files, read again and again; nothing is done with them."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        acts = [world.read() for _ in range(size)]
        return repeat(world, acts, count, wording=wording, lead=lead)

    return story


def wasted_reads(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One file, read again and again, although the harness says that it did not change."""
    path = world.file()
    stub = (
        "Wasted call — file unchanged since your last Read. "
        "Refer to that earlier tool_result instead."
    )
    again = Act("Read", {"file_path": path}, stub)
    rounds, begins = repeat(world, [again], count, wording=wording, lead=lead)
    rounds[lead] = Round(rounds[lead].text, [world.read(path)])
    return rounds, begins + 1


def read_after_edit(world: World, count: int) -> list[Round]:
    """After each edit the same two files are read again, and are other than before."""
    paths, rounds = [world.file(), world.file()], []
    for index in range(count // 3):
        path = paths[index % 2]
        rounds += [
            Round(world.say("change the next place"), [world.edit(path)]),
            Round(world.say("look at the file"), [world.read(path)]),
            Round(world.say("look at the other"), [world.read(paths[1 - index % 2])]),
        ]
    return rounds


def edit_status_list(world: World, count: int) -> list[Round]:
    """A new edit of one file, then `git status` and `ls`, which say what they said before."""
    path, files = world.file(), world.listing()
    status = world.run("git status --short", f" M {path.removeprefix(world.root + '/')}")
    rounds: list[Round] = []
    for _ in range(max(12, count // 3)):
        acts = (world.edit(path), status, files)
        rounds += [Round(world.say("go on with the list"), [act]) for act in acts]
    return rounds


# checks


def _checks(world: World) -> list[Act]:
    test = {
        "py": ("python -m pytest -q", "ruff check .", "mypy src", "python -m build"),
        "ts": ("npm test", "npx eslint .", "npx tsc --noEmit", "npm run build"),
        "go": ("go test ./...", "golangci-lint run", "go vet ./...", "go build ./..."),
    }[world.language]
    said = (
        world.passing(),
        "All checks passed!",
        f"Success: no issues found in {world.rng.randint(12, 90)} files",
        f"Built in {TOOK}s",
    )
    return [world.run(command, output) for command, output in zip(test, said, strict=True)]


def idle_checks(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Test, lint, types and build, all fine, over and over; nothing was changed."""
    return repeat(world, _checks(world), count, wording=wording, lead=lead)


def checked_changes(world: World, count: int) -> list[Round]:
    """A change, and the same four checks, all fine, each time."""
    checks = _checks(world)
    rounds: list[Round] = []
    while len(rounds) < count:
        rounds.append(Round(world.say("make the next change"), [world.edit()]))
        rounds += [Round(world.say("check it"), [act]) for act in checks]
    return rounds[:count]


def checked_at_once(world: World, count: int) -> list[Round]:
    """A change, and the same four checks in one answer, all fine, twenty times or so."""
    checks, rounds = _checks(world), []
    for _ in range(max(20, count // 2)):
        rounds.append(Round(world.say("make the next change"), [world.edit()]))
        rounds.append(Round(world.say("check it"), checks))
    return rounds


# changes


def same_edit(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """The same edit, written again and again, and the failing test after it."""
    acts = [world.edit(), world.run(world.test_command(), world.failure(), 1)]
    return repeat(world, acts, count, wording=wording, lead=lead)


def edit_not_found(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """An edit whose old text is not in the file, then a look at the file, over and over."""
    path = world.file()
    wrong = Act("edit", world.edit(path).args, "Error: the text to replace was not found.")
    return repeat(world, [wrong, world.read(path)], count, wording=wording, lead=lead)


def eight_tries(world: World, count: int) -> list[Round]:
    """A failing report after each new change, eight times, then success; and the next bug."""
    rounds: list[Round] = []
    for _ in range(max(1, count // 18)):
        test, name, path = world.test_command(), world.new_name(), world.file()
        for _ in range(8):
            rounds.append(Round(world.say("change the next cause"), [world.edit(path)]))
            report = world.run(test, world.failure(name), 1)
            rounds.append(Round(world.say("run the test"), [report]))
        rounds.append(Round(world.say("repair the real cause"), [world.edit(path)]))
        rounds.append(Round(world.say("run the test"), [world.run(test, world.passing())]))
    return rounds


def stubborn_test(world: World, count: int) -> list[Round]:
    """One test that fails alike seven times while other places are edited; then it passes."""
    rounds: list[Round] = []
    for _ in range(max(1, count // 20)):
        test, failure = world.test_command(), world.failure()
        for _ in range(7):
            rounds.append(Round(world.say("try another place"), [world.edit()]))
            rounds.append(Round(world.say("run the test"), [world.run(test, failure, 1)]))
        rounds.append(Round(world.say("found it"), [world.edit()]))
        rounds.append(Round(world.say("run the test"), [world.run(test, world.passing())]))
        rounds += [Round(world.say("read on"), [world.read()]) for _ in range(4)]
    return rounds


# failures


def hammered(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """One failing call to the letter, again and again between variants that fail otherwise."""
    tool, target = world.new_name(), world.new_name()
    stuck = world.run(f"{tool} deploy {target}", f"{tool}: error: target {target} is locked", 1)
    others = [
        world.run(f"{tool} deploy {target} --{flag}", f"{tool}: error: {why}", 2)
        for flag, why in (
            ("force", "--force needs the role admin"),
            ("unlock", "unknown option --unlock"),
            ("retry=3", "gave up after 3 tries"),
            ("profile ci", "there is no profile ci"),
            ("no-lock", "option --no-lock was removed"),
        )
    ]
    acts = [act for other in others for act in (stuck, other)]
    rounds = opening(world, lead)
    while len(rounds) < count:
        rounds += [Round("" if wording == "none" else world.say("try"), [act]) for act in acts]
        world.rng.shuffle(others)
        acts = [act for other in others for act in (stuck, other)]
    return rounds[:count], lead + 2 * len(others)


def debugging(world: World, count: int) -> list[Round]:
    """Failures in a row, each of them new: one obstacle after the other is removed."""
    reasons = (
        "{a} has no {b}",
        "{b} of {a} is not set",
        "cannot open {a}/{b}",
        "{a} expects a {b}",
    )
    script, rounds = f"./{world.new_name()}.sh", []
    for index in range(count):
        why = world.rng.choice(reasons).format(a=world.new_name(), b=world.noun())
        if index % 3 == 2:
            act = world.edit()
        else:
            flags = f" --{world.noun()}={world.new_name()}"
            act = world.run(script + flags * (index % 2), f"{script}: error: {why}", 1)
        rounds.append(Round(world.say("remove that obstacle"), [act]))
    return rounds


def in_other_order(style: str) -> Story:
    """One call whose arguments are written otherwise each time: order, quotes, odd characters."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        rng, wanted = world.rng, world.new_name()
        flags = ["--hidden", "--line-number", "--ignore-case", "--no-heading", "--max-count=5"]
        words = [world.noun(), world.verb(), wanted, "release", "notes"]
        found = world.grep(wanted).result
        hits = json.dumps({"hits": [{"title": world.sentence(4), "url": world.url()}]})

        def act(_: int) -> Act:
            if style == "flags":
                told = " ".join(rng.sample(flags, len(flags)))
                return world.run(f"rg {told} {wanted} src/", found)
            if style == "quotes":
                mark = rng.choice(["'", '"', ""])
                space = " " * rng.randint(1, 4)
                return world.run(f"rg{space}-n {mark}{wanted}{mark}{space}src/", found)
            text = " ".join(rng.sample(words, len(words)) if style == "words" else words)
            if style == "zero_width":
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice("\u200b\u200c\u2060\ufeff") + text[at:]
            if style == "homoglyphs":
                for latin, cyrillic in rng.sample([*zip("aeocp", "аеоср", strict=True)], 3):
                    text = text.replace(latin, cyrillic, rng.randint(0, 3))
            return Act("search_docs", {"query": text, "limit": 10}, hits)

        return go_on(world, count, lead, act, wording)

    return story


def operands(world: World, count: int) -> list[Round]:
    """The same operands in another order, which is another question with another answer."""
    rounds: list[Round] = []
    while len(rounds) < count:
        one, other = f"{world.new_name()}.csv", f"{world.new_name()}.csv"
        for left, right in ((one, other), (other, one)):
            lines = "\n".join(f"< {world.sentence(5)}" for _ in range(world.rng.randint(1, 6)))
            act = world.run(f"comm -23 {left} {right}", lines)
            rounds.append(Round(world.say("see what only the first has"), [act]))
    return rounds[:count]


# long cycles


def long_cycle(size: int) -> Story:
    """A cycle of so many different calls, gone through again and again."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        acts = [world.run(world.test_command(), world.failure(), 1)]
        while len(acts) < size:
            acts.append(world.read() if world.rng.random() < 0.5 else world.grep())
        world.rng.shuffle(acts)
        return repeat(world, acts, count, wording=wording, lead=lead)

    return story


def checklist(size: int) -> Tell:
    """So many checks of one thing, then the same checks of the next."""

    def story(world: World, count: int) -> list[Round]:
        checks = [world.new_name() for _ in range(size)]
        rounds: list[Round] = []
        while len(rounds) < count:
            host = f"{world.new_name().replace('_', '-')}.example"
            for check in checks:
                state = world.rng.choice(["ok", "ok", "ok", f"warning: {world.sentence(5)}"])
                act = Act(f"check_{check}", {"host": host}, f"{host}: {state}")
                rounds.append(Round(world.say(f"check {host}"), [act]))
        return rounds[:count]

    return story


# words


def same_words(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """The same sentences beside each call, although small edits land and change nothing."""
    path, line = world.file(), world.edit().args["old"].split("\n")[0]
    said = world.prose(1 if wording == "none" else 2)
    said = f"{said} The timeout is the cause. I will adjust it and run the test again."
    test = world.run(world.test_command(), world.failure(), 1)
    rounds, value = opening(world, lead), world.rng.randint(20, 60)
    while len(rounds) < count:
        change = {"path": path, "old": f"{line} # {value}", "new": f"{line} # {value + 1}"}
        value += 1
        rounds += [Round(said, [Act("edit", change, "")]), Round(said, [test])]
    return rounds[:count], lead + 2


def similar_words(world: World, count: int) -> list[Round]:
    """Almost the same sentences beside each call, about ever other numbers and names."""
    rounds: list[Round] = []
    left = count // 2 + world.rng.randint(2, 9)
    while len(rounds) < count:
        left -= 1
        name = world.new_name()
        said = f"The next failure is in {name}; {left} are left. I will adjust it and test again."
        seen = f"FAILED tests/test_{world.new_name()}.py\n{left} failed in {TOOK}s"
        rounds.append(Round(said, [world.edit(f"{world.root}/src/{name}.py")]))
        rounds.append(Round(said, [world.run("make test", seen, 1)]))
    return rounds[:count]


# steps


def stuck_step(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Work in nine steps that is resumed again and again, and stays at its third."""
    name, part = world.new_name(), world.new_name()
    told = f"Resumed {name}: step 3 of 9 ({part}). Checked in {TOOK}s. Stopped at step 3 of 9."
    act = Act("resume_migration", {"name": name}, told)
    return repeat(world, [act], count, wording=wording, lead=lead)


def moving_steps(world: World, count: int) -> list[Round]:
    """Work in nine steps that is resumed again and again, and gets on."""
    rounds: list[Round] = []
    while len(rounds) < count:
        name = world.new_name()
        for step in range(1, 10):
            told = f"Resumed {name}: step {step} of 9 ({world.new_name()}). Stopped after it."
            act = Act("resume_migration", {"name": name}, told)
            rounds.append(Round(world.say("resume it"), [act]))
    return rounds[:count]


def _todos(titles: Sequence[str], done: int) -> dict[str, object]:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(titles)
    return {
        "todos": [{"content": t, "status": s} for t, s in zip(titles, states, strict=False)],
    }


def same_plan(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """The plan is written down again and again, and a file is read; nothing follows."""
    plan = Act("plan", _todos([world.sentence(5) for _ in range(5)], 1), "")
    return repeat(world, [plan, world.read()], count, wording=wording, lead=lead)


def kept_plan(world: World, count: int) -> list[Round]:
    """The plan is written down after each piece of work, one point further."""
    titles, rounds = [world.sentence(5) for _ in range(count)], []
    for done in range(count // 3):
        acts = (Act("plan", _todos(titles[: count // 3], done), ""), world.edit(), world.grep())
        rounds += [Round(world.say("work on the next point"), [act]) for act in acts]
    return rounds
