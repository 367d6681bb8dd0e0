"""Money: what calls cost, and what they may cost.

price         Prices: what a model costs; Price: what a call's tokens cost, in nano-dollars
listed        the prices that providers list, made ready
setting       what can be set of prices
dollar        amounts as people and headers have them

forecast      Forecast: what a call will use at most
whose         Whose: to which account it is charged
meter         Meter: charges calls, and says what the balance means
budget_meter  budgets made ready; rate_meter: rates
meters        Meters: all of them
standing      Standing: a budget that has come to one of its stages
"""
