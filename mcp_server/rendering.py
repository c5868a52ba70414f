"""Result texts of turns and warnings, complete without the structured content."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult

from mcp_server.budget import MESSAGE_TOKENS, RESULT_TOKENS, Budget
from mcp_server.desk import McpContext
from mcp_server.knowing import brief
from mcp_server.results import result
from mcp_server.texts import tell
from personalab.i18n import ABOUT
from personalab.operations.reading import place_of_reply
from personalab.story.transcript import shown_reply
from personalab.texts import Language

if TYPE_CHECKING:
    from nodes.chat_turn.state import TurnOutput


async def turn_result(
    found: TurnOutput, desk: McpContext, *, lead: str = "", reasoning: bool = False
) -> CallToolResult:
    """Word a turn that is over; a reply that failed is an error which says what to do."""
    budget, language = await desk.budget(), desk.language
    data = _turn_data(found)
    status, instance_id = data["status"], data["instance_id"]
    reply = shown_reply(found.get("reply", ""), language)
    left, thought = RESULT_TOKENS, ""
    if reasoning and (thoughts := found.get("reasoning", "")):
        data["reasoning"] = brief(thoughts, budget, RESULT_TOKENS // 4)
        left -= budget.cost(data["reasoning"])
        thought = tell("thought", language, text=data["reasoning"])
    data |= {"reply": budget.cut(reply, left), "truncated": bool(found.get("truncated"))}
    data["usage"] = found.get("usage")
    shown = data["reply"]
    rows = [row for row in (lead, thought, shown) if row]
    if len(shown) < len(reply):
        place = (instance_id, data["session_id"], data["turn"], len(shown))
        data["cursor"] = await asyncio.to_thread(place_of_reply, desk.services, *place)
        sizes = {"total": len(reply), "shown": len(shown)}
        rows.append(tell("reply_cut", language, instance_id=instance_id, cursor=data["cursor"], **sizes))
    if data["truncated"]:
        rows.append(tell("truncated", language))
    rows.append(_footer(data, language))
    rows += warning_rows(data["warnings"], language)
    if care := plain_warnings(found.get("care", [])):
        data["care"] = care
        rows += warning_rows(care, language)
    if error := found.get("error"):
        message = desk.worded(str(error.get("message", "")))
        data["error"] = {"code": error.get("code"), "message": message, "retryable": error.get("retryable")}
        rows.append(tell("error_line", language, message=message))
    elif status == "error":
        message = tell("failed_before", language)
        data["error"] = {"code": "failed_before", "message": message, "retryable": True}
    if status != "done":
        rows.append(tell("retry_hint", language, instance_id=instance_id))
    return result("\n\n".join(rows), data, is_error=status == "error")


def _turn_data(found: TurnOutput) -> dict[str, Any]:
    return {
        "instance_id": found.get("instance_id", ""),
        "session_id": found.get("session_id", ""),
        "turn": found.get("turn"),
        "status": found.get("status", "error"),
        "plot_state": found.get("plot_state", {}),
        "warnings": plain_warnings(found.get("warnings", [])),
    }


async def begun_turn(found: TurnOutput, desk: McpContext) -> CallToolResult:
    """Word a turn that waits for the host's reply, with the prompt to write it by.

    A turn of a repeated call may have been answered before, and one over its limit cannot be: they are shown so.
    """
    budget, language = await desk.budget(), desk.language
    data = _turn_data(found)
    if data["status"] != "awaiting_reply":
        lead = "" if found.get("error") else tell("answered_before", language, turn=data["turn"])
        return await turn_result(found, desk, lead=lead)
    prompt = _within(found.get("prompt") or {}, budget, language)
    data |= {"prompt": prompt, "tokens": found.get("tokens") or {}}
    names = {"instance_id": data["instance_id"], "turn": data["turn"]}
    rows = [tell("write_now", language, **names)]
    for part in ("omitted_messages", "omitted_characters"):
        if part in prompt:
            rows.append(tell(part, language, count=prompt[part], **names))
    rows += warning_rows(data["warnings"], language)
    rows.append(f"=== system ===\n{prompt['system']}")
    rows += [f"=== {message['role']} ===\n{message['content']}" for message in prompt["messages"]]
    return result("\n\n".join(rows), data)


def _within(prompt: Mapping[str, Any], budget: Budget, language: Language) -> dict[str, Any]:
    """Keep as much of a prompt as a result may carry: the system message, then the newest messages.

    Of a long system message the middle is left out: the outline and the director's instructions are at its end. Of
    a newest message that alone is too long the end is kept: reminders and memories precede it.
    """
    system, left = str(prompt.get("system", "")), RESULT_TOKENS
    shown, half = system, RESULT_TOKENS * 3 // 8
    if len(budget.cut(system, half * 2)) < len(system):
        first, last = budget.cut(system, half), budget.cut_from_end(system, half)
        omitted = len(system) - len(first) - len(last)
        shown = f"{first}\n{tell('system_cut', language, count=omitted)}\n{last}"
    left -= budget.cost(shown)
    messages: list[dict[str, str]] = list(prompt.get("messages", []))
    kept: list[dict[str, str]] = []
    found: dict[str, Any] = {"system": shown}
    for message in reversed(messages):
        cost = budget.cost(message["content"]) + MESSAGE_TOKENS
        if cost > left:
            if not kept:
                content = budget.cut_from_end(message["content"], left)
                kept.append({**message, "content": content})
                found["omitted_characters"] = len(message["content"]) - len(content)
            break
        kept.append(message)
        left -= cost
    found["messages"] = kept[::-1]
    if len(kept) < len(messages):
        found["omitted_messages"] = len(messages) - len(kept)
    return found


def plain_warnings(warnings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return warnings without what only a stream needs."""
    return [
        {name: value for name, value in warning.items() if name not in ("type", "turn")}
        for warning in warnings
    ]


def warning_rows(warnings: Sequence[Mapping[str, Any]], language: Language) -> list[str]:
    """Word warnings with what can be done about them."""
    stop = ABOUT.say("semicolon", language)
    return [
        tell(
            "warning",
            language,
            message=stop.join(str(item[name]) for name in ("message", "suggestion") if item.get(name)),
        )
        for item in warnings
    ]


def _footer(data: Mapping[str, Any], language: Language) -> str:
    plot = data["plot_state"]
    where = ""
    if plot:
        where = tell(
            "footer_plot",
            language,
            index=plot.get("current_plot_index"),
            status=plot.get("current_status"),
            count=plot.get("no_update_count"),
        )
    return tell(
        "footer",
        language,
        turn=data["turn"],
        session_id=data["session_id"],
        status=data["status"],
        plot=where,
    )
