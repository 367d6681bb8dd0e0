"""What was set at run time, on all instances; without a shared store, on this one.

settings           SharedSettings: all of it, and its effect on a configuration
shared_entries     SharedEntries: entries by name; swap_entry.lua changes one
kill_switch        kill switches set at run time
runtime_override   projects, tools, rules and budgets: settings by name, with a version
shared_keys        gateway keys in the shared store
"""

from looptrap.gateway.shared_settings.settings import SharedSettings, key_cache_file
from looptrap.gateway.shared_settings.shared_entries import EntryStore, SharedEntries

__all__ = ["EntryStore", "SharedEntries", "SharedSettings", "key_cache_file"]
