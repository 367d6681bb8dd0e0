"""How this Looptrap was built: the modules on the path of a call may be compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_attributes: Any) -> Callable[[Any], Any]:
        """Do nothing to a class: mypyc reads its attributes from the source."""
        return lambda decorated: decorated


BuildKind = Literal["compiled", "interpreted"]

_COMPILED = "wire", "request"
"""One of the compiled modules."""


def build_kind() -> BuildKind:
    """Say whether the modules on the path of a call are machine code, or Python."""
    # `importlib.util.find_spec` would import the package.
    package, name = _COMPILED
    found = PathFinder.find_spec(name, [__file__.removesuffix("build.py") + package])
    is_source = found is not None and str(found.origin).endswith(".py")
    return "interpreted" if is_source else "compiled"
