"""The error for a failed call, with the call's failure as its reason."""

from __future__ import annotations

from personalab.errors import ProviderError, Reason
from personalab.lab.calling import CallAnswer
from personalab.lab.resuming import CallRow
from personalab.lab.stored_errors import restored_params
from personalab.texts import Language, say


class FailedCallError(ProviderError):
    """An error whose ``reason`` is a call's failure: it is said in the reader's language, as far as it was kept how."""

    def __init__(
        self, code: str, call: CallAnswer | CallRow, /, *, retryable: bool = False, **params: object
    ) -> None:
        reason = restored_params(call.error_params or {}).get("reason") if call.error_code is None else None
        reason = reason or call.error or call.error_code or Reason("no_reason")
        super().__init__(code, retryable=retryable, reason=reason, **params)
        self._call = call

    def message(self, language: Language) -> str:
        """Return what happened, with the call's own failure message."""
        call, reason = self._call, self.params["reason"]
        if call.error_code is not None and call.error_params is not None:
            reason = say(call.error_code, language, **restored_params(call.error_params)) or reason
        return say(self.code, language, **{**self.params, "reason": reason})
