"""Files for the tests of formats, and annotated documents that are hard to write."""

import re

import pytest

from tests import reference
from tfbio.formats import annotation_formats as formats
from tfbio.formats.annotated_documents import Document, Entity, Passage
from tfbio.runs import document_formats

# What a document of BioC is made of, as its DTD says (Comeau et al., 2013; bioc.sourceforge.net).
DTD = """
<!ELEMENT collection (source, date, key, infon*, document+)>
<!ELEMENT document (id, infon*, passage+, relation*)>
<!ELEMENT passage (infon*, offset, ((text?, annotation*) | sentence*), relation*)>
<!ELEMENT sentence (infon*, offset, text?, annotation*, relation*)>
<!ELEMENT annotation (infon*, location*, text)>
<!ELEMENT relation (infon*, node*)>
<!ELEMENT location EMPTY> <!ELEMENT node EMPTY>
<!ELEMENT source (#PCDATA)> <!ELEMENT date (#PCDATA)> <!ELEMENT key (#PCDATA)>
<!ELEMENT id (#PCDATA)> <!ELEMENT infon (#PCDATA)>
<!ELEMENT offset (#PCDATA)> <!ELEMENT text (#PCDATA)>
<!ATTLIST infon key CDATA #REQUIRED> <!ATTLIST annotation id CDATA #IMPLIED>
<!ATTLIST location offset CDATA #REQUIRED length CDATA #REQUIRED>
<!ATTLIST relation id CDATA #IMPLIED> <!ATTLIST node refid CDATA #REQUIRED role CDATA "">
"""

# Astral and combining characters, tabs, a Windows line end within a mention, marks of XML.
ODD = (
    "\U0001d6fc\u2010MSH & <caf\u00e9>\r\nCa\u00b2\u207a\te\u0301 \u201cA\u2028B\u201d."
    "\n\nEnd\U0001f9ec."
)


def odd():
    """A document of two passages, and entities in both, one on two lines."""
    second = ODD.index("End")
    passages = (Passage(0, second - 2, "title"), Passage(second, len(ODD), ""))
    mentions = ("\U0001d6fc\u2010MSH", "<caf\u00e9>\r\nCa\u00b2\u207a\te\u0301", "End\U0001f9ec")
    entities = [Entity("Chemical", ODD.index(m), ODD.index(m) + len(m)) for m in mentions]
    return Document("odd", ODD, passages), entities


EMPTY = Document("empty", "", ()), []


def written(path, form, annotated):
    formats.write(str(path), form, annotated)
    return path.read_bytes().decode()


def gold(text):
    """(id, title, abstract, annotations) of PubTator's documents, read by pattern."""
    for block in text.strip("\n").split("\n\n"):
        name, title, abstract = re.match(r"(\d+)\|t\|(.*)\n\1\|a\|(.*)", block).groups()
        rows = re.findall(rf"^{name}\t(\d+)\t(\d+)\t(.*?)\t(\w+)\t", block, re.MULTILINE)
        yield name, title, abstract, [(int(a), int(b), m, kind) for a, b, m, kind in rows]


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write(content, name="file.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture(scope="session")
def ncbi():
    return reference.corpus("ncbi_disease/pubtator/NCBIdisease_Test.PubTator")


@pytest.fixture(scope="session")
def ncbi_gold(ncbi):
    """NCBI's test documents as they are read, with the gold entities as the file has them."""
    found = list(gold(ncbi.read_text()))
    read = list(document_formats.read(str(ncbi)))
    entities = [[Entity(kind, a, b) for a, b, _, kind in own] for *_, own in found]
    return list(zip(read, entities, strict=True))
