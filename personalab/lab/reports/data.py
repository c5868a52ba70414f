"""The data model of a project's report.

Every part but the name may be missing: projects that have not run, are unfinished or have broken files can be
reported as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from personalab.lab.records import Category, Dimension
from personalab.lab.statistics import Interval

CellStatus = Literal["completed", "failed", "skipped", "broken"]
MAX_CELLS_WITH_TEXTS = 20_000
"""A larger matrix shows scores only."""
MAX_TEXT = 2_000
"""Maximum characters shown of an answer, a reason or an error."""


@dataclass(frozen=True, slots=True)
class ReportSkill:
    """A skill's place in a project; what is not known is ``None``."""

    skill_id: str
    name: str
    version: str
    rank: int | None = None
    tie_group: int | None = None
    mean: float | None = None
    interval: Interval | None = None
    sd: float | None = None
    behind: float | None = None
    """The paired difference to the first."""
    behind_interval: Interval | None = None
    gain: float | None = None
    """The difference to the arm without a skill."""
    gain_interval: Interval | None = None
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    incomplete: bool = False
    """It was not scored on all cases that others were scored on."""
    by_dimension: Mapping[Dimension, float] = field(default_factory=dict[Dimension, float])
    by_category: Mapping[Category, float] = field(default_factory=dict[Category, float])
    is_no_skill: bool = False


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case of one of the baselines."""

    case_id: str
    name: str = ""
    category: str = ""
    baseline_id: str = ""
    baseline: str = ""
    input: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text, and how many characters of it are left out."""

    text: str = ""
    more: int = 0

    def cut(self, limit: int) -> Excerpt:
        """Truncate a text after so many characters."""
        if len(self.text) <= limit:
            return self
        return Excerpt(self.text[:limit], self.more + len(self.text) - limit)


NO_TEXT = Excerpt()


@dataclass(frozen=True, slots=True)
class Cell:
    """What a skill did with a case."""

    status: CellStatus
    total: float | None = None
    scores: Mapping[Dimension, float] | None = None
    output: Excerpt = NO_TEXT
    reasoning: Excerpt = NO_TEXT
    error: str = ""
    duration_ms: int = 0
    cli_version: str = ""
    model_version: str = ""


@dataclass(frozen=True, slots=True)
class Costs:
    """What the calls of a project cost."""

    calls: int = 0
    failed_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    priced_calls: int = 0
    """Number of calls that reported their price."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Who scored, and how it did on the planted answers."""

    model: str
    gap: float | None = None
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class ReportNotice:
    """Something a reader must know before believing a figure; ``code`` names its words."""

    code: str
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    loud: bool = False


@dataclass(frozen=True, slots=True)
class CandidateDot:
    """A candidate of a round; one without a score was screened out or failed."""

    strategy: str
    score: float | None
    won: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class RoundMark:
    """One round of an iteration."""

    round: int
    strategy: str = ""
    winner: str = ""
    score: float | None = None
    plateau_level: int | None = None
    candidates: tuple[CandidateDot, ...] = ()


@dataclass(frozen=True, slots=True)
class Iteration:
    """How an iteration went."""

    rounds: tuple[RoundMark, ...] = ()
    stop_cause: str = ""
    start_score: float | None = None
    best_round: int | None = None
    best_name: str = ""
    best_score: float | None = None
    corrected: float | None = None
    corrected_interval: Interval | None = None
    retested: bool = True
    """Whether the best was tested once more; without that ``corrected`` is an estimate."""
    evaluations: int | None = None


@dataclass(frozen=True, slots=True)
class ContentPair:
    """The winner's text beside its parent's."""

    parent: str
    winner: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A stretch of a skill that does it good."""

    segment_id: str
    skill: str
    kind: str
    dimension: str
    content: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundIssue:
    """What a skill lacks."""

    skill: str
    dimension: str
    description: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found in the texts of the skills."""

    segments: tuple[FoundSegment, ...] = ()
    issues: tuple[FoundIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a report shows; ``cells`` has a line per skill with a place per case."""

    name: str
    project_id: str = ""
    description: str = ""
    status: str = ""
    created_at: str = ""
    scored_at: str = ""
    made_at: str = ""
    model: str = ""
    executors: tuple[str, ...] = ()
    judges: tuple[Judge, ...] = ()
    repeats: int = 1
    judge_repeats: int = 1
    pass_score: float = 60.0
    detectable: float | None = None
    """A smaller difference between two skills could not have been seen."""
    rows: tuple[ReportSkill, ...] = ()
    cases: tuple[CaseRow, ...] = ()
    cells: tuple[tuple[Cell | None, ...], ...] = ()
    costs: Costs | None = None
    notices: tuple[ReportNotice, ...] = ()
    iteration: Iteration | None = None
    pair: ContentPair | None = None
    analysis: Analysis | None = None

    def cell(self, skill: int, case: int) -> Cell | None:
        """Return a cell; ``None`` where nothing was run yet."""
        if skill >= len(self.cells) or case >= len(self.cells[skill]):
            return None
        return self.cells[skill][case]

    @property
    def with_texts(self) -> bool:
        """Whether the matrix is small enough to be shown with its texts."""
        return len(self.rows) * len(self.cases) <= MAX_CELLS_WITH_TEXTS
