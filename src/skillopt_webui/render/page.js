// The scrubber, for the live page and the report; what only the live page has stands in live.js.
(() => {
  const MARKS = ["not-evaluated", "pass", "partial", "fail", "invalid"], SIGNS = ["·", "✓", "◐", "✗", "!"];
  const RANK = [null, 2, 1, 0, null];
  const one = (selector, from) => (from || document).querySelector(selector);
  const all = (selector, from) => [...(from || document).querySelectorAll(selector)];
  const at = (marks, moment) => { let found = 0; for (const [first, mark] of marks) if (first <= moment) found = mark; return found; };
  const SECONDS = 30, LONGEST = 2;  // a whole run, and one moment of it
  let chosen = null;  // what the person chose last; a live page stays there, and else follows the run
  let playing = 0;  // the timer while the scrubber moves by itself

  function show(moment) {
    const scrubber = one("#scrubber"), wall = one("#wall");
    if (!scrubber || !wall) return;
    const k = Math.max(0, Math.min(+scrubber.max, moment)), mark = one(`.moment[data-k="${k}"]`);
    scrubber.value = k;
    all(".moment.at").forEach(other => other.classList.remove("at"));
    if (mark) {
      mark.classList.add("at");
      const said = one("title", mark).textContent;
      one("#moment").textContent = said;
      scrubber.setAttribute("aria-valuetext", said);
      one(".cursor").setAttribute("transform", `translate(${mark.dataset.x})`);
      const wide = mark.closest(".wide");  // on a phone the chart is wider than the screen and follows
      wide.scrollLeft = mark.dataset.x / 1000 * wide.scrollWidth - wide.clientWidth / 2;
    }
    for (const line of all(".skill li")) {
      const first = +line.dataset.first;
      line.hidden = !(first <= k && (!line.dataset.gone || k < +line.dataset.gone));
      line.classList.toggle("new", first === k && k > 0);
    }
    const before = Math.max(-1, ...wall.dataset.taken.split(" ").map(Number).filter(other => other < k));
    for (const square of all(".wall button", wall)) {
      const marks = square.dataset.marks.split(" ").filter(Boolean).map(pair => pair.split(":").map(Number));
      const now = at(marks, k), was = before < 0 ? now : at(marks, before);
      const moved = RANK[now] === null || RANK[was] === null ? 0 : RANK[now] - RANK[was];
      square.className = MARKS[now] + (moved > 0 ? " better" : moved < 0 ? " worse" : "");
      square.textContent = SIGNS[now];
      square.title = `${square.dataset.task}: ${MARKS[now].replace("-", " ")}`;
    }
    one("#passing").textContent = wall.dataset.counts.split("|")[k];
    wall.dataset.at = wall.dataset.shorts.split(" ")[k];
  }

  function choose(moment) {
    chosen = moment;
    show(moment);
    document.dispatchEvent(new Event("moment"));
  }

  function named() { const button = one("#play"); if (button) button.textContent = playing ? "Pause" : "Play"; }
  function pause() { clearInterval(playing); playing = 0; named(); }
  function play(seconds) {
    const last = +one("#scrubber").max, from = +one("#scrubber").value;
    choose(from < last ? from : 0);
    playing = setInterval(() => {
      const k = +one("#scrubber").value;
      if (k < +one("#scrubber").max) choose(k + 1); else pause();
    }, 1000 * (seconds ? seconds / (last + 1) : Math.min(LONGEST, SECONDS / (last + 1))));
    named();
  }

  document.addEventListener("input", event => { if (event.target.id === "scrubber") { pause(); choose(+event.target.value); } });
  for (const kind of ["pointerdown", "pointermove"])
    document.addEventListener(kind, event => {
      const chart = event.target.closest && event.target.closest(".stairs");
      if (!chart || (kind === "pointermove" && !event.buttons)) return;
      const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
      const marks = all(".moment", chart);
      const near = marks.reduce((best, mark) => Math.abs(mark.dataset.x - x) < Math.abs(best.dataset.x - x) ? mark : best, marks[0]);
      if (near) { pause(); choose(+near.dataset.k); }
    });
  document.addEventListener("click", event => {
    if (event.target.id === "play") { if (playing) pause(); else play(); }
    const square = event.target.closest && event.target.closest(".wall button");
    if (!square) return;
    all(".wall [aria-pressed]").forEach(other => other.removeAttribute("aria-pressed"));
    square.setAttribute("aria-pressed", "true");
    const kept = all("template[data-task]").find(one => one.dataset.task === square.dataset.task);
    if (kept) one("#task").replaceChildren(kept.content.cloneNode(true));
    document.dispatchEvent(new CustomEvent("square", { detail: square.dataset.task }));
  });
  // Arrow keys walk through the squares and through the cells of a table; each is one stop of the tabulator.
  document.addEventListener("keydown", event => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const here = event.target, square = step && here.closest(".wall button"), cell = step && here.closest(".heat td");
    let next = null;
    if (square) {
      const squares = all(".wall button"), wide = squares.filter(other => other.offsetTop === squares[0].offsetTop).length;
      next = squares[squares.indexOf(square) + step[0] * wide + step[1]];
    } else if (cell) {
      const row = cell.parentElement, rows = [...row.parentElement.children];
      next = one("a", rows[rows.indexOf(row) + step[0]]?.children[[...row.children].indexOf(cell) + step[1]] || document.createElement("i"));
    }
    if (next) {
      event.preventDefault();
      here.tabIndex = -1; next.tabIndex = 0; next.focus();
    }
    const key = { c: "#configuration", l: "#log" }[event.key];
    if (key && one(key) && !event.ctrlKey && !event.metaKey && !event.altKey && !here.closest("input, select, textarea")) {
      const fold = one("details", one(key));
      if (fold) fold.open = true;
      one(key).scrollIntoView();
      (one("summary", one(key)) || one(key)).focus();
    }
  });
  function times() {
    for (const time of all("time[datetime]")) {
      const moment = new Date(time.dateTime);
      if (!isNaN(moment)) time.textContent = moment.toLocaleString([], { dateStyle: "short", timeStyle: time.dataset.short ? "short" : "medium" });
    }
  }
  // The stairs stay in sight while one reads the skill below them; the wall stays below the stairs.
  const under = new ResizeObserver(([card]) => {
    const isFixed = getComputedStyle(card.target).position === "sticky";
    document.documentElement.style.setProperty("--under", isFixed ? `${card.target.offsetHeight}px` : "0px");
  });
  const scrubber = () => one("#scrubber");
  window.skillopt = { one, all, times, choose, shown: () => { times(); named(); under.disconnect(); if (one("#scores")) under.observe(one("#scores")); if (scrubber()) show(chosen === null ? +scrubber().value : chosen); } };
  window.skillopt.shown();
  const asked = document.documentElement.dataset.play;
  if (asked && scrubber()) { choose(0); play(+asked); }
})();
