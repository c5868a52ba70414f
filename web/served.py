"""The application as another server loads it by name (``langgraph.json``), on the same services as its graphs."""

from __future__ import annotations

from graph.runtime import services_of_this_process
from personalab.settings import read_settings
from web.app import AMONG_OTHERS
from web.joining import whole_app

app = whole_app(services_of_this_process, token=read_settings().token, paths=AMONG_OTHERS)
