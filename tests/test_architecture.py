"""The arrow of imports, and the purity of the core."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "looptrap"

LAYERS = [
    {"build", "errors", "bounded"},
    {"schema"},
    {"dialect"},
    {"detect"},
    {"policy"},
    {"database", "store", "wire"},
    {"money"},
    {"engine", "retry"},
    {"usage"},
    {"incident"},
    {"config"},
    {"gateway", "replay", "client", "testing"},
    {"anthropic", "asgi", "langchain", "langgraph", "litellm", "openai"},
    {"admin"},
    {"workers"},
    {"cli"},
]
"""Lowest first: a module imports from its own room and from layers below, never up or across."""

RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

PURE = ("errors", "bounded", "schema", "dialect", "detect", "policy")
PURE_PARTS = (
    "incident/event.py", "incident/indicator", "incident/model.py", "incident/sighting.py",
    "incident/tracker.py", "money/price.py", "usage/model.py", "usage/recorder.py",
    "retry/breaker.py", "retry/classify.py", "retry/failure.py",
    "retry/policy.py", "retry/schedule.py",
)  # fmt: skip
"""Pure, in rooms that are not."""

IMPURE_MODULES = {
    "asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "select", "shutil",
    "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time",
    "uuid", "aiohttp", "httptools", "redis", "uvloop",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input"}

MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.append(node.module or "")
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def violations(room: str, imported: list[str]) -> list[str]:
    """Return the imports that a module of that room must not have."""
    wrong = []
    for name in imported:
        parts = name.split(".")
        if parts[0] != "looptrap" or len(parts) < 2 or parts[1] == room:
            continue
        if parts[1] in RANK and RANK[parts[1]] >= RANK[room]:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_arrow(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert room in RANK, f"{room} has no layer: add it to LAYERS"
    assert violations(room, imports_of(ast.parse(path.read_text("utf-8")))) == []


def is_pure(path: Path) -> bool:
    place = str(path.relative_to(SOURCE))
    return room_of(path) in PURE or place.startswith(PURE_PARTS)


@pytest.mark.parametrize("part", PURE_PARTS)
def test_every_pure_part_is_there(part):
    assert (SOURCE / part).exists()


@pytest.mark.parametrize(
    "path", [path for path in MODULES if is_pure(path)], ids=lambda path: path.name
)
def test_the_core_has_no_io_clock_or_chance(path):
    tree = ast.parse(path.read_text("utf-8"))
    imported = {name.partition(".")[0] for name in imports_of(tree)}
    assert imported & IMPURE_MODULES - allowed(path) == set()
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & IMPURE_CALLS == set()


def allowed(path: Path) -> set[str]:
    return {"sys"} if "maxsize" in path.read_text("utf-8") else set()


@pytest.mark.parametrize(
    ("room", "imported", "wrong"),
    [
        ("detect", ["looptrap.policy.rule"], ["looptrap.policy.rule"]),
        ("wire", ["looptrap.store.memory"], ["looptrap.store.memory"]),
        ("policy", ["looptrap.detect.scope", "looptrap.policy.rule", "msgspec"], []),
    ],
    ids=["upwards", "across", "down and at home"],
)
def test_the_check_itself_tells_right_from_wrong(room, imported, wrong):
    assert violations(room, imported) == wrong


def public_classes() -> dict[str, list[str]]:
    """Return where each public class name is defined."""
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    return found


def test_no_public_class_name_is_used_twice():
    """An SDK's own exceptions carry the names of ours on purpose: users catch either."""
    ours = {"BudgetExceededError", "KilledError", "LoopDetectedError", "RateLimitedError"}
    twice = {name: places for name, places in public_classes().items() if len(places) > 1}
    assert {name: places for name, places in twice.items() if name not in ours} == {}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in MODULES}


def imported_at_once(path: Path) -> set[str]:
    """Return the modules that a module needs while it is being imported."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module in NAMES:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & NAMES
            found |= inner or {node.module}
    return found


def test_no_modules_import_each_other_in_a_circle():
    """Such a circle works or fails by which of them is imported first."""
    needed = {name_of(path): imported_at_once(path) for path in MODULES}
    while leaves := [name for name, others in needed.items() if not others & needed.keys()]:
        for name in leaves:
            del needed[name]
    assert {name: sorted(others & needed.keys()) for name, others in needed.items()} == {}
