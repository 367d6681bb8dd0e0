"""Stories of calls that fail, in the words of different languages and services."""

from __future__ import annotations

from dataclasses import dataclass

from bench.loops.circles import Story, Tell
from bench.loops.story import Loop, repeat
from bench.loops.world import CHUNK, REQUEST, TOOK, Act, Round, World


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that fails: a command, or a tool of a service; `{a}` and `{b}` are names."""

    call: str
    says: str
    exit_code: int = 1
    remedy: str = ""
    """The command that removes the cause; a change of a file where there is none."""

    def act(self, a: str, b: str) -> Act:
        said = self.says.replace("{a}", a).replace("{b}", b)
        if " " in self.call:
            return Act("run", {"command": self.call.format(a=a, b=b)}, said, self.exit_code)
        return Act(self.call, {"name": a, "part": b}, said)


FAILURES = {
    "forbidden": Failure(
        "update_record",
        "403 Forbidden: this key may not change {b} of {a}",
        remedy="desk grant {a}",
    ),
    "unauthorized": Failure(
        "get_report",
        "HTTP 401 Unauthorized: the token for {a} has no scope {b}",
        remedy="desk login",
    ),
    "no_module": Failure(
        "python -m {a}.main",
        'Traceback (most recent call last):\n  File "<frozen runpy>", line 189, in _run\n'
        "ModuleNotFoundError: No module named '{a}'",
        remedy="pip install {a}",
    ),
    "success_false": Failure(
        "publish_entry",
        f"{{'success': False, 'reason': 'the quota of {{a}} is used up', 'ref': '{REQUEST}'}}",
        remedy="desk raise-quota {a}",
    ),
    "ok_false": Failure(
        "post_note",
        f'{{"ok": false, "error": "channel_not_found", "channel": "{{a}}", "trace": "{REQUEST}"}}',
        remedy="desk create-channel {a}",
    ),
    "in_words": Failure("run_job", "The job {a} ended with a non-zero status; {b} was not built."),
    "exit_status": Failure(
        "go generate ./{a}/...", 'main.go:12: running "{b}": exit status 1', remedy="go install {b}"
    ),
    "not_found": Failure(
        "{a} --build {b}", "bash: line 1: {a}: command not found", 127, "apt-get install -y {a}"
    ),
    "java": Failure(
        "java -jar build/{a}.jar",
        'Exception in thread "main" java.lang.NullPointerException: Cannot invoke "{b}.id()" '
        'because "{b}" is null\n\tat com.example.{a}.Main.run(Main.java:41)\n'
        "\tat com.example.{a}.Main.main(Main.java:17)",
    ),
    "go": Failure(
        "go run ./cmd/{a}",
        "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\n"
        "main.{b}(...)\n\t/src/cmd/{a}/main.go:88\nexit status 2",
        2,
    ),
    "rust": Failure(
        "cargo build -p {a}",
        "error[E0382]: borrow of moved value: `{b}`\n  --> crates/{a}/src/lib.rs:41:9\n   |\n"
        "41 |     {b}.len()\n   |     ^^^ value borrowed here after move\n\n"
        "error: could not compile `{a}` (lib) due to 1 previous error",
        101,
    ),
    "grpc": Failure(
        "list_shards", "rpc error: code = PermissionDenied desc = {a} may not read {b}"
    ),
    "sql": Failure(
        "psql -c 'select * from {a}'", 'ERROR:  relation "{a}" does not exist\nLINE 1: select *'
    ),
    "timeout": Failure(
        "sync_store", f"Error: connect ETIMEDOUT {{a}}.internal:5432 after {TOOK}s [{CHUNK}]"
    ),
}


def fails(which: str) -> Story:
    """One call that fails in one way, again and again."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        act = FAILURES[which].act(world.new_name(), world.noun())
        return repeat(world, [act], count, wording=wording, lead=lead)

    return story


def fails_and_looks(which: str) -> Story:
    """One call that fails in one way, with looks at the same places between."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        act = FAILURES[which].act(world.new_name(), world.noun())
        return repeat(world, [act, world.read(), act], count, wording=wording, lead=lead)

    return story


def is_remedied(which: str) -> Tell:
    """A call that fails in this way, what removes the cause, and the call that works; and on."""

    def story(world: World, count: int) -> list[Round]:
        failure = FAILURES[which]
        rounds: list[Round] = []
        while len(rounds) < count:
            a, b = world.new_name(), world.noun()
            broken = failure.act(a, b)
            remedy = world.edit()
            if failure.remedy:
                remedy = world.run(failure.remedy.format(a=a, b=b), f"done: {a}")
            worked = Act(broken.kind, broken.args, f"{a}: {world.sentence(6)}")
            rounds += [Round(world.say("go on"), [act]) for act in (broken, remedy, worked)]
        return rounds[:count]

    return story
