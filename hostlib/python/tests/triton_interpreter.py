"""What Triton's interpreter needs of a torch that is older than it: Debian 12's torch 1.13 has no ``untyped_storage``."""

import torch


class _Storage:
    """The storage of a tensor in host memory, on which the interpreter works in place."""

    def __init__(self, tensor):
        self.typed = tensor.storage()

    def data_ptr(self):
        return self.typed.data_ptr()

    def cpu(self):
        return self

    def copy_(self, other):
        assert other.data_ptr() == self.data_ptr()


def prepare():
    """Adds it to torch. Does nothing where torch has it."""
    if hasattr(torch.Tensor, "untyped_storage"):
        return
    set_ = torch.Tensor.set_

    def set_typed(self, source, *rest):
        return set_(self, source.typed if isinstance(source, _Storage) else source, *rest)

    torch.Tensor.untyped_storage = lambda tensor: _Storage(tensor)
    torch.Tensor.set_ = set_typed
