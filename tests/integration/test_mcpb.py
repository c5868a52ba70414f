"""The bundle for Claude Desktop is built, judged by the official packer, unpacked elsewhere and spoken to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from packaging.requirements import Requirement

from personalab.settings import default_data_root, read_settings
from tests.support.graph.turns import snapshot
from tools.build_mcpb.__main__ import PACKER, PROJECT, build
from tools.build_mcpb.icon import ICON, draw
from tools.build_mcpb.manifest import USER_CONFIG
from tools.build_mcpb.packing import check, pack

PLACES = {"LICENSE", "README.md", "icon.png", "manifest.json", "pyproject.toml", "server"}
CODE = {"main.py", "personalab", "nodes", "graph", "mcp_server", "web", "cli"}

needs_packer = pytest.mark.skipif(
    not PACKER.exists(), reason="no mcpb in build/node; run: python tests/fetch_clients.py"
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, as ``make mcpb`` builds it."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "tools.build_mcpb", "--out", str(out)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert ("Not validated" in done.stderr) == (not PACKER.exists())
    [bundle] = out.iterdir()
    assert str(bundle) in done.stdout
    return bundle


@pytest.fixture(scope="module")
def bundle(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder a host unpacks the bundle into."""
    folder = tmp_path_factory.mktemp("extensions") / "personalab"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def manifest(bundle: Path) -> dict[str, Any]:
    """What the bundle says of itself."""
    return json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))


# --- what is in it


def test_the_bundle_is_named_by_its_version(packed: Path, manifest: dict[str, Any]) -> None:
    assert packed.name == f"personalab-{manifest['version']}.mcpb"


def test_the_bundle_holds_our_code_and_nothing_else(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == PLACES
    inside = {name.split("/", 1)[1] for name in names if name.startswith("server/")}
    metadata = {name for name in inside if ".dist-info/" in name}
    assert {name.split("/")[0] for name in inside - metadata} == CODE
    assert {name.partition("/")[2] for name in metadata} == {"METADATA"}
    assert "server/personalab/shipped/characters/char_maren/definition.json" in names
    for unwanted in (".pyc", "__pycache__", "instances/", "event_library/", ".env", ".lock"):
        assert not [name for name in names if unwanted in name]


def test_the_bundle_is_the_same_bytes_whoever_packs_it_and_when(packed: Path, tmp_path: Path) -> None:
    assert build(tmp_path, None).read_bytes() == packed.read_bytes()


def test_uv_is_told_names_and_versions_of_what_the_product_needs(bundle: Path) -> None:
    text = (bundle / "pyproject.toml").read_text(encoding="utf-8")
    assert "://" not in text
    read = tomllib.loads(text)
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    for field in ("name", "version", "requires-python", "dependencies"):
        assert read["project"][field] == own["project"][field]
    assert read["tool"]["uv"]["package"] is False
    pinned = {Requirement(line).name for line in read["tool"]["uv"]["constraint-dependencies"]}
    assert {Requirement(line).name for line in own["project"]["dependencies"]} <= {
        name.replace("_", "-") for name in pinned
    }
    assert {"openai", "onnxruntime", "starlette"} <= pinned, "what the dependencies need in turn"
    assert not pinned & {"pytest", "ruff", "pyright", "hatchling", "langgraph-api", "xllamacpp", "hypothesis"}


def test_the_host_asks_for_four_things_in_both_languages_and_requires_none(manifest: dict[str, Any]) -> None:
    asked = manifest["user_config"]
    assert list(asked) == ["api_key", "base_url", "model", "data_folder"]
    for field in asked.values():
        assert field["required"] is False
        for words in (field["title"], field["description"]):
            english, chinese = words.split(" / ")
            assert english.isascii()
            assert any("\u4e00" <= character <= "\u9fff" for character in chinese)
    assert [key for key, field in asked.items() if field.get("sensitive")] == ["api_key"]
    assert asked["data_folder"]["type"] == "directory"
    assert manifest["server"]["mcp_config"]["env"] == {
        "OPENAI_API_KEY": "${user_config.api_key}",
        "OPENAI_BASE_URL": "${user_config.base_url}",
        "PERSONALAB_MODEL": "${user_config.model}",
        "PERSONALAB_DATA": "${user_config.data_folder}",
    }


def test_the_icon_is_what_its_program_draws(bundle: Path) -> None:
    made = ICON.read_bytes()
    assert (bundle / "icon.png").read_bytes() == made
    assert len(made) <= 20_000

    def pixels(png: bytes) -> bytes:
        start = png.index(b"IDAT") + 4
        return zlib.decompress(png[start : png.index(b"IEND") - 8])

    assert pixels(made) == pixels(draw())
    assert made[16:24] == (512).to_bytes(4) * 2


# --- the official packer


def _mcpb(*words: str) -> str:
    path = os.pathsep.join((str(PACKER.parent), os.environ["PATH"]))
    done = subprocess.run(
        [str(PACKER), *words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_packer
def test_the_official_packer_reads_what_we_pack(packed: Path, bundle: Path, tmp_path: Path) -> None:
    assert "validation passes" in _mcpb("validate", str(bundle))
    assert packed.name in _mcpb("info", str(packed))
    _mcpb("unpack", str(packed), str(tmp_path / "out"))
    assert snapshot(tmp_path / "out") == snapshot(bundle)


@needs_packer
def test_what_the_official_packer_refuses_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"manifest_version": "0.4"}', encoding="utf-8")
    with pytest.raises(SystemExit, match="mcpb validate failed"):
        check(tmp_path, PACKER)


@needs_packer
def test_what_the_official_packer_leaves_out_is_noticed(bundle: Path, tmp_path: Path) -> None:
    for name in ("manifest.json", "icon.png"):
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    check(tmp_path, PACKER)
    (tmp_path / "notes.log").touch()
    with pytest.raises(SystemExit, match=r"notes\.log"):
        check(tmp_path, PACKER)


def test_a_packer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no-packer"):
        check(tmp_path, tmp_path / "no-packer")


def test_packing_forgets_times_and_rights(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("b", "a") if number else ("a", "b"):
            (folder / file).write_text(file, encoding="utf-8")
        (folder / "a").chmod(0o755 if number else 0o600)
        os.utime(folder / "a", (number * 1e9, number * 1e9))
        pack(folder, tmp_path / f"{name}.mcpb")
    assert (tmp_path / "one.mcpb").read_bytes() == (tmp_path / "two.mcpb").read_bytes()


# --- what a host does with it


def _environment(home: Path) -> dict[str, str]:
    """The variables a host gives when the user has filled in nothing, on a computer of their own."""
    unfilled = {variable: f"${{user_config.{key}}}" for key, (variable, _) in USER_CONFIG.items()}
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        **unfilled,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "share"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def test_a_placeholder_that_the_host_left_unfilled_counts_as_unset() -> None:
    found = read_settings({variable: f"${{user_config.{key}}}" for key, (variable, _) in USER_CONFIG.items()})
    assert (found.model, found.openai_api_key, found.openai_base_url) == ("rehearsal", None, None)
    assert found.data_root == default_data_root()
    assert read_settings({"PERSONALAB_MODEL": "openai:${x}"}).model == "openai:${x}"


def test_the_bundles_own_code_runs_and_takes_itself_for_no_checkout(bundle: Path, tmp_path: Path) -> None:
    before = snapshot(bundle)
    program = (
        "import sys; sys.path[0] = sys.argv[1]\n"
        "import json, personalab, nodes, graph, mcp_server\n"
        "from personalab.services import open_services\n"
        "from personalab.settings import in_checkout\n"
        "files = [module.__file__ for module in (personalab, nodes, graph, mcp_server)]\n"
        "print(json.dumps([files, in_checkout(), str(open_services().settings.data_root)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(bundle / "server")],
        cwd="/",
        env=_environment(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    files, checkout, root = json.loads(done.stdout)
    assert all(Path(file).is_relative_to(bundle / "server") for file in files)
    assert (checkout, root) == (False, str(tmp_path / "share" / "personalab"))
    assert (tmp_path / "share" / "personalab" / "characters").is_dir()
    assert snapshot(bundle) == before


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_unpacked_bundle_speaks_mcp_and_writes_only_into_the_users_folder(
    bundle: Path, manifest: dict[str, Any], tmp_path: Path, mode: Any
) -> None:
    before = snapshot(bundle)
    started = StdioServerParameters(
        command=sys.executable,
        args=[str(bundle / manifest["server"]["entry_point"])],
        env=_environment(tmp_path),
        cwd="/",
    )
    async with Client(started, mode=mode, read_timeout_seconds=60) as client:
        offered = (await client.list_tools()).tools
        assert [tool.name for tool in offered] == [tool["name"] for tool in manifest["tools"]]
        made = await client.call_tool(
            "persona_new_instance", {"character_id": "char_maren", "instance_id": "here"}
        )
        assert not made.is_error, made.content
    assert (tmp_path / "share" / "personalab" / "instances" / "here").is_dir()
    assert snapshot(bundle) == before


def test_the_manifest_lists_the_servers_tools_and_prompts(manifest: dict[str, Any]) -> None:
    assert "tools_generated" not in manifest
    assert "persona_chat" in [tool["name"] for tool in manifest["tools"]]
    assert all(tool["description"] for tool in manifest["tools"])
    assert [prompt["name"] for prompt in manifest["prompts"]] == ["play", "recap"]
    assert all(" / " in prompt["description"] for prompt in manifest["prompts"]), "in both languages"
