"""The parts that all pages of HTML share: the page of entities, and the report."""

from __future__ import annotations

import base64
import hashlib
import html
import re

_NOT_IN_HTML = re.compile("[\0\ud800-\udfff]")


def head(title: str, style: str, images: str = "") -> str:
    """Returns a page of HTML up to its body, which may load nothing.

    Its Content-Security-Policy allows the style sheet alone, by its hash, and images if need be.

    Args:
      title: of the page, as HTML.
      style: its style sheet.
      images: a directive of the policy that allows images, such as "img-src data:; ".
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
{images}style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
"""


def escaped(text: str) -> str:
    """Escapes a text for a page of HTML, whose parsers would make a line end of a carriage return.

    U+FFFD stands for U+0000 and lone surrogates, which HTML cannot hold.

    Args:
      text: any text.
    """
    return html.escape(_NOT_IN_HTML.sub("\ufffd", text)).replace("\r", "&#13;")
