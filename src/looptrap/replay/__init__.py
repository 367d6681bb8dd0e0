"""Policies against recorded traffic.

file      JSONL, plain or gzip, line by line
run       a recorded run, and the requests it was made of
play      judges them one by one, by a guard of its own
capture   captured calls, judged as they came, by one guard for all
result    what would have become of the run
replay    all of the above, file by file, and counted
summary   the counts; score: against labels; sweep: with other thresholds
report    the summary as tables; page: as HTML, with plots
"""
