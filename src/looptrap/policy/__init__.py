"""Policies: what is done about loops. Pure: no I/O, no clock, no randomness.

action      actions and ladders: which action from which count on
rule        what to watch, how often it may happen, and what to do then
rate        how fast calls or tokens may come
budget      what calls may cost
policy      policies, selectors, projects and kill switches
watch       rules compiled at start; select and kill_switch: selectors and kill switches likewise
verdict     what was decided, and why; header: the response headers about it
refusal     verdicts as answers; stream_guard: ends an answer that is on its way
kind        kinds of values that their settings share
preset      policies that ship with Looptrap
fairvisor   policy bundles of another system; fairvisor_part: their tables
"""
