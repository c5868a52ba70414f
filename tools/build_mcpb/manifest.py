"""The bundle's manifest, with the descriptions of tools and prompts as the server lists them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from personalab.services import open_services
from personalab.settings import read_settings
from personalab.texts import Language

ENTRY_POINT = "server/main.py"

MAIN = '''\
"""The host starts this file."""

import sys

from mcp_server.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
'''

LONG_DESCRIPTION = """\
PersonaLab keeps stories as plain files on your computer: who a character is, what has happened, where the plot \
stands. Ask Claude to begin a story, and go on with it another day. Without a key Claude itself plays the \
character; with a key or a server of your own, that model does.

PersonaLab 把故事保存为你电脑上的普通文件：角色是谁、发生过什么、情节走到哪里。\
让 Claude 开始一个故事，改天可以接着继续。\
没有密钥时由 Claude 自己扮演角色；填了密钥或自己的服务器地址，就由那个模型来扮演。

The first start downloads the Python packages it needs, which takes a minute or two; afterwards nothing is \
downloaded. / 第一次启动会下载所需的 Python 软件包，需要一两分钟；之后不再下载任何东西。
"""

USER_CONFIG: dict[str, tuple[str, dict[str, Any]]] = {
    "api_key": (
        "OPENAI_API_KEY",
        {
            "type": "string",
            "title": "API key / API 密钥",
            "description": "Of OpenAI or a compatible service; left empty, Claude itself writes the replies "
            "/ OpenAI 或兼容服务的密钥；留空则由 Claude 自己写回复",
            "sensitive": True,
        },
    ),
    "base_url": (
        "OPENAI_BASE_URL",
        {
            "type": "string",
            "title": "Server address / 服务器地址",
            "description": "Of a server that speaks OpenAI's protocol, e.g. http://127.0.0.1:11434/v1 for Ollama; "
            "left empty, OpenAI / 兼容 OpenAI 的服务器地址，例如 Ollama；留空则用 OpenAI",
        },
    ),
    "model": (
        "PERSONALAB_MODEL",
        {
            "type": "string",
            "title": "Model / 模型",
            "description": "For example openai:gpt-4o-mini or openai:qwen3:8b / 例如 openai:gpt-4o-mini",
        },
    ),
    "data_folder": (
        "PERSONALAB_DATA",
        {
            "type": "directory",
            "title": "Data folder / 数据目录",
            "description": "Where characters and stories are kept; left empty, a folder of your own user account "
            "/ 保存角色和故事的地方；留空则用你的用户数据目录",
        },
    ),
}
"""What the host asks the user for, and the variable each answer becomes. None is required."""


def manifest(project: Mapping[str, Any], offers: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the bundle; ``offers`` says which tools and prompts the server has."""
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": "PersonaLab",
        "version": project["version"],
        "description": project["description"],
        "long_description": LONG_DESCRIPTION,
        "author": {"name": project["authors"][0]["name"]},
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", ENTRY_POINT],
                "env": {variable: f"${{user_config.{key}}}" for key, (variable, _) in USER_CONFIG.items()},
            },
        },
        **offers,
        "keywords": ["roleplay", "story", "character", "memory", "角色扮演", "故事"],
        "license": project["license"],
        # fcntl's locks guard the files, so not win32.
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {key: {**field, "required": False} for key, (_, field) in USER_CONFIG.items()},
    }


async def ask_server(bundle: Path) -> dict[str, Any]:
    """Start the staged server for a reader of each language, and let it list its tools and prompts.

    What a prompt says depends on the stories there are, so its description stands where the format wants a text.
    """
    english, chinese = [await _listed(bundle, language) for language in ("en", "zh")]
    prompts = [
        {"name": name, "description": said, "arguments": english[1][name][1], "text": said}
        for name, (description, _) in english[1].items()
        for said in [_both(description, chinese[1][name][0])]
    ]
    tools = [
        {"name": name, "description": _both(description, chinese[0][name])}
        for name, description in english[0].items()
    ]
    return {"tools": tools, "prompts": prompts, "prompts_generated": True}


def _both(english: str, chinese: str) -> str:
    return english if english == chinese else f"{english} / {chinese}"


async def _listed(
    bundle: Path, language: Language
) -> tuple[dict[str, str], dict[str, tuple[str, list[str]]]]:
    """Tell the descriptions of tools, and those of prompts with the names of their arguments."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PERSONALAB_DATA": str(Path(folder, "data")), "PERSONALAB_MODEL": "rehearsal"}
        open_services(read_settings(environment)).preferences.change({"preferences.language": language})
        started = StdioServerParameters(
            command=sys.executable,
            args=[str(bundle / ENTRY_POINT)],
            env={**environment, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
        )
        async with Client(started, read_timeout_seconds=120) as client:
            tools = {tool.name: tool.description or "" for tool in (await client.list_tools()).tools}
            prompts = {
                prompt.name: (
                    prompt.description or prompt.name,
                    [argument.name for argument in prompt.arguments or []],
                )
                for prompt in (await client.list_prompts()).prompts
            }
    return tools, prompts
