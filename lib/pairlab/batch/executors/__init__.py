"""Where the cells of a sweep are measured: on this host, or by the workers of a Dask scheduler on several.

executor: what measures cells. local: this host. workers: a pool of Dask's, each an executor; worker: what each of them
runs. block_queue: what is measured next, and where. activity: who measures what. processes: a scheduler and a worker as
processes.
"""
