import contextlib

# Before TensorFlow: triton, which PyTorch's builds for GPUs bring, ends the process when it is
# loaded after TensorFlow 2.20 (github.com/tensorflow/tensorflow/issues/124205).
with contextlib.suppress(ImportError):
    import triton  # noqa: F401
