// What HTML and htmx cannot do: times in the reader's own words, keys, dropped files, the passage panel, and
// keeping what somebody is typing when a block of the page is redrawn. No state lives here.
"use strict";
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- times
  const language = document.documentElement.lang;
  const ago = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const full = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
  const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  function tell(time) {
    const moment = new Date(time.dateTime);
    const seconds = Math.min(0, (moment - Date.now()) / 1000);
    const [unit, size] = UNITS.find(([, n]) => Math.abs(seconds) >= n) || UNITS[5];
    const text = ago.format(Math.trunc(seconds / size), unit);
    if (time.textContent !== text) time.textContent = text;
    time.title = full.format(moment);
  }
  const tick = () => all("time[data-ago]").forEach(tell);

  // --- one stream a page; a hidden tab gives its connection back, since a browser opens only six to one server
  class Stream extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.names = new Set();
      this.open();
      document.addEventListener("visibilitychange", () => this.look());
    }
    get readyState() { return this.source ? EventSource.OPEN : EventSource.CONNECTING; }
    open() {
      this.source = new EventSource(this.url);
      this.source.onopen = (event) => this.onopen?.(event);
      this.source.onerror = (event) => { this.onerror?.(event); this.again(); };
      this.names.forEach((name) => this.follow(name));
    }
    follow(name) {
      this.source.addEventListener(name, (event) => this.dispatchEvent(new MessageEvent(name, { data: event.data })));
    }
    addEventListener(name, listener) {
      super.addEventListener(name, listener);
      if (!this.names.has(name)) { this.names.add(name); if (this.source) this.follow(name); }
    }
    again() {
      // The browser retries by itself except after an answer that is no stream, such as a proxy's error page. Why
      // it was none (signed out, say) is told by asking what changed.
      if (this.source?.readyState !== EventSource.CLOSED) return;
      setTimeout(() => { if (this.source && !this.closed) this.open(); }, 1500);
      const asking = find(".stream [hx-get]");
      if (asking) htmx.trigger(asking, "sse:changed");
    }
    look() {
      clearTimeout(this.leaving);
      if (this.closed) return;
      if (document.hidden) this.leaving = setTimeout(() => { this.source?.close(); this.source = null; }, 20000);
      else if (!this.source) this.open();
    }
    close() { this.closed = true; this.source?.close(); }
  }
  htmx.createEventSource = (url) => new Stream(url);
  const connection = (lost) => { find("#connection").hidden = !lost; };
  document.addEventListener("htmx:sseOpen", () => connection(false));
  document.addEventListener("htmx:sseError", () => connection(true));

  // --- what somebody is typing survives a redrawn block
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    // The answer to a click and the answer to "what changed" may both bring the same new block.
    const arrived = fragment.querySelector?.(".block");
    if (arrived && !target.classList.contains("block") && document.getElementById(arrived.id)) event.detail.shouldSwap = false;
    if (!target.classList.contains("block")) return;
    const news = (root) => root.querySelector("[data-news]")?.dataset.news;
    if (news(fragment) && news(fragment) !== news(target)) find("#announce").textContent = news(fragment);
    all("details[id]", target).forEach((old) => {
      const fresh = fragment.querySelector(`#${CSS.escape(old.id)}`);
      if (fresh) fresh.open = old.open;
      old.removeAttribute("name"); // or the one that leaves closes the one that comes
    });
    all("textarea[id], input[id]:not([type=hidden])", target).forEach((old) => {
      if (old.value === old.defaultValue) return;
      const fresh = fragment.querySelector(`#${CSS.escape(old.id)}`);
      if (fresh) { fresh.value = old.value; return; }
      const unsent = old.form?.dataset.sent ? null : fragment.querySelector(".unsent");
      if (unsent) { unsent.hidden = false; find(".text", unsent).textContent = old.value; }
    });
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("form")) event.target.dataset.sent = "yes";
  });
  document.addEventListener("htmx:oobAfterSwap", tick);
  document.addEventListener("htmx:afterSwap", tick);

  // --- the passage beside the answer
  let opener = null;
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target?.id === "panel") opener = event.target;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target?.id !== "panel") return;
    find("#panel-title").focus({ preventScroll: true });
    find("#passage")?.scrollIntoView({ block: "nearest" });
  });
  function closePanel() {
    const panel = find("#panel");
    if (!panel || !panel.firstChild) return false;
    panel.replaceChildren();
    if (opener?.isConnected) opener.focus();
    return true;
  }

  // --- sentences for what went wrong
  function say(text) {
    const place = find("#notice");
    const sentence = document.createElement("p");
    sentence.className = "notice bad";
    sentence.textContent = text;
    place.replaceChildren(sentence);
    fade();
  }
  let fading;
  function fade() {
    clearTimeout(fading);
    fading = setTimeout(() => find("#notice").replaceChildren(), 9000);
  }
  // A page that asked what changed and got no answer asks again: the next event may be far away.
  const catchingUp = (element) => element.closest(".stream");
  function later(element) {
    connection(true);
    setTimeout(() => element.isConnected && htmx.trigger(element, "sse:changed"), 2000);
  }
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (catchingUp(event.detail.elt) && event.detail.successful !== false && event.detail.xhr.status < 400) connection(false);
  });
  document.addEventListener("htmx:sendError", (event) => {
    if (catchingUp(event.target)) later(event.target);
    else say(document.body.dataset.lost);
  });
  document.addEventListener("htmx:responseError", (event) => {
    const answer = event.detail.xhr;
    if (answer.status === 401) location.assign("/login");
    else if (catchingUp(event.target)) later(event.target);
    else if (!answer.getResponseHeader("HX-Reswap")) say(document.body.dataset[answer.status === 413 ? "large" : "failed"]);
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => { if (event.detail.target?.id === "notice") fade(); });

  // --- keys
  const typing = (target) => target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");
  const keysOn = () => { try { return localStorage.getItem("signoff-keys") !== "off"; } catch { return true; } };
  function move(step) {
    const items = all(".cards:not(.done) a");
    const at = items.findIndex((item) => item.getAttribute("aria-current"));
    const next = items[at < 0 ? 0 : at + step];
    if (next) next.click();
  }
  function press(key) {
    if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
    const control = find(`[data-key="${CSS.escape(key)}"]`);
    if (!control) return;
    if (control.matches("summary")) {
      control.parentElement.open = true;
      find("[data-first]", control.parentElement)?.focus();
    } else if (key === "a") control.focus(); // signing off takes a second key, Enter: one slip must not publish
    else control.click();
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.matches("textarea[data-enter]")) {
      event.preventDefault();
      if (event.target.value.trim()) event.target.form.requestSubmit();
    } else if (event.key === "Escape") {
      if (!closePanel()) event.target.closest(".actions details[open]")?.removeAttribute("open");
    } else if (typing(event.target) || find("dialog[open]")) return;
    else if (event.key === "?" && find("#keys")) { event.preventDefault(); find("#keys").showModal(); }
    else if (event.key.length === 1 && find("#keys") && keysOn()) press(event.key);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) closePanel();
    if (event.target.closest("[data-help]")) find("#keys").showModal();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "keys-on") try { localStorage.setItem("signoff-keys", event.target.checked ? "on" : "off"); } catch { /* private window */ }
  });

  // --- files dropped
  function drops(form) {
    const files = find("#files", form);
    ["dragenter", "dragover"].forEach((name) => form.addEventListener(name, (event) => { event.preventDefault(); form.classList.add("over"); }));
    ["dragleave", "drop"].forEach((name) => form.addEventListener(name, () => form.classList.remove("over")));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      if (!event.dataTransfer.files.length) return;
      files.files = event.dataTransfer.files;
      name();
      find("button.primary", form).focus();
    });
    // Choosing sends nothing yet: which collection, and so who may read them, is decided first.
    const name = () => { find("#chosen", form).value = [...files.files].map((file) => file.name).join(", "); };
    files.addEventListener("change", name);
    const bar = find("#sending", form);
    form.addEventListener("htmx:xhr:loadstart", () => { bar.hidden = false; });
    form.addEventListener("htmx:xhr:progress", (event) => { bar.value = (100 * event.detail.loaded) / event.detail.total; });
    form.addEventListener("htmx:afterRequest", (event) => { bar.hidden = true; if (event.detail.successful) { files.value = ""; name(); } });
  }

  function begin() {
    tick();
    setInterval(tick, 1000);
    if (find("#keys-on")) find("#keys-on").checked = keysOn();
    if (find("#drop")) drops(find("#drop"));
    const turns = find("[data-scroll-end]");
    if (turns && !location.hash && turns.lastElementChild && turns.children.length > 1) turns.lastElementChild.querySelector(".turn")?.scrollIntoView({ block: "start" });
    if (find("#notice").firstChild) fade();
  }
  begin();
})();
