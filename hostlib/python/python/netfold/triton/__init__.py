"""Quantisation of floating-point tensors on their device, by kernels of Triton.

Sums and averages then cross the bus as lanes, of 2 bytes an element in mode ``bfp16``, and error feedback works on the device, too. In ``netfold.torch`` it
is ``Options(quantize="device")``, or ``NETFOLD_QUANTIZE=device``; without torch.distributed::

    reducer = netfold.triton.DeviceReducer(communicator)               # on all ranks
    reducer.start(gradients, "avg", residual).wait()

Importing this module needs Triton and torch. With ``TRITON_INTERPRET=1`` in the environment, kernels are interpreted and tensors are in host memory: for tests.
"""

from ._format import BITS as _BITS
from ._format import rounding_key
from ._quantizer import Quantizer, quantizable
from ._reduce import DeviceReducer, Reduction
from ._streams import interpreted

#: Modes that can be quantised on devices.
MODES = tuple(_BITS)

__all__ = ["MODES", "DeviceReducer", "Quantizer", "Reduction", "interpreted", "quantizable", "rounding_key"]
