"""Configuration: built-in defaults < preset < file < environment < flags, in typed form.

`setting` lists every setting, `file` reads what is on disk, `loop_guard` applies the
`LOOP_GUARD_*` variables, `load` puts the layers on top of each other.
"""

from looptrap.config.load import load
from looptrap.config.setting import Config

__all__ = ["Config", "load"]
