"""Fairvisor policy bundles: read as they are into policies and kill switches.

Loop detection, rates and kill switches are taken over. Whatever else a bundle asks for is named in
a warning: nothing is dropped silently. Pure: `now` decides what has expired.
"""

from looptrap.policy.fairvisor.bundle import Bundle, load

__all__ = ["Bundle", "load"]
