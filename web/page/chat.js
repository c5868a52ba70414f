// How is a story played: what was said, what is being said, what comes next?

import { api, at } from "./api.js";
import { chatHead } from "./chat_head.js";
import { turnList } from "./chat_list.js";
import { watchReply } from "./chat_stream.js";
import { drawTurn, liveReply, spokenReply, summaries } from "./chat_turn.js";
import { composer } from "./compose.js";
import { fill, h } from "./dom.js";
import { drawOutline } from "./outline.js";
import { complain, empty } from "./ui.js";
import { warningsArea } from "./warnings.js";
import { words } from "./words.js";

const LOOK_EVERY = 4000;
const DOING = { summarize: "summarizing", "update-memory": "remembering" };
const t = words("chat");

export async function show(place, [, instanceId, sessionId], context) {
  if (!instanceId) return context.go("/");
  const chat = new Chat(instanceId, await api.get(at`/api/instances/${instanceId}`), sessionId);
  await chat.open(place);
  return () => chat.close();
}

class Chat {
  live = null; // the reply that is being written
  leave = null; // ends the one stream that this tab watches
  folds = new Map(); // which reasoning is open, by reply
  whole = ""; // the reply that was whole last, so that it is not watched again
  beginning = false;
  closed = false;

  constructor(instanceId, state, sessionId) {
    this.instanceId = instanceId;
    this.base = at`/api/instances/${instanceId}`;
    this.state = state;
    this.sessionId = sessionId || state.current_session_id;
    this.readOnly = this.sessionId !== state.current_session_id;
  }

  // --- the frame

  async open(place) {
    const found = await this.page();
    const newest = h("button", { class: "newest", hidden: true, onclick: () => this.list.toEnd() }, t("newest"));
    this.aside = h("aside", { class: "beside", id: "outline", "aria-label": t("outline") });
    this.head = chatHead(this.state, this.aside, () => this.look());
    this.note = h("p", { class: "chat-note", role: "status", hidden: true });
    this.spoken = h("p", { class: "unseen", role: "status" });
    this.progress = h("div", {});
    this.warnings = warningsArea(this.instanceId);
    this.composer = composer({ instanceId: this.instanceId, say: (body) => this.begin("turns", body), stop: () => this.stop() });
    this.list = turnList({
      label: t("turns"), moved: (atEnd) => { newest.hidden = atEnd; },
      load: (before, count) => this.page(count, `&before=${before}`), draw: (turn, isLast, place) => this.draw(turn, isLast, place),
    });
    fill(place, h("div", { class: "chat" }, this.head.element,
      h("section", { class: "chat-main" }, this.list.element, h("div", { class: "over" }, newest), this.spoken, this.note, this.progress,
        !this.readOnly && [this.warnings.element, this.composer.element]), this.aside));
    this.drawState();
    this.take(found);
    this.listen();
    if (this.readOnly) this.drawChain().catch(complain);
    else this.ready();
  }

  ready() {
    this.composer.fit();
    if (matchMedia("(hover: hover)").matches) this.composer.focus();
    this.notice();
    const each = { instanceId: this.instanceId, place: this.progress, changed: () => this.look(), draft: () => this.composer.draft() };
    Promise.all([import("./growth.js"), import("./prompt.js")]).then(([growth, prompt]) =>
      fill(this.head.tools, growth.summaryButton(each), growth.memoryButton(each), prompt.promptButton(each)), complain);
  }

  listen() {
    const { signal } = this.leaving = new AbortController();
    this.channel = new BroadcastChannel("personalab");
    this.channel.onmessage = ({ data }) => { if (data.instance_id === this.instanceId) this.look(); };
    this.timer = setInterval(() => this.look(), LOOK_EVERY);
    document.addEventListener("visibilitychange", () => this.look(), { signal });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]")) return;
      const menu = document.querySelector(".menu[open]");
      if (menu) menu.open = false;
      else if (this.aside.classList.contains("open")) this.head.open(false);
      else if (this.live) this.composer.stop();
    }, { signal });
  }

  close() {
    this.closed = true;
    this.leave?.();
    this.leaving.abort();
    this.channel.close();
    clearInterval(this.timer);
    this.list.close();
  }

  /** Say what is going on; what was `lasting` stays until the next turn. */
  tell(text, lasting = false) {
    if (!text && !lasting && this.lasting) return;
    this.lasting = lasting && Boolean(text);
    this.note.hidden = !text;
    this.note.textContent = text;
  }

  // --- what the files hold

  page(count = 50, more = "") {
    return api.get(`${this.base}${at`/sessions/${this.sessionId}/turns?count=${count}`}${more}`);
  }

  draw(turn, isLast, place) {
    return drawTurn(turn, {
      markers: this.state.show_markers, fold: (attempt) => this.fold({ turn: turn.turn, attempt }, place),
      name: this.state.character.name, live: isLast && this.live, awaited: isLast && this.state.awaited_turn === turn.turn,
      retry: isLast && !this.readOnly && (() => this.begin("retry").catch((error) => this.composer.fail(error.message))),
    });
  }

  /** How the reasoning of a reply is folded, and where its text comes from. */
  fold({ turn, attempt }, place) {
    const key = named({ session_id: this.sessionId, turn, attempt });
    if (!this.folds.has(key)) this.folds.set(key, { open: false, text: "" });
    return {
      kept: this.folds.get(key), opening: () => this.list.stay(),
      load: async () => (await this.page(1, `&before=${place + 1}&reasoning=true`)).turns[0]?.replies[attempt - 1]?.reasoning ?? "",
    };
  }

  drawState() {
    const drawn = JSON.stringify(this.state);
    if (drawn === this.drawn) return; // else the outline's links would lose the focus
    this.drawn = drawn;
    this.head.draw(this.state);
    drawOutline(this.aside, this.state);
  }

  /** Take in a page of turns, and what stands at the two ends of the session. */
  take(found) {
    const before = !this.readOnly && this.state.session_ids.includes(found.continued_from) && found.continued_from;
    fill(this.list.head, before && h("p", { class: "chain" }, h("a", { href: this.link(before) }, t("older"), " ", before)));
    fill(this.list.tail, summaries(found.trailing_summaries), found.total === 0 && empty(t("begin")));
    this.list.add(found.first, found.turns, found.total);
    return found;
  }

  get isBusy() {
    return this.live || this.beginning || this.closed || this.readOnly;
  }

  /** See what happened meanwhile, in another tab or another program. */
  async look() {
    if (document.hidden || this.isBusy) return;
    try {
      const state = await api.get(this.base);
      if (this.isBusy) return;
      const known = this.state;
      this.state = state;
      this.drawState();
      const isRedrawn = state.show_markers !== known.show_markers;
      if (isRedrawn) this.list.clear();
      if (this.turnTo(state.current_session_id) || isRedrawn || state.version !== known.version || state.awaited_turn !== known.awaited_turn) this.take(await this.page());
      this.notice();
    } catch (error) {
      if (!this.isBusy) this.tell(error.status ? error.message : t("lost"));
    }
  }

  /** Go to the session that the story goes on in. */
  turnTo(sessionId) {
    if (sessionId === this.sessionId) return false;
    this.sessionId = sessionId;
    this.list.clear();
    this.warnings.clear();
    return true;
  }

  /** Join a reply that is being written, or say what else is being done with the story. */
  notice() {
    const { running } = this.state;
    if (!running || running.turn === null) this.tell(running ? t(DOING[running.task] ?? "busy") : "");
    else if (named(running) !== this.whole) this.join({ ...running, instance_id: this.instanceId }).catch(complain);
  }

  // --- a turn

  /** Begin a turn, or another try at the last one, and watch it; tells whether it was begun. */
  async begin(action, body = {}) {
    if (this.isBusy) return false;
    this.beginning = true;
    try {
      const which = await api.post(`${this.base}/${action}`, body);
      this.channel.postMessage({ instance_id: this.instanceId });
      await this.join(which);
      this.list.toEnd();
      return true;
    } finally {
      this.beginning = false;
    }
  }

  async stop() {
    try {
      await api.post(`${this.base}/stop`);
    } catch (error) {
      if (error.kind !== "user") complain(error); // otherwise it has just ended by itself
    }
  }

  /** Watch a reply from what its file holds on. */
  async join(which) {
    this.turnTo(which.session_id);
    const turn = this.take(await this.page(3)).turns.at(-1);
    if (this.live || this.closed || turn?.turn !== which.turn) return;
    const known = turn.replies[which.attempt - 1];
    // What was streamed is the content only where nothing was thought.
    const shown = !known || known.empty || known.has_reasoning ? "" : known.content;
    const live = liveReply(which.attempt, shown, { markers: this.state.show_markers, fold: { ...this.fold(which), load: null }, grew: () => this.list.grew() });
    this.tell("", true);
    this.leave?.();
    this.live = live;
    this.composer.writing(true);
    this.list.redraw();
    live.flush();
    this.leave = watchReply(which, shown, {
      text: live.add, whole: live.replace, reasoning: live.think, warning: (data) => { this.warnings.add(data); this.spoken.textContent = data.message; }, care: (data) => this.tell(data.message, true), error: (data) => this.tell(data.message, true),
      lost: () => this.tell(t("lost")), back: () => this.tell(""), done: (data) => this.finish(which, data),
      closed: () => { if (this.live) this.finish(which, null); else this.look(); },
    });
  }

  /** The reply is whole: show what its file holds now, and what it did to the story. */
  async finish(which, done) {
    if (this.whole === named(which)) return;
    this.whole = named(which);
    this.live.flush();
    this.warnings.settle();
    this.spoken.textContent = done ? spokenReply(done) : "";
    if (done) this.folds.set(named(done), this.live.kept);
    if (done?.error) this.tell("", true); // the reply itself says what went wrong
    for (let pause = 500; !this.closed; pause = Math.min(2 * pause, 8000)) {
      try {
        const [state, found] = await Promise.all([api.get(this.base), this.page(3)]);
        if (this.closed) return;
        [this.live, this.state] = [null, state];
        this.composer.writing(false);
        this.drawState();
        this.take(found);
        this.tell("");
        return;
      } catch (error) {
        this.tell(error.status ? error.message : t("lost"));
        await new Promise((go) => { setTimeout(go, pause); });
      }
    }
  }

  // --- the chain of sessions

  link(sessionId) {
    return at`#/chat/${this.instanceId}` + (sessionId ? at`/${sessionId}` : "");
  }

  async drawChain() {
    const { sessions } = await api.get(`${this.base}/sessions`);
    const before = sessions.find((one) => one.session_id === this.sessionId)?.continued_from;
    const after = sessions.find((one) => one.continued_from === this.sessionId);
    const link = (name, sessionId) => h("a", { href: this.link(sessionId) }, t(name));
    this.note.hidden = false;
    fill(this.note, h("span", {}, t("reading", { session: this.sessionId })), before && link("older", before),
      after && link("newer", !after.is_current && after.session_id), link("now"));
  }
}

const named = ({ session_id: sessionId, turn, attempt }) => `${sessionId} ${turn} ${attempt}`;
