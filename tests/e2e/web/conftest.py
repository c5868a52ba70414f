"""Fixtures of the tests in this folder."""

from tests.support.web.browser import browser, visit

__all__ = ["browser", "visit"]
