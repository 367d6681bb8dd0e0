"""What calls used and cost: counted per call, stored by the minute, queried by dimension.

model     UsageTotals, SessionUsage, their keys, UsageBatch. Pure
savings   what a call of a loop costs, and what refusals saved. Pure
recorder  UsageRecorder: from settled calls to batches for the writer's thread. Pure
table     rows in SQLite, rolled up by the hour; UsageQuery
"""
