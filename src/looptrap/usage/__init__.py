"""What calls used and cost: summed by the minute, and logged one by one.

model     UsageTotals, SessionUsage, their keys, UsageBatch. Pure
recorder  UsageRecorder: from settled calls to batches for the writer's thread. Pure
breach    budgets that refused calls: Breach, its rows, BreachQuery
table     their rows, merged by the hour; UsageQuery

call_log  CallLog: settled calls one by one, sampled under load; its settings, rows and CallQuery
rollup    sums of both by five minutes, hour, day and week
"""
