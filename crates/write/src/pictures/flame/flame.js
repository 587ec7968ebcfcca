// Zoom, search and details of a flame graph. Works on the rectangles that are
// there: each <g class="f"> has its span of the whole in data-x and data-w (0 to 1).
(() => {
  const svg = document.querySelector("svg.flame");
  const frames = [...svg.querySelectorAll("g.f")].map((g) => ({
    g,
    rect: g.querySelector("rect"),
    text: g.querySelector("text"),
    title: g.querySelector("title").textContent,
    name: g.dataset.name,
    x: Number(g.dataset.x),
    w: Number(g.dataset.w),
    depth: Number(g.dataset.depth),
  }));
  const width = svg.viewBox.baseVal.width;
  const details = svg.querySelector("#details");
  const matched = svg.querySelector("#matched");
  const CHARACTER = 6.6;
  let zoomed = { x: 0, w: 1, depth: -1 };

  const draw = () => {
    for (const frame of frames) {
      const isAbove = frame.depth < zoomed.depth;
      const from = Math.max(frame.x, zoomed.x);
      const to = Math.min(frame.x + frame.w, zoomed.x + zoomed.w);
      const pixels = ((to - from) / zoomed.w) * width;
      const isShown = pixels > 0.3;
      frame.g.style.display = isShown ? "" : "none";
      if (!isShown) continue;
      const left = ((from - zoomed.x) / zoomed.w) * width;
      frame.rect.setAttribute("x", left.toFixed(2));
      frame.rect.setAttribute("width", Math.max(pixels - 0.5, 0.3).toFixed(2));
      frame.text.setAttribute("x", (left + 3).toFixed(2));
      const room = Math.floor((pixels - 6) / CHARACTER);
      const { name } = frame;
      frame.text.textContent =
        room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 1) + "…";
      frame.g.style.opacity = isAbove ? 0.5 : 1;
    }
  };

  const search = (term) => {
    const wanted = term.trim().toLowerCase();
    let covered = 0;
    let reached = -1;
    const order = [...frames].sort((a, b) => a.x - b.x || a.depth - b.depth);
    for (const frame of order) {
      const isHit = wanted !== "" && frame.name.toLowerCase().includes(wanted);
      frame.rect.classList.toggle("hit", isHit);
      if (isHit && frame.x + frame.w > reached) {
        covered += frame.x + frame.w - Math.max(frame.x, reached);
        reached = frame.x + frame.w;
      }
    }
    matched.textContent = wanted === "" ? "" : `matched: ${(100 * covered).toFixed(1)} %`;
  };

  for (const frame of frames) {
    frame.g.addEventListener("mouseenter", () => {
      details.textContent = frame.title;
    });
    frame.g.addEventListener("click", () => {
      zoomed = frame;
      draw();
    });
  }
  const ask = () => search(window.prompt("Search for frames whose name holds:", "") ?? "");
  svg.querySelector("#search").addEventListener("click", ask);
  svg.querySelector("#reset").addEventListener("click", () => {
    zoomed = { x: 0, w: 1, depth: -1 };
    search("");
    draw();
  });
  window.addEventListener("keydown", (event) => {
    // On a page with more than the graph, people want to search the page.
    const isAlone = document.body?.dataset.report === undefined;
    if (isAlone && (event.ctrlKey || event.metaKey) && event.key === "f") {
      event.preventDefault();
      ask();
    }
    if (event.key === "Escape") svg.querySelector("#reset").dispatchEvent(new Event("click"));
  });
  draw();
})();
