"""Policies against recorded traffic.

recorded_run       reads JSONL files, plain or gzip, and the requests of each recorded run
judge              judges the requests of a run with a guard of its own
capture            captured calls, judged in order by one guard for all; the loop of an incident
replay             both, file by file, with a summary, also against labels and other thresholds
report             the summary as tables, for a terminal or as HTML with plots
projection         an endless loop of one call: how many calls would pass, at which cost
ruleset            policies, projects and tools as one value, for JSON and TOML
what_if            captured calls under two rulesets, compared
transcript         a pasted conversation as requests
try_it             a pasted conversation, judged step by step, with what every rule finds
subprocess_worker  what_if and try_it in a process of their own
"""
