"""Programs of MPI whose ranks are endpoints: how they find each other, and the rounds that mpi4py makes."""
