"""A MkDocs hook that adds the pages outside ``docs/`` to the site, and lets links between them work."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).resolve().parents[1]
OUTSIDE = (
    "README.md",
    "README.zh-CN.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "examples/README.md",
)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are at the top of the project."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(PROJECT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links: ``docs/`` is the root of the site, and files that are not on it become plain text."""
    source = page.file.src_uri
    folder = dirname(source) if source in OUTSIDE else normpath(f"docs/{dirname(source)}")

    def rewrite(link: re.Match[str]) -> str:
        place = normpath(f"{folder}/{link[2]}") if folder else normpath(link[2])
        target = place.removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            return link[1] if (PROJECT / place).exists() else link[0]
        return f"[{link[1]}]({relpath(target, dirname(source) or '.')}{link[3] or ''})"

    return _LINK.sub(rewrite, markdown)
