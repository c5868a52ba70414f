"""Under which id does something new come in, when all it has is a name?"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

from personalab.story.ids import is_id

MAX_ID = 64
_LONGEST = 48
"""A slug leaves room for a number behind it."""
_LEAST = 2
"""One letter that is left of a name names nobody."""
_APART = re.compile(r"[^a-z0-9]+")


def id_for(prefix: str, *names: str) -> str:
    """Make an id of the first name that Latin letters can tell, or else of the first name's digest."""
    for name in names:
        found = _slug(name)
        if is_id(found):
            return found
        if found and is_id(f"{prefix}_{found}"):
            return f"{prefix}_{found}"
    told = names[0].encode("utf-8", "surrogatepass") if names else b""
    return f"{prefix}_{hashlib.blake2b(told, digest_size=4).hexdigest()}"


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("_", plain.replace("'", "")).strip("_")[:_LONGEST].strip("_")
    return found if len(found) >= _LEAST else ""


def numbered(entry_id: str) -> Iterator[str]:
    """Give an id and then the same with a number, from 2 on, as short as an id has to be."""
    yield entry_id
    number = 2
    while True:
        tail = f"_{number}"
        yield entry_id[: MAX_ID - len(tail)] + tail
        number += 1
