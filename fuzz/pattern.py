"""Regular expressions of the project, and texts made to have them try again and again.

A pattern is attacked where it repeats: what leads to a repetition, the repeated part many times,
and something that does not fit, so that every way of having repeated it is tried.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from re import _constants as op
from re import _parser as parser
from types import ModuleType
from typing import Any

import looptrap

METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")
SPOILERS = ("", "\0", "!", "\n", "~~")
CHARACTERS = "aA0 -_.:/\"'\n{}[]<>()=,;%@#*`\\\t\r|~!?$^&+é\0"
_HINT = re.compile(r"\bre\.|pattern=")
MANY = 4
"""A repetition of up to so many times is none."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern, and the ways in which it is used."""

    place: str
    compiled: re.Pattern[Any]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attack:
    """A text that can be made as long as one likes."""

    before: str
    pumped: str
    after: str

    def text(self, size: int) -> str:
        """Return it at about that size."""
        times = max(1, size // max(1, len(self.pumped)))
        return self.before + self.pumped * times + self.after


# Finding patterns


def patterns() -> Iterator[Pattern]:
    """Yield every pattern that stands in the source, wherever it is compiled."""
    for module in _modules():
        # A compiled module lies beside its source.
        name = module.__name__.rpartition(".")[2]
        source = Path(str(module.__file__)).with_name(f"{name}.py")
        tree = ast.parse(source.read_text("utf-8"))
        seen: set[Any] = set()
        for name, value in vars(module).items():
            owner = getattr(value, "__self__", value)
            if isinstance(owner, re.Pattern) and _is_made_here(tree, name):
                bound = value.__name__ if owner is not value else None
                methods = (bound,) if bound else tuple(_uses(tree, name)) or ("search",)
                seen.add(owner.pattern)
                yield Pattern(f"{module.__name__}.{name}", owner, methods)
        for line, text, method in _written(tree):
            if text not in seen:
                yield Pattern(f"{module.__name__}:{line}", re.compile(text), (method,))


def computed() -> Iterator[str]:
    """Yield the places where a pattern is compiled that is not written out there."""
    for module in _modules():
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        inside = {
            node
            for top in tree.body
            if isinstance(top, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            for node in ast.walk(top)
        }
        for call in _calls(tree):
            if call in inside and not isinstance(call.args[0], ast.Constant):
                yield module.__name__


@cache
def _modules() -> list[ModuleType]:
    """Return the modules that have to do with patterns."""
    root = Path(looptrap.__path__[0])
    paths = [path for path in sorted(root.rglob("*.py")) if _HINT.search(path.read_text("utf-8"))]
    names = [".".join(path.relative_to(root).with_suffix("").parts) for path in paths]
    return [importlib.import_module(f"looptrap.{name}".removesuffix(".__init__")) for name in names]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in ("compile", *METHODS)
        ):
            yield node


def _written(tree: ast.AST) -> Iterator[tuple[int, Any, str]]:
    """Yield patterns that are written out where they are used, or as a `pattern=` of a setting."""
    for call in _calls(tree):
        if isinstance(call.args[0], ast.Constant) and len(call.args) < 3:
            method = str(getattr(call.func, "attr", ""))
            yield call.lineno, call.args[0].value, "search" if method == "compile" else method
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "pattern":
            written = getattr(node.value, "value", None)
            if isinstance(written, str):
                yield node.value.lineno, written, "fullmatch"


def _is_made_here(tree: ast.Module, name: str) -> bool:
    targets = [
        one
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for one in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(one, ast.Name) and one.id == name for one in targets)


def _uses(tree: ast.AST, name: str) -> Iterator[str]:
    """Yield the methods by which a module uses a pattern of its own, each once."""
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        and node.attr in METHODS
    }
    yield from sorted(found)


# Making attacks


def attacks(pattern: re.Pattern[Any], rng: Random, tries: int = 3) -> Iterator[Attack]:
    """Yield texts that repeat what the pattern repeats, in every place where it does."""
    text = pattern.pattern
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    flags = pattern.flags & ~re.UNICODE
    tree = parser.parse(text, flags if isinstance(pattern.pattern, bytes) else pattern.flags)
    seen: set[Attack] = set()
    for before, body in _repeats(list(tree), rng):
        for number in range(tries):
            pumped = _sample(body, rng) * (1 + number % 2)
            if number and (beside := _sample(body, rng)):
                pumped += beside
            for after in SPOILERS:
                for lead in {before, ""}:
                    attack = Attack(lead, pumped, after)
                    if pumped and attack not in seen:
                        seen.add(attack)
                        yield attack
    for character in sorted(set(_literals(list(tree))))[:6]:
        yield Attack("", character, "\0")


def _repeats(nodes: list[Any], rng: Random, before: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield every repetition: a text that leads to it, and its body."""
    for code, given in nodes:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            _, most, body = given
            if most > MANY:
                yield before, list(body)
            yield from _repeats(list(body), rng, before)
        elif code is op.SUBPATTERN:
            yield from _repeats(list(given[3]), rng, before)
        elif code is op.BRANCH:
            for branch in given[1]:
                yield from _repeats(list(branch), rng, before)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _repeats(list(given[1]), rng, before)
        elif code is op.ATOMIC_GROUP:
            yield from _repeats(list(given), rng, before)
        before += _sample([(code, given)], rng)


def _sample(nodes: list[Any], rng: Random) -> str:
    """Return a text that fits, as far as that can be told node by node."""
    return "".join(_one(code, given, rng) for code, given in nodes)


def _one(code: Any, given: Any, rng: Random) -> str:
    match code:
        case op.LITERAL:
            return chr(given)
        case op.NOT_LITERAL:
            return "b" if given == ord("a") else "a"
        case op.ANY:
            return rng.choice("ab ")
        case op.IN:
            return _member(given, rng)
        case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
            least, most, body = given
            times = min(most, max(least, rng.randint(least, least + 2)))
            return "".join(_sample(list(body), rng) for _ in range(times))
        case op.SUBPATTERN:
            return _sample(list(given[3]), rng)
        case op.BRANCH:
            return _sample(list(rng.choice(given[1])), rng)
        case op.ATOMIC_GROUP:
            return _sample(list(given), rng)
    return ""


def _member(given: list[Any], rng: Random) -> str:
    """Return a character of a set."""
    fits = re.compile(_set_text(given))
    choices = [one for one in CHARACTERS if fits.fullmatch(one)]
    choices += [chr(low) for code, low in given if code is op.LITERAL]
    choices += [chr(low[0]) for code, low in given if code is op.RANGE and not _negates(given)]
    return rng.choice(choices) if choices else "a"


def _negates(given: list[Any]) -> bool:
    return bool(given) and given[0][0] is op.NEGATE


CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _set_text(given: list[Any]) -> str:
    parts = []
    for code, value in given:
        if code is op.LITERAL:
            parts.append(re.escape(chr(value)))
        elif code is op.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        elif code is op.CATEGORY:
            parts.append(CATEGORIES[value])
    return f"[{'^' if _negates(given) else ''}{''.join(parts)}]"


def _literals(nodes: list[Any]) -> Iterator[str]:
    for code, given in nodes:
        if code is op.LITERAL:
            yield chr(given)
        elif isinstance(given, tuple | list):
            for part in given:
                if isinstance(part, parser.SubPattern):
                    yield from _literals(list(part))
                elif isinstance(part, list):
                    for inner in part:
                        if isinstance(inner, parser.SubPattern):
                            yield from _literals(list(inner))


def runner(pattern: re.Pattern[Any], method: str) -> Callable[[str], object]:
    """Return what uses the pattern in that way on a text."""
    use = getattr(pattern, method)
    if method == "sub":
        use = _substituting(pattern)
    elif method == "finditer":
        use = _iterating(pattern)
    if not isinstance(pattern.pattern, bytes):
        return use  # type: ignore[no-any-return]
    return lambda text: use(text.encode("latin-1", "replace"))


def _substituting(pattern: re.Pattern[Any]) -> Callable[[Any], object]:
    return lambda text: pattern.sub(text[:0], text)


def _iterating(pattern: re.Pattern[Any]) -> Callable[[Any], object]:
    return lambda text: sum(1 for _ in pattern.finditer(text))
