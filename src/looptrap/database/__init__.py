"""The SQLite file of the history: incidents and usage.

database  Database: file, connections, transactions; rows and pages
schema    tables and migrations
"""
