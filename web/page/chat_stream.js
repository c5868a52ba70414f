// How is a reply watched until it is whole, whatever becomes of the connection?

import { api, at, follow } from "./api.js";

const LONGEST_PAUSE = 8000;

/**
 * Watch one try at a reply, from what is shown of it on. `on` hears text(piece), whole(text), reasoning(piece, anew),
 * warning, error, done and care as the server tells them, lost(), back(), and closed() when nothing more will come. Returns
 * a function that leaves.
 */
export function watchReply({ instance_id: instanceId, session_id: sessionId, turn, attempt }, shown, on) {
  const named = at`instance_id=${instanceId}&turn=${turn}&attempt=${attempt}`;
  let have = new TextEncoder().encode(shown).length;
  let isOver = false;
  let isGone = false;
  let pause = 1000;
  let timer = 0;
  let leave = () => {};

  function connect() {
    leave = follow(`/api/chat/stream?${named}${at`&session_id=${sessionId}&offset=${have}`}`, {
      token(data, event) {
        if (data.offset !== have) return later();
        have = Number(event.lastEventId);
        return on.text(data.text);
      },
      reasoning: (data) => on.reasoning(data.text, data.offset === 0),
      warning: on.warning, care: on.care,
      error(data) { isOver = true; on.error(data); },
      done(data) { isOver = true; on.done(data); },
      lost(forGood) {
        if (isOver) return close();
        on.lost();
        return forGood && later();
      },
      back: on.back,
    });
  }

  /** Begin anew with what the file holds: the connection is gone for good, or what came does not fit. */
  async function again() {
    leave();
    try {
      const found = await api.get(`${at`/api/sessions/${sessionId}/current_response`}?${named}`);
      if (isGone) return;
      // Thoughts may have left the text that was streamed: then its offsets are not those of the content.
      have = found.reasoning ? 0 : found.offset;
      pause = 1000;
      on.whole(found.reasoning ? "" : found.content);
      on.back();
      connect();
    } catch (error) {
      if (isGone) return;
      if (error.status === 404) close();
      else later();
    }
  }

  function later() {
    leave();
    timer = setTimeout(again, pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }

  function gone() {
    isGone = true;
    clearTimeout(timer);
    leave();
  }

  function close() {
    gone();
    on.closed();
  }

  connect();
  return gone;
}
