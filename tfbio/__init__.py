"""tfbio: pretrain encoders on PubMed and PMC, and measure them on BLURB and BLUE."""

import os

__version__ = "0.1.0"

# TensorFlow takes oneDNN's matrix products by itself only on CPUs with VNNI, bfloat16 or AMX; they
# are faster on an older AMD, too. Set here, as TensorFlow reads it once, when it is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
