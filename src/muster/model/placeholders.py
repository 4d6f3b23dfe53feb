"""Placeholders in the texts of a sweep: `{lr}` stands for the member's value of `lr`.

`{{lr}}` is `{lr}` itself, `${lr}` is left to the shell, and braces around anything but a name (JSON,
`{1..4}`) are no placeholders.
"""

import re
from collections.abc import Mapping

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
"""What a parameter may be called."""
_FOUND = re.compile(rf"(\$?)(\{{\{{({NAME})\}}\}}|\{{({NAME})\}})")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values in place of the names; one that is not given stays."""

    def value(found: re.Match[str]) -> str:
        dollar, whole, escaped, name = found.groups()
        if dollar:
            return found[0]
        return f"{{{escaped}}}" if escaped else values.get(name, whole)

    return _FOUND.sub(value, text)


def names_in(text: str) -> list[str]:
    """Return the names of all placeholders of a text, in order."""
    return [name for dollar, _, _, name in _FOUND.findall(text) if name and not dollar]
