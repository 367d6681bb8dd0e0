"""Money: what calls cost, and what they may cost.

price         Prices: what a model costs; Price: what a call's tokens cost; amounts in words
listed        the prices that providers list
estimate      UsageEstimate: what a call will use at most
meter         Meter: charges calls and interprets the balance; AccountKey: which account
budget_meter  budgets; rate_meter: rates
meters        Meters: all of them
"""
