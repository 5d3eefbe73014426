"""Counts of the kernel launches, waits and compilations that PyTorch requests, on a machine without a GPU.

These checks need a CUDA build of PyTorch whose CUDA libraries (libcudart, libcublas, libcublasLt, libcuda, libnccl) are
stubs: a launch is a counted no-op and device memory is the host's. The stubs are no part of this project. They tell
what is launched and when the host waits, never how fast a GPU is or whether its numbers are right: every number that a
GPU would calculate is meaningless there.
"""
