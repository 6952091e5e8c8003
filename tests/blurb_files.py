"""Names the folder of BLURB's files of each task, for `reference.corpus`.

EBM-PICO's has no training file.
"""

FOLDERS = {
    "bc5cdr_chem": "bc5cdr_chem/blurb",
    "bc5cdr_disease": "bc5cdr_disease/blurb",
    "ncbi_disease": "ncbi_disease/blurb",
    "bc2gm": "bc2gm/blurb",
    "jnlpba": "jnlpba/blurb",
    "ebm_pico": "ebm_pico/blurb",
    "chemprot": "chemprot/blurb",
    "ddi": "ddi2013/blurb",
    "gad": "gad/blurb",
    "biosses": "biosses/blurb",
    "hoc": "hoc/blurb",
}
