"""Where the cells of a sweep are measured: on this host, or by the workers of a Dask scheduler on several.

places: what a place is. here: this host. blocks: what is measured next, and where. worker: what a worker of Dask runs.
workers: those of a scheduler, as places. processes: a scheduler and a worker as processes. roster: who measures what.
"""
