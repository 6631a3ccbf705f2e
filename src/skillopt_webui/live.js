// The live page: parts that changed are replaced in place, forms are sent without a reload, a question is asked first.
(() => {
  const { one, all, shown } = window.skillopt;
  const main = one("main"), parts = one("#parts");
  let stream = null, asked = 0, pending = 0;

  function replace(part, html) {
    const kept = all("details[data-key][open]", part).map(fold => fold.dataset.key);
    const ticked = all("input[type=checkbox]", part).filter(box => box.checked !== box.defaultChecked).map(box => [box.name, box.value, box.checked]);
    const here = document.activeElement, focused = part.contains(here) ? here : null;
    const path = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.name ? `[name="${CSS.escape(focused.name)}"][value="${CSS.escape(focused.value)}"], [name="${CSS.escape(focused.name)}"]` : focused.dataset.task !== undefined ? `[data-task="${CSS.escape(focused.dataset.task)}"]` : null);
    const text = focused && "value" in focused && focused.type !== "checkbox" ? focused.value : null, caret = focused && focused.selectionStart;
    const scrolled = all("[aria-label]", part).filter(box => box.scrollTop || box.scrollLeft).map(box => [box.getAttribute("aria-label"), box.scrollTop, box.scrollLeft]);
    const nested = one("[data-part]", part);
    part.innerHTML = html;
    const hole = one("[data-part]", part);
    if (nested && hole) hole.replaceWith(nested);
    for (const fold of all("details[data-key]", part)) if (kept.includes(fold.dataset.key)) fold.open = true;
    for (const [name, value, checked] of ticked) all("input[type=checkbox]", part).filter(box => box.name === name && box.value === value).forEach(box => { box.checked = checked; });
    for (const [label, top, left] of scrolled) { const box = all("[aria-label]", part).find(other => other.getAttribute("aria-label") === label); if (box) box.scrollTo(left, top); }
    const again = path && one(path, part);
    if (again) {
      again.focus({ preventScroll: true });
      if (text !== null && again.type !== "range") again.value = text;
      if (caret !== null && caret !== undefined && again.setSelectionRange && again.type !== "range") try { again.setSelectionRange(caret, caret); } catch { /* a field without a caret */ }
    }
  }

  // What is wrong with the page follows the page; what was refused stays until something else is pressed.
  function put(reply, wrong = "trouble") {
    if (reply.order && reply.order.join() !== all(":scope > [data-part]", parts).map(part => part.dataset.part).join()) {
      const old = new Map(all(":scope > [data-part]", parts).map(part => [part.dataset.part, part]));
      parts.replaceChildren(...reply.order.map(name => {
        const part = old.get(name) || document.createElement("div");
        part.dataset.part = name;
        return part;
      }));
    }
    for (const [name, [version, html]] of Object.entries(reply.parts || {})) {
      const part = one(`[data-part="${name}"]`);
      if (!part) continue;
      replace(part, html);
      part.dataset.v = version;
    }
    tell(wrong, reply.trouble);
    if (reply.said) tell("said", reply.said);
    shown();
  }

  function tell(where, text) {
    const place = one(`#${where}`);
    if (where === "said") { place.hidden = !text; place.textContent = text || ""; return; }
    if (!text) { place.replaceChildren(); return; }
    if (place.textContent === text) return;
    const box = document.createElement("pre");
    box.className = "trouble"; box.setAttribute("role", "alert"); box.textContent = text;
    place.replaceChildren(box);
  }

  async function refresh() {
    const mine = ++asked;
    const seen = all("[data-part]").map(part => `${part.dataset.part}=${part.dataset.v || ""}`).join();
    try {
      const answer = await fetch(location.href, { headers: { "X-Parts": seen } });
      const reply = await answer.json();
      if (mine === asked) put(reply);
    } catch { /* the server ended, or the page is being left; the stream says when there is more */ }
  }

  function listen() {
    if (stream) stream.close();
    if (main.dataset.live === undefined) { ready(); return; }
    stream = new EventSource(location.href);
    stream.onmessage = refresh;
    stream.onopen = ready;
  }
  const ready = () => { document.documentElement.dataset.ready = "1"; };

  async function go(address, { push = true } = {}) {
    history[push ? "pushState" : "replaceState"](null, "", address);
    await refresh();
    listen();
  }

  function confirmed({ ask, detail, yes }) {
    return new Promise(done => {
      const box = document.createElement("dialog");
      box.setAttribute("aria-label", ask);
      const add = (kind, text, to) => { const made = document.createElement(kind); made.textContent = text; to.append(made); return made; };
      add("h2", ask, box); add("p", detail || "", box);
      const row = add("div", "", box); row.className = "actions";
      const no = add("button", "Cancel", row), sure = add("button", yes || "Yes", row);
      sure.className = "main"; no.autofocus = true;
      const end = answer => { box.remove(); done(answer); };
      no.onclick = () => end(false); sure.onclick = () => end(true); box.oncancel = () => end(false);
      document.body.append(box);
      box.showModal();
    });
  }

  async function send(form, data, button) {
    if (button) button.disabled = true;
    try {
      const answer = await fetch(form.getAttribute("action") || location.href, { method: "POST", body: new URLSearchParams(data) });
      const reply = await answer.json();
      if (reply.go) { location.href = reply.go; return; }
      if (!reply.said) tell("said", "");
      put(reply, "refused");
      if (reply.said) {  // decided: the boxes say again what the page says
        all("form[method=post] input[type=checkbox]").forEach(box => { box.checked = box.defaultChecked; });
        await refresh();
      }
    } catch (error) { tell("refused", `The dashboard did not answer: ${error.message}`); } finally { if (button) button.disabled = false; }
  }

  document.addEventListener("submit", async event => {
    const form = event.target, button = event.submitter, data = new FormData(form);
    if (button && button.name) data.append(button.name, button.value);
    if (form.method === "post") {
      event.preventDefault();
      if (button && button.dataset.ask && !await confirmed(button.dataset)) return;
      await send(form, data, button);
    } else if (form.dataset.swap !== undefined) {
      event.preventDefault();
      go(`${form.getAttribute("action") || location.pathname}?${new URLSearchParams(data)}`);
    }
  });
  document.addEventListener("input", event => {
    const form = event.target.form;
    if (!form || form.dataset.swap === undefined || event.target.type === "checkbox" && form.dataset.swap === "late") return;
    clearTimeout(pending);
    pending = setTimeout(() => go(`${location.pathname}?${new URLSearchParams(new FormData(form))}`, { push: false }), 200);
  });
  document.addEventListener("change", event => {
    const form = event.target.form;
    if (!form || form.dataset.check === undefined) return;
    const data = new FormData(form);
    data.append("verb", "check");
    send(form, data, null);
  });
  document.addEventListener("click", event => {
    const link = event.target.closest && event.target.closest("a[data-swap], .heat a");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); go(link.getAttribute("href")); }
    if (event.target.id === "theme") {
      const names = ["system", "light", "dark"], name = names[(names.indexOf(event.target.dataset.theme) + 1) % 3];
      event.target.dataset.theme = name; event.target.textContent = `Theme: ${name}`;
      if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
      document.cookie = `skillopt_theme=${name}; path=/; SameSite=Strict; max-age=31536000`;
    }
  });
  const task = name => {
    const address = new URL(location.href);
    address.searchParams.set("task", name); address.searchParams.set("version", one("#wall").dataset.at);
    go(address.href, { push: false });
  };
  document.addEventListener("square", event => task(event.detail));
  document.addEventListener("moment", () => {
    const name = new URL(location.href).searchParams.get("task");
    clearTimeout(pending);
    if (name) pending = setTimeout(() => task(name), 250);
  });
  window.addEventListener("popstate", () => { refresh(); listen(); });
  window.addEventListener("pagehide", () => { if (stream) stream.close(); });
  listen();
})();
