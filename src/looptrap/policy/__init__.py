"""What to do about it. Pure: no I/O, no clock, no randomness.

action      actions and ladders: what is done from which count on
rule        what to watch, how often it may happen
rate        how fast calls or tokens may come
budget      what they may cost
policy      whom rules bind: policies, selectors, projects, kill switches
watch       rules made ready at start; select and switch: selectors and kill switches likewise
decide      from counts and evidence to verdicts
verdict     what was decided, and why; header: what an answer says about it
kind        kinds of values that their settings share
preset      policies that ship with Looptrap
fairvisor   policy bundles of another system
"""
