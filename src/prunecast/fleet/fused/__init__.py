"""A training step of packed CIFAR ResNets from kernels of our own."""
