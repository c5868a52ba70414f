"""Texts of the MCP server: those for people are in the catalogues, those for models are here."""

from __future__ import annotations

from personalab.i18n import Language, Section
from personalab.texts import render

TEXTS = Section("mcp", "texts")
TITLES = Section("mcp", "titles")
INSTRUCTIONS = Section("mcp", "instructions")


def tell(code: str, language: Language, /, **params: object) -> str:
    """Return a text of this entrance; a code without a text gives nothing."""
    return render(TEXTS, code, language, **params)


DESCRIPTIONS = {
    "persona_chat": "One whole turn: send what the user says, get the character's reply. Use it for every message to the character, unless you write the replies yourself (persona_begin_turn).",
    "persona_begin_turn": "Use it when you, the host's model, write the character's reply: saves what the user says and returns the prompt to write by. Follow with persona_end_turn.",
    "persona_end_turn": "Save the reply you wrote for a turn begun with persona_begin_turn; the same text again is harmless.",
    "persona_retry": "Retry the last turn when its reply failed, was empty, was interrupted or never came.",
    "persona_stop": "Stop the reply that is being written for a story, also by another client; what is written stays.",
    "persona_read": "Read a story's session, the newest turn first; pass cursor for older turns.",
    "persona_library": "List characters, backgrounds and stories, or show one entry in full (kind and entry_id). Use it first, to find ids.",
    "persona_new_instance": "Start a new story with a character, with or without a background.",
    "persona_save_character": "Create a character, or change one (replace: true; what you leave out stays).",
    "persona_save_background": "Create a world with its story outline, or change one (replace: true; what you leave out stays).",
    "persona_switch_background": "Switch a story to another background, or to none (null); its plot progress is kept.",
    "persona_summarize": "Summarize a long session into events and continue in a new one, when a warning says it is long. On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "persona_update_memory": "Update the character from the last turns and learn about the player; show its changes (history). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "persona_recall": "Search what happened earlier in a story, when someone refers to it or you need a fact.",
    "persona_prompt": "Show a story's state (outline, progress, warnings) and preview the next prompt by section with token counts. Read-only.",
    "persona_settings": "Show all settings with their ranges; change some (changes) or restore the defaults (reset).",
    "memory_save_conversation": "Save a conversation between an agent and a user, and learn from it (learn: true). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "memory_get": "Show what an agent knows about a user: profile, events, mind, with content_ids; or what changed; or a conversation.",
    "memory_search": "Search what an agent knows about a user, or their saved conversations.",
    "memory_edit": "Edit what an agent knows about a user: add (content_type, text), replace (content_id, text), remove (content_id), or undo the last change.",
    "memory_forget": "Delete all an agent knows about a user, with history and conversations. Cannot be undone: ask the user first.",
    "archive_import": "Import a character card, lorebook, chat or Veloca file: by its name in the folder exchange, or by its content.",
    "archive_export": "Export a story, character or background to a file in the folder exchange, for other programs; progress markers and reasoning only if asked.",
    "archive_compact": "Summarize the old part of an archived conversation (Veloca). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "skill_list": "List the skills (prompts) of the lab with tags and best scores. Use it to find ids.",
    "skill_get": "Show a skill: content (paged), tags, versions, its origin, or what changed.",
    "skill_save": "Save a new skill (name, content, purpose), change one (each change is a new version), archive it, or import one.",
    "skill_tag": "Add or remove a tag, have a model suggest some (auto), approve or reject a suggested one. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "baseline_list": "List the baselines (sets of test cases). Use it to find ids.",
    "baseline_get": "Show a baseline's cases and the drafts to review.",
    "baseline_save": "Save a baseline (name, purpose, cases), change it or its cases, let a model draft cases (generate), accept or reject drafts. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "project_create": "Choose skills and baselines to test; returns the plan of a run. Free.",
    "project_run": "Run or resume a project: returns the plan first if it may cost money. The run continues if this call times out: follow it with project_status or by calling again.",
    "project_status": "List projects, or show one: progress, ranking with intervals and ties, its plan, analysis or search.",
    "project_report": "Write a project's report into the folder exchange: html for people, junit for CI, csv for every case.",
    "analysis_run": "Find the segments that make the better skills of a project better; use it after a run. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "skill_recompose": "Build a new skill from a project's segments; kept ones stay verbatim. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "iteration_start": "Search for a better skill from a project's segments, or continue a search: returns the plan first if it may cost money. It continues if this call times out.",
    "iteration_stop": "Stop a project's search; the best so far is kept.",
    "leaderboard_query": "Show how skills did on baselines over all projects, and which scores are out of date.",
}
"""What each tool does, for the model that calls it."""
