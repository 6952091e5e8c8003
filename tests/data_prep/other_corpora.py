"""Makes files of corpora that are no articles: Wikipedia's pages, clinical notes, plain text."""

import csv
import io

# The output of WikiExtractor, commit 8f1b434, with --json, for a dump of three pages made for these
# tests; and of its commit e4abb4c, of 2019, which writes the title twice (Python 3.8).
WIKI_3 = (
    '{"id": "12", "revid": "112", "url": "https://en.wikipedia.org/wiki?curid=12", "title": '
    '"Aspirin", "text": "Aspirin, also known as acetylsalicylic acid (ASA), is a drug. It reduces '
    "pain &amp; fever (p &lt; 0.05).\\nIt was made by Hoffmann in 1897 \\u2013 in Germany.\\nUses."
    "\\nAspirin is used in the treatment of fever, of pain, and of inflammation. It is given to "
    "adults.\\nMechanism.\\nAspirin inhibits the enzyme cyclooxygenase. So platelets make no more "
    'thromboxane A2."}\n'
    '{"id": "13", "revid": "113", "url": "https://en.wikipedia.org/wiki?curid=13", "title": "ASA", '
    '"text": ""}\n'
)
WIKI_2 = (
    '{"id": "14", "url": "https://en.wikipedia.org/wiki?curid=14", "title": "Ménière\'s disease", '
    '"text": "Ménière\'s disease\\n\\nMénière\'s disease is a disease of the inner ear. Patients '
    "have vertigo, tinnitus and a loss of hearing.\\n\\nThe cause is unclear. It is named after "
    'Prosper Ménière.\\n"}\n'
)

COLUMNS = [
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY"),
    *("DESCRIPTION", "CGID", "ISERROR", "TEXT"),
]
# Made for these tests, in the form of MIMIC-III's notes.
DISCHARGE = (
    "Admission Date:  [**2151-7-16**]       Discharge Date:  [**2151-8-4**]\n\n\nService:\n"
    "ADDENDUM:\n\nThe patient, who was seen by Dr. [**Last Name (STitle) 2204**] at "
    '[**Hospital1 18**], was\ngiven "aspirin, 81 mg" and furosemide.  He was '
    "discharged\nin good condition.\n"
)
NURSING = "NPN 1900-0700:\n\nPt is alert & oriented x3. HR 80s, BP 120/60.\nSlept well.\n"


def note(row, category, text, subject="10006", is_error=""):
    """Returns the fields of a note, in the order of `COLUMNS`."""
    beginning = [row, subject, "167853", "2151-08-04", "", "", category, "Report"]
    return [*map(str, beginning), "", is_error, text]


def table(*rows, columns=COLUMNS):
    """Returns a table as MIMIC-III's: all texts are in quotes, and numbers are not."""
    stream = io.StringIO(newline="")
    stream.write(",".join(f'"{name}"' for name in columns) + "\n")
    for row in rows:
        quoted = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
        quoted.writerow(row)
    return stream.getvalue()


NOTES = table(
    note(174, "Discharge summary", DISCHARGE),
    note(175, "Nursing/other", NURSING, subject="23"),
    note(176, "Physician ", "Chart was opened in error.", is_error="1"),
    note(177, "Physician ", "Assessment: stable.\n\nPlan: discharge tomorrow.", subject="23"),
)

PLAIN = (
    "Of the mice in this trial all were fed.\nIt was so.\n\n \t\n"
    "Another document begins. It ends.\n"
)
