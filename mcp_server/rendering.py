"""How is a result worded, so that its text stands alone?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult

from mcp_server.budget import RESULT_TOKENS, Budget
from mcp_server.results import result
from mcp_server.texts import for_tools, tell
from personalab.operations.reading import place_of_reply
from personalab.services import Services
from personalab.texts import Language

if TYPE_CHECKING:
    from nodes.chat_turn.state import TurnOutput


async def turn_result(
    found: TurnOutput, services: Services, budget: Budget, language: Language
) -> CallToolResult:
    """Word a turn that is over; a reply that failed is an error which says what to do."""
    status, reply = found.get("status", "error"), found.get("reply", "")
    instance_id = found.get("instance_id", "")
    shown = budget.cut(reply)
    data: dict[str, Any] = {
        "instance_id": instance_id,
        "session_id": found.get("session_id", ""),
        "turn": found.get("turn"),
        "status": status,
        "reply": shown,
        "plot_state": found.get("plot_state", {}),
        "warnings": plain_warnings(found.get("warnings", [])),
        "usage": found.get("usage"),
    }
    rows = [shown] if shown else []
    if len(shown) < len(reply):
        place = (instance_id, data["session_id"], data["turn"], len(shown))
        data["cursor"] = await asyncio.to_thread(place_of_reply, services, *place)
        sizes = {"total": len(reply), "shown": len(shown)}
        rows.append(tell("reply_cut", language, instance_id=instance_id, cursor=data["cursor"], **sizes))
    rows.append(_footer(data, language))
    rows += warning_rows(data["warnings"], language)
    if error := found.get("error"):
        message = for_tools(str(error.get("message", "")))
        data["error"] = {"code": error.get("code"), "message": message, "retryable": error.get("retryable")}
        rows.append(tell("error_line", language, message=message))
    if status != "done":
        rows.append(tell("retry_hint", language, instance_id=instance_id))
    return result("\n\n".join(rows), data, is_error=status == "error")


def begun_turn(found: TurnOutput, budget: Budget, language: Language) -> CallToolResult:
    """Word a turn that waits for the host's reply, with the prompt to write it by."""
    instance_id, turn = found.get("instance_id", ""), found.get("turn")
    data: dict[str, Any] = {
        "instance_id": instance_id,
        "session_id": found.get("session_id", ""),
        "turn": turn,
        "status": found.get("status"),
        "plot_state": found.get("plot_state", {}),
        "warnings": plain_warnings(found.get("warnings", [])),
    }
    if found.get("status") != "awaiting_reply":
        return _not_awaited(found, data, budget, language)
    prompt = _within(found.get("prompt") or {}, budget, language)
    data |= {"prompt": prompt, "tokens": found.get("tokens") or {}}
    rows = [tell("write_now", language, instance_id=instance_id, turn=turn)]
    if omitted := prompt.get("omitted_messages"):
        rows.append(tell("left_out", language, count=omitted, instance_id=instance_id))
    rows += warning_rows(data["warnings"], language)
    rows.append(f"=== system ===\n{prompt['system']}")
    rows += [f"=== {message['role']} ===\n{message['content']}" for message in prompt["messages"]]
    return result("\n\n".join(rows), data)


def _not_awaited(
    found: TurnOutput, data: dict[str, Any], budget: Budget, language: Language
) -> CallToolResult:
    """Show a turn of a repeated call that was answered before, or one that could not be begun."""
    rows: list[str] = []
    if error := found.get("error"):
        message = for_tools(str(error.get("message", "")))
        data["error"] = {"code": error.get("code"), "message": message, "retryable": error.get("retryable")}
        rows.append(message)
    else:
        data["reply"] = budget.cut(found.get("reply", ""))
        rows += [tell("answered_before", language, turn=data["turn"]), data["reply"], _footer(data, language)]
    rows += warning_rows(data["warnings"], language)
    return result("\n\n".join(rows), data, is_error=data["status"] == "error")


def _within(prompt: Mapping[str, Any], budget: Budget, language: Language) -> dict[str, Any]:
    """Keep as much of a prompt as a result may carry: the system message, then the newest messages."""
    system, left = str(prompt.get("system", "")), RESULT_TOKENS
    shown = budget.cut(system, RESULT_TOKENS * 3 // 4)
    if len(shown) < len(system):
        shown += "\n" + tell("system_cut", language)
    left -= budget.cost(shown)
    messages: list[dict[str, str]] = list(prompt.get("messages", []))
    kept: list[dict[str, str]] = []
    for message in reversed(messages):
        cost = budget.cost(message["content"]) + 10
        if cost > left:
            if not kept:
                kept.append({**message, "content": budget.cut_from_end(message["content"], left)})
            break
        kept.append(message)
        left -= cost
    found: dict[str, Any] = {"system": shown, "messages": kept[::-1]}
    if len(kept) < len(messages):
        found["omitted_messages"] = len(messages) - len(kept)
    return found


def plain_warnings(warnings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Give warnings without what only a stream needs, naming tools instead of commands."""
    plain: list[dict[str, Any]] = []
    for warning in warnings:
        kept = {name: value for name, value in warning.items() if name not in ("type", "turn")}
        for name in ("message", "suggestion"):
            if name in kept:
                kept[name] = for_tools(str(kept[name]))
        plain.append(kept)
    return plain


def warning_rows(warnings: Sequence[Mapping[str, Any]], language: Language) -> list[str]:
    """Word warnings with what can be done about them."""
    stop = "；" if language == "zh" else "; "
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
