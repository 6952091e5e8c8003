"""The training loop, optimizers, devices, checkpoints, progress and logs."""
