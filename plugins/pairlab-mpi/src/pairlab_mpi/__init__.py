"""Programs of MPI as workloads: over mpi4py, and the OSU micro-benchmarks. Ranks are endpoints."""
