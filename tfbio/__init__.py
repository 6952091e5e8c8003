"""tfbio: pretrain encoders on PubMed and PMC, and measure them on BLURB and BLUE."""

import os

__version__ = "0.1.0"

# oneDNN's matrix products are faster on AMD's CPUs, too; by itself TensorFlow takes them on Intel's
# newer ones alone. Set here because TensorFlow reads it once, when it is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
