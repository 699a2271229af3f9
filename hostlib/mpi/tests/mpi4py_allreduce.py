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

mine = np.arange(6_000, dtype=np.float64) if rank == 1 else np.zeros(6_000)
comm.Bcast(mine, root=1)
assert (mine == np.arange(6_000)).all()
out = np.empty((size, 2_000), np.int16)
comm.Allgather(np.full(2_000, rank, np.int16), out)
assert (out == np.arange(size)[:, None]).all()
total = np.zeros(5_000, np.float32)
comm.Reduce(np.full(5_000, rank, np.float32), total, root=0)
assert (total == (size * (size - 1) // 2 if rank == 0 else 0)).all()
part = np.empty(2_000, np.int32)
comm.Reduce_scatter_block(np.repeat(np.arange(size, dtype=np.int32), 2_000), part)
assert (part == rank * size).all()
columns = np.zeros((3_000, 2), np.int32)
columns[:, 0] = rank == 0
twos, ones = np.full(5_000, 2, np.float32), np.ones(2_000 * size, np.int32)
column = MPI.INT.Create_vector(3_000, 1, 2).Commit()
rows = np.full(2_000, rank, np.int16)
requests = [comm.Ibcast([columns, 1, column]), comm.Iallgather(rows, out)]
column.Free()
requests += [comm.Ireduce(twos, total), comm.Ireduce_scatter_block(ones, part)]
MPI.Request.Waitall(requests)
assert (columns == [1, 0]).all() and (out == np.arange(size)[:, None]).all()
assert (part == size).all() and (rank > 0 or (total == 2 * size).all())

half = comm.Split(rank % 2)
part = np.full(4_000, rank, np.float32)
half.Allreduce(MPI.IN_PLACE, part)
assert (part == sum(range(rank % 2, size, 2))).all()
half.Free()

assert comm.allreduce(rank) == size * (size - 1) // 2  # pickled objects
if rank == 0:
    print("mpi4py: passed")
