"""Which class an operation of a sharded model is, by the order in which they come."""

from __future__ import annotations


class Order:
    """Derives the importance of a sharded model's operations from their order, without knowing their layers.

    FSDP2 gathers the layers' parameters in the forward pass, first layer first; in the backward pass it gathers a layer again, or
    not, and scatters the gradients of the one behind it, last layer first. So gathers with no scatter between them are a forward
    pass, and as many scatters come until the next one as came the time before. What is gathered is wanted at once, and the
    last gradients are those that the next forward pass wants first.

    All ranks make the same calls in the same order, so all find the same classes. A model that changes its layers is out of step for
    one iteration, which costs nothing but time.
    """

    def __init__(self, classes: int) -> None:
        self.classes = max(1, classes)
        self._gathers = 0
        self._scatters = 0
        self._expected = 0

    def gather(self) -> int:
        """The class of a gather of parameters: the highest."""
        self._gathers += 1
        if self._gathers == 2 and self._scatters > 0:
            # Two in a row: the backward pass is over.
            self._expected, self._scatters = self._scatters, 0
        return self.classes - 1

    def scatter(self) -> int:
        """The class of a scatter of gradients: the highest for the last of an iteration, and rising towards it."""
        self._gathers = 0
        self._scatters += 1
        if self._scatters == self._expected:
            return self.classes - 1
        return max(0, min(self._scatters - 1, self.classes - 2))
