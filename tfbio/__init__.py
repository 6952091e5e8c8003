"""tfbio: pretrain encoders on PubMed and PMC, and measure them on BLURB and BLUE."""

import os

__version__ = "0.1.0"

# Both are read once, when TensorFlow is imported. It then brings tf_keras, and not Keras 3 with
# matplotlib and scikit-learn, of which nothing is used here.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# TensorFlow takes oneDNN's matrix products by itself only on CPUs with VNNI, bfloat16 or AMX; they
# are faster on an older AMD, too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
