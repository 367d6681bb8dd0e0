"""Policies against recorded traffic.

file      JSONL, plain or gzip, line by line
run       a recorded run, and the requests it was made of
play      judges them one by one, by a guard of its own
capture   captured calls, judged as they came, by one guard for all
result    what would have become of the run
endless   one call over and over: how many would pass
replay    all of the above, file by file, and counted
summary   the counts; score: against labels; sweep: with other thresholds
ruleset   what calls are judged by, to be handed on and written down
what_if   captured calls (survey) under two rulesets, side by side (comparison)
try_it    a conversation that was pasted, step by step, with the opinion of every rule
aside     both of these, in a process of their own
report    the summary as tables; page: as HTML, with plots
"""
