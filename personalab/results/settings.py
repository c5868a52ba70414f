"""Results about the settings."""

from __future__ import annotations

from pydantic import RootModel

from personalab.results import Readable

SettingValue = bool | int | Readable


class SettingValues(RootModel[dict[str, SettingValue]]):
    """Every setting by its dotted name."""
