"""The parts that pages share."""

from html.parser import HTMLParser

import pytest

from tfbio.formats import html_parts


@pytest.mark.parametrize("text", ["<b>&amp;\"'", "a\r\nb\rc", "\u202e\U0001f9ec", "", "]]>--><!--"])
def test_a_text_comes_back_as_it_was(text):
    class Reader(HTMLParser):
        read = ""

        def handle_data(self, data):
            self.read += data

    reader = Reader()
    reader.feed(f"<p>{html_parts.escaped(text)}</p>")
    reader.close()
    assert reader.read == text


def test_what_html_cannot_hold_is_replaced():
    assert html_parts.escaped("a\0b\ud800") == "a\ufffdb\ufffd"


def test_a_page_allows_its_own_style_and_what_it_names():
    assert "img-src" not in html_parts.head("title", "p{}")
    # printf 'p{}' | openssl dgst -sha256 -binary | base64
    digest = "gG2yISYereRMiG2lMXrbiUgi0Ubw9p7QCeWcroOvy9Y="
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
    assert policy in html_parts.head("title", "p{}", "img-src data:; ")
