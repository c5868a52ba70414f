"""Tools of the skill lab: comparing prompts, explaining the differences and making better prompts."""

from __future__ import annotations

from mcp_server.asking import Asking
from mcp_server.desk import McpContext
from mcp_server.lab_baselines import BaselineTools
from mcp_server.lab_desk import LabDesk
from mcp_server.lab_findings import FindingTools
from mcp_server.lab_projects import ProjectTools
from mcp_server.lab_runs import Runs
from mcp_server.lab_skills import SkillTools


class LabTools:
    """The lab's tools by what they are about."""

    def __init__(self, desk: McpContext, asking: Asking, runs: Runs) -> None:
        lab = LabDesk(desk, asking, runs)
        self.skills = SkillTools(lab)
        self.baselines = BaselineTools(lab)
        self.projects = ProjectTools(lab)
        self.findings = FindingTools(lab)
