"""The SQLite file that incidents and usage are kept in.

database  Database: connections, transactions, the file and who can read it; rows and pages
schema    tables, and how a file of an older version gets them
"""
