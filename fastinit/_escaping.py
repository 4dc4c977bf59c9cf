"""The one place that makes untrusted text safe to show.

Names, policies, metadata and file names come from files that anyone may have written. A terminal obeys control
characters, and a bidirectional control such as U+202E shows text in another order than it has. Command line,
errors, tables, drawings and pages all show what `escaped` returns. JSON output needs no help: it escapes itself.
"""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""Return `text` with every character that is not printable written as in a Python string: ``\x1b``.

    These are control and format characters (the bidirectional ones among them), lone surrogates, line breaks and
    every blank except the space. The result is for eyes: a backslash stays one, so it cannot be read back.

    Examples
    --------
    >>> print(escaped("weight\u202eevil\x1b[2J"))
    weight\u202eevil\x1b[2J
    >>> print(escaped("模型.weight"))
    模型.weight
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
