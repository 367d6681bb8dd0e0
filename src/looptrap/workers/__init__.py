"""Several processes that serve as one: started together, replaced when they end, stopped together.

crew      Crew: all workers, from the first start to the last answer
post      Post: one worker as its supervisor sees it
worker    the process itself
channel   what the two tell each other
embedded  Embedded: a Valkey of one's own, where workers have no store to share
child     Child: a process that is started again whenever it ends
pace      Pace: how soon
port      the port that all workers listen at
mortal    a program that ends with whoever started it
"""
