"""Configuration: built-in defaults < preset < file < environment < flags, in typed form.

setting      Config: every setting, declared once; gateway, provider: parts of it
kind         kinds of values that only these settings have
load         puts the layers on top of each other
check        problems and warnings where settings do not go together
description  what a configuration means, in sentences
"""

from looptrap.config.load import load
from looptrap.config.setting import Config

__all__ = ["Config", "load"]
