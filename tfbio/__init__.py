"""tfbio: pretrain encoders on PubMed and PMC, and measure them on BLURB and BLUE."""

import os
import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"] or os.path.basename(sys.argv[0]) in (
    "run_pretraining.py",
    "run_finetuning.py",
):
    # A command is imported, which can take seconds. Ctrl-C ends it without a traceback even then;
    # later tfbio/base/cli.py does so. Python calls this for what nothing else has caught.
    def _end(kind, error, trace) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        print("interrupted: nothing was begun", file=sys.stderr, flush=True)
        os._exit(130)

    sys.excepthook = _end

# Both are read once, when TensorFlow is imported. It then brings tf_keras, and not Keras 3 with
# matplotlib and scikit-learn, of which nothing is used here.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# TensorFlow takes oneDNN's matrix products by itself only on CPUs with VNNI, bfloat16 or AMX; they
# are faster on an older AMD, too.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
