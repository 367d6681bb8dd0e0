"""What was set at run time, on all instances; without a shared store, on this one.

runtime_override   SharedSettings: all of it, and its effect on a configuration; kill switches, and
                   settings by name, with a version: of projects, tools, rules and budgets
shared_entries     SharedEntries: entries by name; swap_entry.lua changes one
shared_keys        gateway keys in the shared store
"""

from looptrap.gateway.shared_settings.runtime_override import SharedSettings, key_cache_file
from looptrap.gateway.shared_settings.shared_entries import EntryStore, SharedEntries

__all__ = ["EntryStore", "SharedEntries", "SharedSettings", "key_cache_file"]
