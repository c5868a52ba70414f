"""Long-running jobs that belong to the server, so that a client can disconnect and come back."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.errors import Busy, NotFound, PersonaLabError
from personalab.tasks import BackgroundTasks
from personalab.texts import Language
from web.errors import fields_of
from web.watching import Log

Status = Literal["running", "done", "interrupted", "error"]
Stop = Callable[[], Awaitable[object]]

MAX_JOBS = 64
"""Maximum concurrent jobs."""
_KEPT = 256
"""Number of ended jobs whose result is kept."""
_CLOSING_SECONDS = 5.0
_STOPPED = ("interrupted", "work_stopped", "summary_stopped")
"""Statuses and codes of graphs that ended on a stop request."""
_log = logging.getLogger("personalab.web")


@dataclass(eq=False)
class Job:
    """Something that is being done, how far it is, and what came of it."""

    job_id: str
    kind: str
    subject: str
    """What it is done with: an instance or a project; no two jobs of a server with one subject at once."""
    log: Log = field(default_factory=Log)
    status: Status = "running"
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    stop: Stop | None = None
    task: asyncio.Task[None] = field(init=False)

    def fields(self) -> dict[str, Any]:
        """Return the job's state."""
        return {
            "job_id": self.job_id,
            "kind": self.kind,
            "subject": self.subject,
            "status": self.status,
            "progress": self.progress,
            "result": self.result,
            "error": self.error,
        }


class Jobs:
    """The jobs of this server."""

    def __init__(self, language: Callable[[], Language]) -> None:
        self._language = language
        self._known: OrderedDict[str, Job] = OrderedDict()
        self._closing = False
        self._tasks = BackgroundTasks(_log)

    def begin(
        self,
        kind: str,
        subject: str,
        work: AsyncGenerator[Any],
        *,
        stop: Stop | None = None,
        told: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> Job:
        """Start work that continues whatever becomes of the caller.

        ``work`` yields events, which have a ``type``, and last its result, which has none; ``told`` words the result
        for clients. ``stop`` asks it to end early; without one its task is cancelled.
        """
        if self._closing:
            raise Busy("server_ending")
        if any(job.subject == subject and job.status == "running" for job in self._known.values()):
            raise Busy("job_running", subject=subject)
        if self.count >= MAX_JOBS:
            raise Busy("too_many_jobs", limit=MAX_JOBS)
        job = Job(secrets.token_hex(8), kind, subject, stop=stop)
        self._known[job.job_id] = job
        ended = [one for one in self._known.values() if one.status != "running"]
        for old in ended[: max(0, len(ended) - _KEPT)]:
            del self._known[old.job_id]
        job.task = self._tasks.keep(asyncio.create_task(self._run(job, work, told)))
        return job

    async def _run(
        self, job: Job, work: AsyncGenerator[Any], told: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        result: dict[str, Any] = {}
        try:
            async with aclosing(work) as parts:
                async for part in parts:
                    if "type" in part:
                        job.progress = part
                        name = _event_name(part)
                        job.log.tell(name, part, again=name == "warning")
                    else:
                        result = dict(part)
            await self._conclude(job, result, told)
        except asyncio.CancelledError:
            job.status = "interrupted"
            job.log.tell("done", job.fields())
        except PersonaLabError as error:
            self._fail(job, error)
        except Exception:  # noqa: BLE001 (whatever it is, its watchers hear of it)
            _log.exception("a job failed", extra={"job": job.kind, "subject": job.subject})
            self._fail(job, PersonaLabError("internal_error"))
        finally:
            job.log.end()
            job.log = job.log.shortened()  # watchers have the complete log

    async def _conclude(
        self, job: Job, result: dict[str, Any], told: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        status = result.get("status")
        ended: Status = "interrupted" if status in ("interrupted", "paused", "stopped") else "done"
        if error := result.get("error"):
            job.error = dict(error)
            ended = "interrupted" if error.get("code") in _STOPPED else "error"
        job.result = await asyncio.to_thread(told, result)
        job.status = ended
        job.log.tell("error" if job.status == "error" else "done", job.fields())

    def _fail(self, job: Job, error: PersonaLabError) -> None:
        job.status = "error"
        job.error = fields_of(error, self._language())
        job.log.tell("error", job.fields())

    def get(self, job_id: str) -> Job:
        """Find a job."""
        found = self._known.get(job_id)
        if found is None:
            raise NotFound("no_job", job_id=job_id[:40])
        return found

    def of(self, subject: str) -> list[Job]:
        """List the jobs of one subject, the newest first."""
        return [job for job in reversed(self._known.values()) if job.subject == subject]

    @property
    def count(self) -> int:
        """How many jobs run."""
        return sum(job.status == "running" for job in self._known.values())

    async def stop(self, job: Job) -> None:
        """Ask a job to end early, and wait a while until it has."""
        if job.status != "running":
            return
        if job.stop is not None:
            with suppress(NotFound):  # it has just ended on its own
                await job.stop()
        else:
            job.task.cancel()
        await asyncio.wait([job.task], timeout=_CLOSING_SECONDS)

    async def close(self) -> None:
        """End all jobs; what can be gone on with is gone on with by the next call."""
        self._closing = True
        tasks = [job.task for job in self._known.values() if job.status == "running"]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_SECONDS)


def _event_name(part: Mapping[str, Any]) -> str:
    """Name an event of a graph as streams do; what a browser gives a meaning of its own is only news here."""
    kind = str(part["type"])
    return kind if kind in ("progress", "warning") else "progress"
