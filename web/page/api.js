// How does the page talk to its server?

import { words } from "./words.js";

const t = words("api");

/** What went wrong, in the reader's language. */
const failed = (status, told) => Object.assign(new Error(told.message), told, { status });

async function call(method, path, body, isRaw = false) {
  const headers = {};
  if (body !== undefined && !(body instanceof Blob)) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(body);
  }
  const answer = await fetch(path, { method, body, headers }).catch(() => { throw failed(0, { code: "offline", message: t("offline") }); });
  if (answer.ok) return isRaw ? answer : answer.json();
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) dispatchEvent(new CustomEvent("login-needed"));
  throw failed(answer.status, told.error ?? { code: "http", message: `HTTP ${answer.status}` });
}

/** api.get("/api/…"), api.post(path, body), api.put(path, body), api.delete(path); api.file(path) is the answer as it came. */
export const api = {
  get: (path) => call("GET", path),
  post: (path, body = {}) => call("POST", path, body),
  put: (path, body) => call("PUT", path, body),
  delete: (path) => call("DELETE", path),
  file: (path) => call("GET", path, undefined, true),
};

/** Put ids and texts into an address: at`/api/instances/${id}/turns`. */
export const at = (parts, ...values) => String.raw({ raw: parts }, ...values.map(encodeURIComponent));

/**
 * Follow a stream of server-sent events. Handlers by event name get (data, event); `lost` is told when the connection
 * broke (the browser comes back by itself, from its last event on), `back` when it is there again. Returns a function that leaves.
 */
export function follow(path, handlers) {
  const source = new EventSource(path);
  let broken = false;
  for (const [name, handler] of Object.entries(handlers)) {
    if (name === "lost" || name === "back") continue;
    source.addEventListener(name, (event) => {
      // A broken connection is an "error" event, too, but one without data.
      if (event.data !== undefined) handler(JSON.parse(event.data), event);
    });
  }
  source.onopen = () => {
    if (broken) handlers.back?.();
    broken = false;
  };
  source.onerror = (event) => {
    if (event.data !== undefined) return;
    broken = true;
    handlers.lost?.(source.readyState === EventSource.CLOSED);
  };
  return () => source.close();
}

/** Begin a job and follow it to its end; resolves to its state ({status, result, error}). `begun` gets {job_id} first. */
export async function runJob(path, body, { progress, begun } = {}) {
  const job = await api.post(path, body);
  begun?.(job);
  return followJob(job.job_id, progress);
}

/** Follow a job that is under way to its end. */
export function followJob(jobId, progress = () => {}) {
  return new Promise((resolve, reject) => {
    const ended = (state) => {
      leave();
      resolve(state);
    };
    const leave = follow(at`/api/jobs/${jobId}/stream`, {
      progress, warning: progress, done: ended, error: ended,
      lost: (forGood) => {
        if (!forGood) return;
        leave();
        api.get(at`/api/jobs/${jobId}`).then(resolve, reject);
      },
    });
  });
}
