"""Settings of rules, rates, policies, budgets, projects and kill switches, and their words."""
