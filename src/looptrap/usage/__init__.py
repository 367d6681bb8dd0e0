"""What calls used and cost: counted per call, stored by the minute, queried by dimension.

model     UsageTotals, SessionUsage, their keys, UsageBatch. Pure
savings   amounts in dollars, and what refusals saved, in words. Pure
recorder  UsageRecorder: from settled calls to batches for the writer's thread. Pure
breach    budgets that refused calls: Breach, its rows, BreachQuery
table     rows in SQLite, rolled up by the hour; UsageQuery
"""
