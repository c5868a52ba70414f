"""The files of an iteration.

``iterations/`` of a project holds one iteration: its plan, a folder for each round with the candidates and
their results, and the reports. When another one is started, the whole folder is set aside.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from personalab.data_files import make_folder_below, read_json, replace_file, write_json, writing
from personalab.lab.assets import SkillMeta, unique_name
from personalab.lab.findings import ExplorationLog, IterationReport, RoundConfig
from personalab.lab.iterating import IterationPlan
from personalab.lab.records import asset_folder, compact_time

FOLDER = "iterations"
_STOP = "x_stop"
_PLAN, _REPORT, _LOG, _LEDGER = (
    "x_iteration.json",
    "iteration_report.json",
    "exploration_log.json",
    "x_ledger.json",
)


class IterationFiles:
    """The iteration of a project."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self.folder = project / FOLDER

    def _shown(self, path: Path) -> str:
        return f"{self._project.name}/{path.relative_to(self._project)}"

    # --- the plan

    def plan(self) -> IterationPlan | None:
        """Read the plan of the current iteration."""
        path = self.folder / _PLAN
        return (
            IterationPlan.read(read_json(path, self._shown(path)), self._shown(path))
            if path.exists()
            else None
        )

    def save_plan(self, plan: IterationPlan) -> None:
        """Write the plan, whether new or changed."""
        make_folder_below(self._project, self.folder, self._shown(self.folder))
        self._write(self.folder / _PLAN, plan.fields(_PLAN))

    def set_aside(self, now: str) -> str | None:
        """Move an iteration out of the way of the next; give the name it has then."""
        if not self.folder.exists():
            return None
        name = unique_name(f"x_{FOLDER}_{compact_time(now)}", set(os.listdir(self._project)))
        target = self._project / name
        with writing(self._shown(self.folder)):
            os.rename(self.folder, target)
        return target.name

    def set_aside_before(self) -> int:
        """Count the iterations there were before the next one."""
        return len(list(self._project.glob(f"x_{FOLDER}_*"))) + self.folder.exists()

    def want_stop(self, wanted: bool) -> None:
        """Store or remove a person's request to end the search with its report."""
        path = self.folder / _STOP
        with writing(self._shown(path)):
            if wanted:
                path.touch(mode=0o600)
            else:
                path.unlink(missing_ok=True)

    def stop_wanted(self) -> bool:
        """Return whether a person wants the search to end."""
        return (self.folder / _STOP).exists()

    # --- rounds

    def round_folder(self, number: int) -> Path:
        """Name the folder of a round; 0 is for what is tested once more at the end."""
        return self.folder / (f"round_{number}" if number else "x_retest")

    def results(self, number: int) -> Path:
        """Name the folder of a round's results."""
        return self.round_folder(number) / "results"

    def all_results(self, first: int) -> list[Path]:
        """List the result folders that may hold an evaluation, its own round's first; re-tests are separate."""
        if first == 0:
            return [self.results(0)]
        others = sorted(self.folder.glob("round_*/results"))
        return [self.results(first), *(path for path in others if path != self.results(first))]

    def save_candidate(self, number: int, meta: SkillMeta, content: str) -> Path:
        """Write a candidate's files and give the one with its content; the same ones are written but once."""
        folder = self.round_folder(number) / "skills" / asset_folder("skill", meta.id, meta.version)
        file = folder / meta.content_file
        if not (folder / "meta.json").exists():
            make_folder_below(self._project, folder, self._shown(folder))
            replace_file(file, content.encode("utf-8"), self._shown(file))
            self._write(folder / "meta.json", meta.fields("meta.json"))
        return file

    def round_config(self, number: int) -> RoundConfig | None:
        """Read what is written of a round."""
        path = self.round_folder(number) / "config.json"
        return (
            RoundConfig.read(read_json(path, self._shown(path)), self._shown(path)) if path.exists() else None
        )

    def save_round(self, config: RoundConfig) -> None:
        """Write what there is to say of a round."""
        folder = self.round_folder(config.round)
        make_folder_below(self._project, folder, self._shown(folder))
        self._write(folder / "config.json", config.fields("config.json"))

    # --- reports

    def save_log(self, log: ExplorationLog) -> None:
        """Write everything that was tried so far."""
        self._write(self.folder / _LOG, log.fields(_LOG))

    def save_ledger(self, ledger: dict[str, Any]) -> None:
        """Write what is known of each segment."""
        self._write(self.folder / _LEDGER, ledger)

    def save_report(self, report: IterationReport) -> None:
        """Write how it ended."""
        self._write(self.folder / _REPORT, report.fields(_REPORT))

    def report(self) -> IterationReport | None:
        """Read how it ended; ``None`` while it goes on."""
        path = self.folder / _REPORT
        if not path.exists():
            return None
        return IterationReport.read(read_json(path, self._shown(path)), self._shown(path))

    def log(self) -> ExplorationLog | None:
        """Read what was tried so far."""
        path = self.folder / _LOG
        return (
            ExplorationLog.read(read_json(path, self._shown(path)), self._shown(path))
            if path.exists()
            else None
        )

    def ledger(self) -> dict[str, Any] | None:
        """Read what is known of each segment."""
        path = self.folder / _LEDGER
        found = read_json(path, self._shown(path)) if path.exists() else None
        return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType] (JSON)

    def _write(self, path: Path, data: dict[str, Any]) -> None:
        write_json(path, data, self._shown(path))
