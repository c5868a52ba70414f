"""Fixtures of the tests in this folder."""

from tests.support.graph.fixtures import library

__all__ = ["library"]
