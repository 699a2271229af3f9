"""Reductions by mpi4py: knows nothing of Netfold."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
    mine = ((np.arange(10_000) * 3 + rank) % 50).astype(dtype)
    everyone = [((np.arange(10_000) * 3 + other) % 50).astype(dtype) for other in range(size)]
    out = np.empty_like(mine)
    comm.Allreduce(mine, out, op=MPI.SUM)
    assert (out == np.sum(everyone, axis=0, dtype=dtype)).all(), dtype
    comm.Allreduce(MPI.IN_PLACE, mine, op=MPI.MAX)
    assert (mine == np.max(everyone, axis=0)).all(), dtype

arrays = [np.full(5_000, rank, dtype) for dtype in (np.float32, np.int32, np.float64)]
MPI.Request.Waitall([comm.Iallreduce(MPI.IN_PLACE, array) for array in arrays])
assert all((array == size * (size - 1) // 2).all() for array in arrays)

half = comm.Split(rank % 2)
part = np.full(4_000, rank, np.float32)
half.Allreduce(MPI.IN_PLACE, part)
assert (part == sum(range(rank % 2, size, 2))).all()
half.Free()

assert comm.allreduce(rank) == size * (size - 1) // 2  # pickled objects
if rank == 0:
    print("mpi4py: passed")
