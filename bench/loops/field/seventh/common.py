"""What the templates of the set share: its register, words, repositories and outputs of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench.loops.field.cast import FORMS, Act, grep, read, sh
from bench.loops.field.run import LOOP, Chat, Half, Run

half = Half("seventh")

CODERS = "claude-code codex gemini-cli openhands swe-agent qwen-code opencode mini-swe-agent cline"

_VERBS = "parse resolve merge render load encode normalise schedule collect split flush match"
_NOUNS = (
    "header config token window offset schema cookie record interval locale manifest query chunk "
    "cursor bundle ticket region digest segment channel"
)
_PROJECTS = (
    "harbour quillet tessera brindle marlow fennel osprey lattice corvid pumice halyard sorrel "
    "thistle wicket gannet plover mica bramble kestrel juniper"
)
FIRST = "Mia Yusuf Sofia Raj Ivan Aarav Chen Olivia Noah Lucas Amelia Harper Omar Fatima Daiki Ana"
LAST = "Garcia Kim Silva Patel Muller Nguyen Davis Lopez Santos Khan Rossi Johnson Brown Ito Okafor"


_LEADS = "Okay.|Right.|Hmm.|Alright.|OK.|I see.|Well.|Understood."


def words(run: Run, *parts: Sequence[str], quiet: float = 0.15) -> str:
    """Return a sentence of a choice for each part, or nothing, as models often do."""
    if run.chance.random() < quiet:
        return ""
    said = run.mix(*parts).strip()
    if said and run.chance.random() < 0.12:
        said = f"{run.pick(*_LEADS.split('|'))} {said}"
    return said


_LOOKS = ("ls", "cat", "head", "grep", "git log", "git status", "wc", "tail", "sed -n")
_ASKS_ONLY = ("get_", "search", "list_", "find_", "open_page", "people_", "drive_search", "mail_")


def _looks_only(act: Act) -> bool:
    """Return whether something can be done twice without harm."""
    if act.verb == "sh":
        return str(act.args["cmd"]).startswith(_LOOKS)
    if act.verb == "tool":
        return act.kind.startswith(_ASKS_ONLY)
    return act.verb in ("read", "grep")


def _with_why(act: Act) -> Act:
    if act.verb != "sh" or not str(act.args["why"]).startswith("Run cd"):
        return act
    tests = any(one in act.args["cmd"] for one in ("pytest", "go test", "npm", "cargo", "mvn"))
    why = "Run the tests" if tests else "Look at the result"
    return act._replace(args={**act.args, "why": why})


class Talk(Chat):
    """A conversation with the small repetitions that any run has."""

    def __init__(self, run: Run, way: str, system: str, calm: bool) -> None:
        super().__init__(run, FORMS[run.form], system)
        self.is_loop, self.calm = way == LOOP, calm
        self.texts: dict[str, str] = {}
        self.seen: list[Act] = []

    def amend(self, at: Repo, name: str) -> tuple[str, str]:
        """Return a function as it is now, and as the next edit leaves it."""
        text = text_of(self.run, at, at.files[0])
        found = [part for part in text.split("\n\n") if name in part]
        old = self.texts.get(name) or (found[0] if found else body(self.run, at.lang, name))
        new = changed(self.run, at.lang, old.rstrip())
        self.texts[name] = new
        return old.rstrip(), new

    def act(self, say: str, *acts: Act) -> None:
        run = self.run
        acts = tuple(_with_why(act) for act in acts)
        if self.calm:
            super().act(say, *acts)
            return
        if self.is_loop and run.begun is not None and self.seen and run.chance.random() < 0.06:
            aside = "Let me look at this again.|First, once more:|Back to the beginning.||Wait."
            super().act(run.mix(aside), run.pick(*self.seen))
        super().act(say, *acts)
        if acts[0].verb in ("edit", "write"):
            path = acts[0].args["path"].rsplit("/", 1)[-1]
            self.seen = [one for one in self.seen if path not in str(one.args)]
        if not _looks_only(acts[0]):
            return
        if run.begun is None:
            self.seen.append(acts[0])
        if not self.is_loop and run.chance.random() < 0.05:
            super().act(run.mix("Once more.|Let me see that again.||What was it?"), acts[0])


def talk(run: Run, way: str, system: str = "", calm: bool = False) -> Talk:
    """Return a conversation; a calm one has no small repetitions of its own."""
    return Talk(run, way, system, calm)


def after(number: int, bank: str) -> str:
    """Return a bank of phrases on what came before, or none where nothing did."""
    return bank if number else ""


_KINDS = (
    "folding walnut ceramic waterproof compact striped cordless vintage organic padded brushed "
    "insulated adjustable wireless enamel linen"
)
_GOODS = (
    "desk lamp|water bottle|backpack|office chair|kettle|bookshelf|rain jacket|headphones|garden "
    "hose|cutting board|bicycle light|yoga mat|floor mirror|coffee grinder|wall clock|tent|toolbox"
)
_THEMES = (
    "invoice travel parking badge visitor payroll printer laptop meeting-room newsletter holiday "
    "expense contract supplier password onboarding delivery insurance"
)
_MATTERS = "form request list export approval template reminder policy limit overview account fee"


def goods(run: Run) -> str:
    """Return something that a shop sells."""
    return f"{run.pick(*_KINDS.split())} {run.pick(*_GOODS.split('|'))}"


def matter(run: Run) -> str:
    """Return something that an office deals with."""
    return f"{run.pick(*_THEMES.split())} {run.pick(*_MATTERS.split())}"


def sentence(run: Run) -> str:
    """Return a sentence of a guide."""
    one, other = matter(run), matter(run)
    return run.pick(
        f"The {one} is due within {run.num(2, 30)} days.",
        f"Ask {person(run)} for the {one} before you start the {other}.",
        f"Keep each {one} for {run.num(2, 60)} months, and the {other} for a year.",
        f"A {one} has up to {run.num(3, 40)} items; more of them need a second {other}.",
        f"Without a {one}, the {other} goes back to {person(run)}.",
        f"About {run.num(5, 95)}% of all cases need no {one} at all.",
    )


def slug(run: Run) -> str:
    """Return the end of an address."""
    return matter(run).replace(" ", "-")


def section(run: Run) -> str:
    """Return the name of a part of a site."""
    names = (
        "Orders Reports Catalogue Customers Projects Members Issues Wiki Marketing Stores Content "
        "Bookings Help News Downloads Events Jobs Partners"
    )
    which = run.pick("All", "My", "New", "Open", "Recent", "Archived")
    return f"{which} {run.pick(*names.split())}"


def person(run: Run) -> str:
    return f"{run.pick(*FIRST.split())} {run.pick(*LAST.split())}"


def snake(run: Run) -> str:
    return f"{run.pick(*_VERBS.split())}_{run.pick(*_NOUNS.split())}"


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(one.capitalize() for one in rest)


def pascal(name: str) -> str:
    return "".join(one.capitalize() for one in name.split("_"))


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository that an agent repairs."""

    lang: str
    name: str
    root: str
    files: tuple[str, ...]
    test: str
    func: str
    """The function with the fault, as its language writes names."""
    others: tuple[str, ...]
    cls: str


_LAYOUT = {
    "python": ("{name}/{mod}.py", "tests/test_{mod}.py"),
    "java": ("src/main/java/org/{name}/{cls}.java", "src/test/java/org/{name}/{cls}Test.java"),
    "typescript": ("packages/{name}/src/{mod}.ts", "packages/{name}/test/{mod}.test.ts"),
    "go": ("internal/{mod}/{mod}.go", "internal/{mod}/{mod}_test.go"),
    "rust": ("crates/{name}/src/{mod}.rs", "crates/{name}/tests/{mod}.rs"),
    "cpp": ("src/{mod}.cpp", "tests/{mod}_test.cpp"),
}


def repo(run: Run, lang: str) -> Repo:
    """Draw a repository in a language."""
    name = run.pick(*_PROJECTS.split())
    source, test = _LAYOUT[lang]
    nouns = run.some(_NOUNS.split(), 8)
    fill = [{"name": name, "mod": noun, "cls": noun.capitalize()} for noun in nouns]
    names = list(dict.fromkeys(snake(run) for _ in range(14)))[:7]
    style = {"java": camel, "typescript": camel, "go": pascal}.get(lang, str)
    func, *others = (style(one) for one in names)
    root = run.pick(f"/workspace/{name}", f"/app/{name}", f"/home/dev/{name}", "/testbed")
    root = "/testbed" if lang == "python" else root
    files = tuple(source.format(**one) for one in fill)
    return Repo(
        lang, name, root, files, test.format(**fill[0]), func, tuple(others), pascal(nouns[0])
    )


_BODIES = {
    "python": (
        "def {f}(self, {a}, *, strict=False):\n    if {a} is None:\n        return {n}\n"
        "    found = self._index.get({a})\n    if found is None and strict:\n"
        '        raise KeyError(f"unknown {a}: {{{a}!r}}")\n    return found or {n}\n',
        "def {f}({a}, limit={n}):\n    out = []\n    for pos, item in enumerate({a}):\n"
        "        if pos >= limit:\n            break\n        out.append(item.strip())\n"
        "    return tuple(out)\n",
        "def {f}(self):\n    with self._lock:\n        return self._{a}[-{n}:]\n",
        "def {f}({a}: str) -> dict[str, str]:\n    pairs = (part.partition('=') for part in "
        "{a}.split(';'))\n    return {{key.strip(): value for key, _, value in pairs}}\n",
    ),
    "java": (
        "    public Optional<String> {f}(final Map<String, String> {a}) {{\n"
        "        if ({a} == null || {a}.size() < {n}) {{\n            return Optional.empty();\n"
        "        }}\n        return {a}.values().stream().filter(Objects::nonNull).findFirst();\n"
        "    }}\n",
        "    int {f}(int {a}) {{\n        int total = {n};\n        for (Entry e : entries) {{\n"
        "            total += e.weight() * {a};\n        }}\n        return total;\n    }}\n",
        "    @Override\n    public void {f}(Context {a}) throws IOException {{\n"
        "        {a}.writer().append(buffer, 0, {n});\n        {a}.commit();\n    }}\n",
    ),
    "typescript": (
        "export function {f}({a}: string[], limit = {n}): string[] {{\n"
        "  return {a}.filter(Boolean).slice(0, limit);\n}}\n",
        "export async function {f}({a}: Request): Promise<Result> {{\n"
        "  const found = await store.get({a}.id);\n  if (!found) return {{ ok: false, code: {n} }};"
        "\n  return {{ ok: true, value: found }};\n}}\n",
        "const {f} = ({a}: Node): Node | undefined =>\n"
        "  {a}.children.find((one) => one.depth > {n}) ?? {a}.parent;\n",
    ),
    "go": (
        "func (s *Store) {f}({a} string) (int, error) {{\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n"
        "\tv, ok := s.items[{a}]\n\tif !ok {{\n\t\treturn {n}, ErrNotFound\n\t}}\n"
        "\treturn v.Size, nil\n}}\n",
        "func {f}(ctx context.Context, {a} []byte) ([]byte, error) {{\n"
        "\tif len({a}) < {n} {{\n\t\treturn nil, io.ErrUnexpectedEOF\n\t}}\n"
        "\treturn append([]byte(nil), {a}[{n}:]...), nil\n}}\n",
    ),
    "rust": (
        "pub fn {f}({a}: &str) -> Result<Vec<u8>, Error> {{\n    let mut out = "
        "Vec::with_capacity({n});\n    for byte in {a}.bytes() {{\n        out.push(byte);\n    }}"
        "\n    Ok(out)\n}}\n",
        "impl Table {{\n    fn {f}(&mut self, {a}: usize) -> Option<&mut Row> {{\n"
        "        if {a} > {n} {{\n            return None;\n        }}\n"
        "        self.rows.get_mut({a})\n    }}\n}}\n",
    ),
    "cpp": (
        "std::size_t {f}(const std::string& {a}) {{\n  if ({a}.size() < {n}) return 0;\n"
        "  return std::hash<std::string>{{}}({a});\n}}\n",
        "bool Table::{f}(int {a}) {{\n  std::lock_guard<std::mutex> guard(mutex_);\n"
        "  auto it = rows_.find({a});\n  if (it == rows_.end()) return false;\n"
        "  it->second.touched = {n};\n  return true;\n}}\n",
    ),
}
_HEADS = {
    "python": "from __future__ import annotations\n\nimport logging\n\nlog = logging.getLogger()\n",
    "java": "package org.example;\n\nimport java.io.IOException;\nimport java.util.*;\n",
    "typescript": "import { store } from './store';\nimport type { Node, Result } from "
    "'./types';\n",
    "go": 'package store\n\nimport (\n\t"context"\n\t"io"\n)\n',
    "rust": "use crate::error::Error;\nuse std::collections::HashMap;\n",
    "cpp": '#include "table.h"\n\n#include <mutex>\n#include <string>\n',
}


def body(run: Run, lang: str, name: str) -> str:
    """Return the source of one function."""
    noun = run.pick(*_NOUNS.split())
    return run.pick(*_BODIES[lang]).format(f=name, a=noun, n=run.num(2, 64))


def source(run: Run, at: Repo, number: int = 4, name: str = "") -> str:
    """Return the source of one file."""
    style = {"java": camel, "typescript": camel, "go": pascal}.get(at.lang, str)
    names = [name or style(snake(run)), *(style(snake(run)) for _ in range(number - 1))]
    return "\n".join([_HEADS[at.lang], *(body(run, at.lang, one) for one in names)])


_GUARDS = {
    "python": "    if not {}:\n        return None",
    "java": "        if ({} == null) {{\n            return;\n        }}",
    "typescript": "  if ({} === undefined) return undefined;",
    "go": '\tif {} == "" {{\n\t\treturn 0, ErrEmpty\n\t}}',
    "rust": "    if {}.is_empty() {{\n        return Ok(vec![]);\n    }}",
    "cpp": "  if ({}.empty()) return {{}};",
}


def change(run: Run, lang: str, name: str) -> tuple[str, str]:
    """Return one function before and after a change."""
    old = body(run, lang, name).rstrip()
    return old, changed(run, lang, old)


def changed(run: Run, lang: str, old: str) -> str:
    """Return a function with another guard, or with other numbers in it."""
    first, *rest = old.split("\n")
    guard = _GUARDS[lang].format(run.pick(*_NOUNS.split())).split("\n")
    size = len(guard)
    if rest[1:size] == guard[1:] and size > 1:
        before, rest = rest[:size], rest[size:]
    else:
        before = []
    if run.chance.random() < 0.65:
        return "\n".join([first, *guard, *rest])
    numbers = "".join(str(run.num(1, 9)) if c.isdigit() else c for c in "\n".join(rest))
    other = run.pick(*_NOUNS.split())
    lines = [*before, numbers] if before else [*guard, numbers]
    return "\n".join([first, *lines]).replace("found", other)


def text_of(run: Run, at: Repo, path: str, number: int = 5) -> str:
    """Return the text of a file, the same each time."""
    own = Run(run.form, Random(f"{run.session}{path}"))
    return source(own, at, number, at.func if path == at.files[0] else "")


_ISSUES = (
    "{func} returns a wrong result when the {noun} is empty|"
    "{func}() drops the last {noun} since {version}|"
    "Regression: {func} ignores the {noun} option|"
    "{cls}: {func} raises on a {noun} with non-ASCII characters|"
    "{func} and a nested {noun}: order is not kept"
)
_DETAILS = (
    "Steps to reproduce: call it with two of them, the second one blank. Expected: both are kept. "
    "Actual: the second one is lost.|It worked in the release before. I bisected it to the "
    "refactoring of the {noun} code but could not see what is wrong.|Our users hit this in "
    "production about once a day. A minimal example is in the attached test.|The documentation "
    "says that the {noun} wins, but the code does the opposite."
)
_ASKS = (
    "<uploaded_files>\n{root}\n</uploaded_files>\nI've uploaded a repository. Consider this issue:"
    "\n\n<issue>\n{issue}\n\n{detail}\n</issue>\n\nImplement the changes so that the issue is "
    "resolved. Tests need no change. Make the minimal changes to non-test files.|"
    "We're solving this issue in {root}:\n\nISSUE: {issue}\n{detail}\n\nWhen you are satisfied "
    "with your changes, submit.|"
    "{issue}\n\n{detail}\n\nPlease fix it in {root} and make sure that {test} passes.|"
    "fix this pls, repo is {root}: {issue}. {detail}"
)


def ask(run: Run, at: Repo) -> str:
    """Return the words of a user who wants an issue fixed."""
    fill = {"noun": run.pick(*_NOUNS.split()), "func": at.func, "cls": at.cls, "root": at.root}
    fill |= {"version": f"{run.num(1, 5)}.{run.num(0, 19)}", "test": at.test}
    issue = run.pick(*_ISSUES.split("|")).format(**fill)
    detail = run.pick(*_DETAILS.split("|")).format(**fill)
    return run.pick(*_ASKS.split("|")).format(issue=issue, detail=detail, **fill)


def hits(run: Run, at: Repo, pattern: str, number: int = 0) -> str:
    """Return lines that grep found."""
    lines = []
    for _ in range(number or run.num(2, 7)):
        call = run.pick(f"{pattern}(value)", f"result = {pattern}(item)", f"# see {pattern}")
        lines.append(f"{run.pick(*at.files)}:{run.num(9, 480)}:    {call}")
    return "\n".join(lines)


def listing(run: Run, names: Sequence[str]) -> str:
    """Return what `ls -la` prints."""
    lines = [f"total {run.num(40, 400)}"]
    for name in names:
        mode = "-rw-r--r--" if "." in name else "drwxr-xr-x"
        size = run.num(90, 48_000)
        lines.append(f"{mode} 1 root root {size:6} {run.stamp('%b %d %H:%M')} {name}")
    return "\n".join(lines)


def git_log(run: Run, number: int = 5) -> str:
    what = "Fix a typo in the docs|Bump dependencies|Refactor the {n} code|Add a test for {n}"
    return "\n".join(
        f"{run.hex(7)} {run.mix(what).format(n=run.pick(*_NOUNS.split()))}" for _ in range(number)
    )


def explore(run: Run, chat: Chat, at: Repo, least: int = 4, most: int = 10) -> None:
    """Look round in a repository: each step shows something else."""
    doings: list[tuple[str, Act]] = [
        (
            "Let me look at the layout first.|I'll start with the structure.|",
            sh(f"ls -la {at.root}", listing(run, ("README.md", "docs", "tests", at.name))),
        ),
        (
            f"Where is {at.func} used?|Searching for {at.func}.|Let me find the function.",
            grep(at.func, hits(run, at, at.func)),
        ),
        (
            "Now the code itself.|Let me read the file with the fault.|",
            read(f"{at.root}/{at.files[0]}", text_of(run, at, at.files[0])),
        ),
        (
            "What do the tests expect?|Now the tests.|Let me see the existing tests.",
            read(f"{at.root}/{at.test}", text_of(run, at, at.test, 3)),
        ),
        (
            "What changed here lately?|Let me check the history.|",
            sh(f"git log --oneline -{run.num(5, 8)} -- {at.files[0]}", git_log(run, run.num(5, 8))),
        ),
    ]
    for path in at.files[1:]:
        say = f"{path.rsplit('/', 1)[-1]} is called from there.|This one may matter too.||Next file"
        doings.append((say, read(f"{at.root}/{path}", text_of(run, at, path))))
    doings += [
        (f"And {name}?|Let me trace {name}.|", grep(name, hits(run, at, name)))
        for name in at.others[:3]
    ]
    wanted = run.num(least, most)
    if least < 7:
        rest = doings[3:]
        run.chance.shuffle(rest)
        doings = doings[:3] + rest
    for say, act in doings[:wanted]:
        chat.act(run.mix(say), act)


def _failure(run: Run, path: str, name: str, error: str) -> str:
    """Return what pytest shows of one failed test, the same for the same failure."""
    own = Run(run.form, Random(f"{run.session}{name}"))
    line, noun = own.num(20, 400), own.pick(*_NOUNS.split())
    code = own.pick(
        f"    def {name}(tmp_path):\n        store = Store(tmp_path)\n>       assert "
        f"store.{snake(own)}('{noun}') == expected",
        f"    def {name}(client):\n        {noun} = client.{snake(own)}({own.num(1, 90)})\n"
        f">       check({noun})",
        f"    @pytest.mark.parametrize('{noun}', CASES)\n    def {name}({noun}):\n"
        f">       result = {snake(own)}({noun}, strict=True)",
    )
    return (
        f"_____________________________ {name} _____________________________\n\n{code}\n"
        f"E       {error}\n\n{path}:{line}: {error.split(':')[0]}"
    )


def pytest_out(run: Run, path: str, passed: int, failed: Sequence[tuple[str, str]] = ()) -> str:
    """Return what pytest prints: of each failed test its name and its error."""
    marks = list("." * passed + "F" * len(failed))
    run.chance.shuffle(marks)
    total, seconds = len(marks), run.dec(0.21, 4.8)
    head = (
        "============================= test session starts ==============================\n"
        f"platform linux -- Python 3.11.9, pytest-8.3.{run.num(2, 4)}, pluggy-1.5.0\n"
        f"rootdir: /testbed\ncollected {total} items\n\n{path} {''.join(marks)}  [100%]\n"
    )
    if not failed:
        return f"{head}\n============================== {passed} passed in {seconds}s ===="
    parts = [_failure(run, path, name, error) for name, error in failed[:6]]
    short = "\n".join(f"FAILED {path}::{name} - {error}" for name, error in failed)
    blocks = "\n".join(parts)
    return (
        f"{head}\n=================================== FAILURES ========================\n{blocks}\n"
        f"=========================== short test summary info ============================\n{short}"
        f"\n========================= {len(failed)} failed, {passed} passed in {seconds}s ====="
    )


def go_out(run: Run, package: str, failed: Sequence[tuple[str, str]] = ()) -> str:
    seconds = f"{run.dec(0.004, 2.2, 3):.3f}s"
    if not failed:
        return f"ok  \t{package}\t{seconds}"
    lines = [f"--- FAIL: {name} ({run.dec(0.0, 0.3):.2f}s)\n    {error}" for name, error in failed]
    return "\n".join([*lines, "FAIL", f"FAIL\t{package}\t{seconds}", "FAIL"])


def cargo_out(run: Run, crate: str, errors: Sequence[str] = (), passed: int = 0) -> str:
    head = f"   Compiling {crate} v0.{run.num(1, 9)}.{run.num(0, 9)}"
    if errors:
        noun = "error" if len(errors) == 1 else f"{len(errors)} previous errors"
        end = f"error: could not compile `{crate}` (lib) due to {noun}"
        return "\n\n".join([head, *errors, end])
    seconds = run.dec(0.4, 9.0)
    return (
        f"{head}\n    Finished `test` profile [unoptimized + debuginfo] target(s) in {seconds}s\n"
        f"     Running unittests src/lib.rs (target/debug/deps/{crate}-{run.hex(16)})\n\n"
        f"test result: ok. {passed} passed; 0 failed; 0 ignored; finished in {run.dec(0, 1.5)}s"
    )


def jest_out(run: Run, path: str, passed: int, failed: Sequence[tuple[str, str]] = ()) -> str:
    lines = [f"{'FAIL' if failed else 'PASS'} {path} ({run.dec(1.1, 6.4)} s)"]
    for name, error in failed:
        lines.append(f"  ● {name}\n\n    {error}\n\n      at Object.<anonymous> ({path}:{41}:24)")
    bad = f"{len(failed)} failed, " if failed else ""
    total = passed + len(failed)
    lines.append(f"Tests:       {bad}{passed} passed, {total} total")
    lines.append(f"Time:        {run.dec(1.5, 7.5, 3)} s\nRan all test suites matching /{path}/i.")
    return "\n".join(lines)


def mvn_out(run: Run, lines: Sequence[str], good: bool = False) -> str:
    state = "BUILD SUCCESS" if good else "BUILD FAILURE"
    mark = "[INFO]" if good else "[ERROR]"
    rule = "[INFO] " + "-" * 72
    inner = "\n".join(f"{mark} {line}" for line in lines)
    return (
        f"[INFO] Scanning for projects...\n{rule}\n{inner}\n{rule}\n[INFO] {state}\n{rule}\n"
        f"[INFO] Total time:  {run.dec(1.9, 14.0, 3)} s\n[INFO] Finished at: {run.stamp()}\n{rule}"
    )


RETEST = (
    "Let me run the tests.|Now the test again.|Run it.|Let's see whether that helps.|Testing.|"
    "Re-running the failing test.|Now verify.|Check the outcome:"
)
STILL = (
    "Still failing.|The same failure.|Hmm, no change.|That did not do it.|It still fails.|"
    "Not yet.|The error is still there.|Unfortunately the same error."
)
NEXT = (
    "Let me try another way.|I think I see it now.|Perhaps the condition is the wrong way round.|"
    "I'll handle the case explicitly.|Let me be more defensive here.|Another idea:|"
    "The root cause must be in this branch.|Let me rewrite this part.|OK, so it must be this.|"
    "The traceback ends in this function, so the value must be wrong before it gets there. I'll "
    "check it at the top.|I looked only at the first case so far. The other branch has the same "
    "problem, so let me handle both.|It could be the default: when the argument is missing, we "
    "fall through to the last line. I'll make that explicit.|Looking at the assertion again, the "
    "order of the two checks may matter. Let me swap them."
)
MOVED = (
    "A different error now.|That part works.|Further than before.|Another one behind it.|"
    "This one is new.|The first error is gone."
)
FORWARD = "Good.|One less.|That worked.|Progress.|On to the next.|Better.|Next one.|Great."
