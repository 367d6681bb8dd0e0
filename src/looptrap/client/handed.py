"""What frameworks hand to a tool beside what the model asked for: contexts, and ids of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

CONTEXTS = frozenset(
    {
        ("agents", "RunContextWrapper"),
        ("fastmcp", "Context"),
        ("google", "Context"),
        ("google", "ToolContext"),
        ("langchain_core", "RunnableConfig"),
        ("langgraph", "ToolRuntime"),
        ("llama_index", "Context"),
        ("mcp", "Context"),
        ("pydantic_ai", "RunContext"),
    }
)
"""Package and class of what tells of the run, and is another one for every call."""

INJECTED = "Injected"
"""How the names of LangChain's marks for the same begin."""


def handed_names(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that a framework fills in, as far as annotations say so."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - names that only type checkers know
        return frozenset()
    return frozenset(name for name, hint in hints.items() if _is_handed(hint))


def is_context(kind: type) -> bool:
    """Say whether objects of that type are a framework's, made for each call or run."""
    return any((one.__module__.partition(".")[0], one.__name__) in CONTEXTS for one in kind.__mro__)


def _is_handed(hint: Any) -> bool:
    if isinstance(hint, type) and is_context(hint):
        return True
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return _is_handed(kind) or any(map(_is_mark, marks))
    # `RunContext[Deps]`, and `ToolRuntime | None`
    return any(map(_is_handed, (get_origin(hint), *get_args(hint)) if get_origin(hint) else ()))


def _is_mark(mark: Any) -> bool:
    kind = mark if isinstance(mark, type) else type(mark)
    return any(one.__name__.startswith(INJECTED) for one in kind.__mro__)
