"""Several worker processes that serve as one: started, replaced and stopped together.

pool                WorkerPool: all workers; WorkerProcess: one of them; SharedPort: their port;
                    WorkerChannel: messages to and from one of them
worker              the worker process itself
supervised_process  SupervisedProcess: a process that is restarted whenever it ends
embedded_valkey     EmbeddedValkey: the store that workers share if none is configured
die_with_parent     runs a program that the kernel ends with its parent
"""
