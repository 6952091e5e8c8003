"""The labels of corpora that have many, for their readers and for the table of tasks."""

from collections.abc import Iterable

from tfbio.formats.task_examples import Example

# The labels of HoC in the order of the digits in its files, from the scripts that wrote them.
HALLMARKS = (
    "activating invasion and metastasis",
    "avoiding immune destruction",
    "cellular energetics",
    "enabling replicative immortality",
    "evading growth suppressors",
    "genomic instability and mutation",
    "inducing angiogenesis",
    "resisting cell death",
    "sustaining proliferative signaling",
    "tumor promoting inflammation",
)

# The types of entities in the sets that have several.
I2B2_CONCEPTS = ("problem", "test", "treatment")
I2B2_EVENTS = ("CLINICAL_DEPT", "EVIDENTIAL", "OCCURRENCE", "PROBLEM", "TEST", "TREATMENT")
# Protected health information, by the guidelines of i2b2 2014 (Stubbs and Uzuner, 2015).
_PHI = (
    "PATIENT DOCTOR USERNAME PROFESSION ROOM DEPARTMENT HOSPITAL ORGANIZATION STREET CITY STATE "
    "COUNTRY ZIP LOCATION-OTHER AGE DATE PHONE FAX EMAIL URL IPADDR IPADDRESS SSN MEDICALRECORD "
    "HEALTHPLAN ACCOUNT LICENSE VEHICLE DEVICE BIOID IDNUM"
)
I2B2_PHI = tuple(_PHI.split())


def labels_of(examples: Iterable[Example]) -> tuple[str, ...]:
    """Returns the label set of a task's examples as a sorted tuple, each label once.

    They are the types of tags, the classes or the labels; scores and answers are no labels.
    """
    return tuple(sorted({name for example in examples for _, name in example.numbered_labels()}))


def labels_between_bars(cell: str) -> tuple[str, ...]:
    """Returns the label set of a multi-label cell, `a|b`, as a tuple; () for an empty one."""
    return tuple(cell.split("|")) if cell else ()
