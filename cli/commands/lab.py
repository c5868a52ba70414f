"""The ``lab`` command group with its subcommands, and the commands that list skills and baselines."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import lab_baselines, lab_findings, lab_projects, lab_skills, lab_workspace
from cli.commands.lab_options import Purpose, Query, Tag
from cli.commands.options import AsJson
from cli.running import wait_for

app = typer.Typer(
    help="Find out which prompt is better, and make a better one / 技能实验室",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
ASSETS, PROJECTS, RESULTS, WORKSPACE = (
    "Assets / 资产",
    "Projects / 项目",
    "Results / 结果",
    "Workspace / 工作区",
)
Everything = Annotated[bool, typer.Option("--all", "-a", help="Archived ones, too / 包括已归档的")]


@app.command("skills", rich_help_panel=ASSETS)
def skills(
    purpose: Purpose = None,
    tag: Tag = None,
    query: Query = None,
    everything: Everything = False,
    json: AsJson = False,
) -> None:
    """List the skills / 列出技能"""
    from cli.lab.skills import show_skills

    wait_for(show_skills(purpose, tag, query, everything=everything, as_json=json))


@app.command("baselines", rich_help_panel=ASSETS)
def baselines(
    purpose: Purpose = None,
    tag: Tag = None,
    query: Query = None,
    everything: Everything = False,
    json: AsJson = False,
) -> None:
    """List the baselines / 列出测试基线"""
    from cli.lab.baselines import show_baselines

    wait_for(show_baselines(purpose, tag, query, everything=everything, as_json=json))


app.add_typer(lab_skills.skill, name="skill", rich_help_panel=ASSETS)
app.add_typer(lab_skills.tag, name="tag", rich_help_panel=ASSETS)
app.add_typer(lab_baselines.baseline, name="baseline", rich_help_panel=ASSETS)
app.add_typer(lab_baselines.case, name="case", rich_help_panel=ASSETS)
app.command("samples", rich_help_panel=ASSETS)(lab_skills.samples)
app.command("promptfoo", rich_help_panel=ASSETS)(lab_skills.promptfoo)
app.command("projects", rich_help_panel=PROJECTS)(lab_projects.projects)
app.add_typer(lab_projects.project, name="project", rich_help_panel=PROJECTS)
app.command("plan", rich_help_panel=PROJECTS)(lab_projects.plan)
app.command("run", rich_help_panel=PROJECTS)(lab_projects.run)
app.command("pause", rich_help_panel=PROJECTS)(lab_projects.pause)
app.command("resume", rich_help_panel=PROJECTS)(lab_projects.resume)
app.command("skip", rich_help_panel=PROJECTS)(lab_projects.skip)
app.command("analyse", rich_help_panel=RESULTS)(lab_findings.analyse)
app.command("recompose", rich_help_panel=RESULTS)(lab_findings.recompose)
app.command("iterate", rich_help_panel=RESULTS)(lab_findings.iterate)
app.command("iteration", rich_help_panel=RESULTS)(lab_findings.iteration)
app.command("stop", rich_help_panel=RESULTS)(lab_findings.stop)
app.command("board", rich_help_panel=RESULTS)(lab_findings.board)
app.command("report", rich_help_panel=RESULTS)(lab_findings.report)
app.add_typer(lab_workspace.settings, name="cli", rich_help_panel=WORKSPACE)
app.command("sessions", rich_help_panel=WORKSPACE)(lab_workspace.sessions)
app.command("bench", rich_help_panel=WORKSPACE)(lab_workspace.bench)
