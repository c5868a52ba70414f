"""The findings of the doctor, with the message and the remedy of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.i18n import Language, Section, languages
from personalab.texts import render

Level = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be; a note needs no action."""

    code: str
    file: str
    line: int | None = None
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    fixable: bool = False
    fixed: bool = False
    level: Level = "problem"

    def message(self, language: Language) -> str:
        """Return what is wrong."""
        return render(MESSAGES, self.code, language, **self.params)

    def remedy(self, language: Language) -> str:
        """Return what to do."""
        if self.fixable:
            return REMEDIES.say("fix", language)
        return render(REMEDIES, self.code, language, file=self.file, **self.params)

    def as_json(self, language: Language) -> dict[str, Any]:
        """Return the form that leaves the process, with the message in every language."""
        return {
            "code": self.code,
            "level": self.level,
            "file": self.file,
            "line": self.line,
            "message": self.message(language),
            "messages": {each: self.message(each) for each in languages()},
            "remedy": "" if self.fixed else self.remedy(language),
            "fixable": self.fixable,
            "fixed": self.fixed,
        }


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything that was found."""

    findings: list[Finding]
    files: int
    """How many files were looked at."""

    @property
    def healthy(self) -> bool:
        """Whether no problem is left."""
        return all(finding.fixed or finding.level == "note" for finding in self.findings)

    def as_json(self, language: Language) -> dict[str, Any]:
        """Return the form that leaves the process."""
        findings = [finding.as_json(language) for finding in self.findings]
        return {"healthy": self.healthy, "files": self.files, "findings": findings}


MESSAGES = Section("doctor", "findings")
REMEDIES = Section("doctor", "remedies")
