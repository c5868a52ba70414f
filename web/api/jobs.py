"""Routes that list, follow and stop the jobs of the server."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from personalab.results import ResultModel
from web.desk import ContextDep
from web.jobs import Job
from web.shapes import JobStarted, JobState
from web.streaming import described, events

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

JobId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


class JobList(ResultModel):
    """The jobs of one subject."""

    jobs: list[JobState]


class JobNews(ResultModel):
    """How far a job is, or something to know about it; what else is told depends on the job."""

    type: str


_STREAM = described(progress=JobNews, warning=JobNews, done=JobState, error=JobState)


def started(job: Job) -> JobStarted:
    """Return where a client can follow a job."""
    stream = f"/api/jobs/{job.job_id}/stream"
    return JobStarted(job_id=job.job_id, kind=job.kind, subject=job.subject, stream=stream)


@router.get("")
async def list_jobs(
    desk: ContextDep,
    subject: Annotated[str, Query(max_length=200, description="A story or a project of the lab")],
) -> JobList:
    """List what was and is being done with a story or a project, the newest first."""
    return JobList(jobs=[JobState(**job.fields()) for job in desk.jobs.of(subject)])


@router.get("/{job_id}")
async def job_state(desk: ContextDep, job_id: JobId) -> JobState:
    """Tell how a job stands."""
    return JobState(**desk.jobs.get(job_id).fields())


@router.get("/{job_id}/stream", response_class=StreamingResponse, responses=_STREAM)
async def follow_job(desk: ContextDep, job_id: JobId) -> Response:
    """Follow a job from its beginning: ``progress`` and ``warning``, then ``done`` or ``error`` with its state."""
    return events(desk.jobs.get(job_id).log.watch(None), desk.seats)


@router.post("/{job_id}/stop")
async def stop_job(desk: ContextDep, job_id: JobId) -> JobState:
    """Ask a job to end early; what it has done so far is kept where it can be gone on with."""
    job = desk.jobs.get(job_id)
    await desk.jobs.stop(job)
    return JobState(**job.fields())
