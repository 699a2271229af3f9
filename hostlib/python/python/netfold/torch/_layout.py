"""Tensors of any layout, as memory that the library can use.

The library reads and writes elements row by row without gaps. A tensor that has them so is used where it is. Any other, such as a
transposed matrix or every second element, is copied: before the operation where it is read, after it where it is written. So the
order of elements is that of the tensor's indices, and ranks may have different layouts.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple

import torch

from .. import TensorError

#: What is left to do when an operation is over.
Finish = Optional[Callable[[], None]]


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements lie row by row without gaps, and are not a lazy view."""
    return tensor.is_contiguous() and not tensor.is_neg()


def source(tensor: torch.Tensor) -> torch.Tensor:
    """Memory with the elements of a tensor that is only read."""
    return tensor if is_plain(tensor) else tensor.detach().resolve_neg().contiguous()


def target(tensor: torch.Tensor, read: bool = True) -> Tuple[torch.Tensor, Finish]:
    """Memory for the result that a tensor gets, and what stores the result in the tensor. It has the tensor's elements if they are ``read``."""
    if is_plain(tensor):
        return tensor, None
    check_writable(tensor)
    staged = source(tensor) if read else torch.empty(tensor.size(), dtype=tensor.dtype, device=tensor.device)
    return staged, lambda: _store([tensor], [staged])


def check_writable(tensor: torch.Tensor) -> None:
    """Raises if several elements have the same memory, as after ``expand``."""
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.size(), tensor.stride())):
        raise TensorError("elements of the output share memory; pass a copy of it: tensor.clone()", "overlap")


def as_one(parts: Sequence[torch.Tensor]) -> Optional[torch.Tensor]:
    """The memory of parts that lie one behind the other in one storage, as ``chunk`` and ``unbind`` return them."""
    first = parts[0]
    if not all(is_plain(part) for part in parts):
        return None
    size, offset = first.numel(), first.storage_offset()
    storage = _storage(first)
    for index, part in enumerate(parts):
        apart = part.storage_offset() != offset + index * size or _storage(part) != storage
        if apart or part.numel() != size or part.dtype != first.dtype:
            return None
    return first.detach().as_strided((len(parts) * size,), (1,))


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Memory with the elements of parts that are only read."""
    whole = as_one(parts)
    return whole if whole is not None else torch.cat([part.detach().reshape(-1) for part in parts])


def scattered(parts: List[torch.Tensor]) -> Tuple[torch.Tensor, Finish]:
    """Memory for results that parts of one size get, and what stores them in the parts."""
    whole = as_one(parts)
    if whole is not None:
        return whole, None
    for part in parts:
        check_writable(part)
    size = parts[0].numel()
    staged = torch.empty(len(parts) * size, dtype=parts[0].dtype, device=parts[0].device)
    return staged, lambda: _store(parts, staged.view(len(parts), size).unbind(0))


def _store(parts: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    for part, result in zip(parts, results):
        part.detach().copy_(result.view(part.size()))


def _storage(tensor: torch.Tensor) -> int:
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.data_ptr())
