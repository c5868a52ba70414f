"""Results of the application API: the page's API, MCP and ``--json`` of the terminal serialize the same models."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator

from personalab.dialogue import well_formed


class ResultModel(BaseModel):
    """What an operation returns to an entrance."""


def _well_formed(value: object) -> object:
    return well_formed(value) if isinstance(value, str) else value


Readable = Annotated[str, BeforeValidator(_well_formed)]
"""Text of a person, a model or a file, in which lone surrogates are replaced because they cannot be sent."""
