"""What instances agree on while they run; without a shared store, what was set on this one.

agreed      Agreed: all of it, and what it makes of a configuration
agreement   Agreement: entries by name, the same on all instances, and the key of all digests
ledger      the entries as the shared store keeps them; ledger.lua changes one
kill        kill switches set at run time
layer       what was set at run time on top of the file, by name and with a version
project     settings of projects set at run time
tool        thresholds of tools set at run time
key         gateway keys in the shared store
"""

from looptrap.gateway.shared_settings.settings import SharedSettings, key_cache_file
from looptrap.gateway.shared_settings.shared_entries import EntryStore, SharedEntries

__all__ = ["EntryStore", "SharedEntries", "SharedSettings", "key_cache_file"]
