"""LoopBench: sequences of requests of agents that loop, and of honest ones that look like them."""
