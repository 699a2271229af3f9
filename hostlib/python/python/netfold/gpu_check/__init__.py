"""Checks of Netfold on a GPU: the command ``netfold-gpu-check``, or ``python -m netfold.gpu_check``.

One GPU suffices: two ranks share it. Each check runs in child processes with a time limit, so that a driver or a library that
hangs, or ends its process, is a failed check. ``docs/nccl.md`` describes the checks and the figures.

To add a check, write a module beside ``_nccl`` with a tuple ``CHECKS`` of :class:`~netfold.gpu_check._registry.Check`, and add it
to :data:`~netfold.gpu_check.__main__.MODULES`.
"""
