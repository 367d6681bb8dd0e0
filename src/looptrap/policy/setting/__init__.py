"""Settings of rules, policies, projects and kill switches: names, limits, defaults, words."""
