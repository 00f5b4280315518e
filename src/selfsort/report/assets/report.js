"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  // A page opened from disk may be refused storage; the choice then lasts as long as the page. theme.js reads it.
  const remember = (value) => {
    try {
      localStorage.setItem("selfsort-theme", value);
    } catch {}
  };
  const showTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    document.dispatchEvent(new Event("themechange"));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();
  document.querySelectorAll(".map").forEach(startMap);
  document.querySelectorAll("figure.chart").forEach(letScroll);
  // A link of which a little can be seen is left there by the browser.
  document
    .querySelectorAll(".links a")
    .forEach((link) => link.addEventListener("focus", () => link.scrollIntoView({ block: "nearest", inline: "nearest" })));
})();

/** Let a chart that is wider than its frame be reached and scrolled by keyboard, as long as it is. */
function letScroll(figure) {
  const title = figure.querySelector("figcaption")?.textContent ?? "Chart";
  new ResizeObserver(() => {
    const isWide = figure.scrollWidth > figure.clientWidth + 1;
    const roles = { tabindex: "0", role: "region", "aria-label": `${title}, scrolls sideways` };
    for (const [name, value] of Object.entries(roles)) {
      if (isWide) figure.setAttribute(name, value);
      else figure.removeAttribute(name);
    }
  }).observe(figure);
}

/** Draw one map and let it be moved, zoomed and asked. Coordinates of the data run from 0 to GRID. */
function startMap(box) {
  const GRID = 4095;
  const data = JSON.parse(box.querySelector("script").textContent);
  const canvas = box.querySelector("canvas");
  const peek = box.querySelector(".peek");
  const pen = canvas.getContext("2d");
  const count = data.row.length;
  const palette = [];
  let layout = data.neighbours;
  let colourBy = "cluster";
  let only = null;
  let chosen = -1;
  let isPinned = false;
  let view = { x: GRID / 2, y: GRID / 2, zoom: 1 };
  let isAsked = false;
  let isShaded = "weight" in data;
  let shade = null;

  const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
  // The axes mean nothing by themselves, so a wide page may stretch the map a little.
  const shorter = () => Math.min(size().width, size().height);
  const scaleX = () => (Math.min(size().width, 1.7 * shorter()) / (GRID * 1.05)) * view.zoom;
  const scaleY = () => (Math.min(size().height, 1.7 * shorter()) / (GRID * 1.05)) * view.zoom;
  const toX = (x) => (x - view.x) * scaleX() + size().width / 2;
  const toY = (y) => (y - view.y) * scaleY() + size().height / 2;
  const isShown = (i) => only === null || data.cluster[i] === only;

  function readColours() {
    const probe = document.createElement("i");
    box.append(probe);
    for (let i = 0; i < data.colours; i++) {
      probe.className = `k${i}`;
      palette[i] = getComputedStyle(probe).getPropertyValue("--k").trim();
    }
    probe.remove();
  }
  const sureColour = (sure) => `hsl(${15 + 1.85 * sure} 65% 48%)`;
  function colourOf(i) {
    if (colourBy === "truth") return palette[data.truth[i] % data.colours];
    if (colourBy === "right") return data.matched[data.cluster[i]] === data.truth[i] ? palette[2] : palette[3];
    if (colourBy === "sure") return sureColour(data.sure[i]);
    return palette[data.cluster[i] % data.colours];
  }
  function dot(i, radius) {
    pen.beginPath();
    pen.arc(toX(layout[0][i]), toY(layout[1][i]), radius, 0, 2 * Math.PI);
  }
  /** Blur how many images each dot stands for into a small picture, which is drawn enlarged below the dots. */
  function makeShade() {
    const cells = 96;
    const reach = 3;
    const sums = new Float32Array(cells * cells);
    for (let i = 0; i < count; i++) {
      const x = ((layout[0][i] / GRID) * 0.9 + 0.05) * cells;
      const y = ((layout[1][i] / GRID) * 0.9 + 0.05) * cells;
      for (let v = Math.max(0, Math.floor(y) - 2 * reach); v < Math.min(cells, y + 2 * reach); v++) {
        for (let u = Math.max(0, Math.floor(x) - 2 * reach); u < Math.min(cells, x + 2 * reach); u++) {
          const away = ((u + 0.5 - x) ** 2 + (v + 0.5 - y) ** 2) / (reach * reach);
          sums[v * cells + u] += data.weight[i] * Math.exp(-2 * away);
        }
      }
    }
    const most = sums.reduce((a, b) => Math.max(a, b), 1e-9);
    const made = document.createElement("canvas");
    made.width = made.height = cells;
    const small = made.getContext("2d");
    const pixels = small.createImageData(cells, cells);
    const [red, green, blue] = getComputedStyle(canvas).color.match(/\d+/g).map(Number);
    sums.forEach((sum, i) => pixels.data.set([red, green, blue, 130 * Math.sqrt(sum / most)], 4 * i));
    small.putImageData(pixels, 0, 0);
    return made;
  }
  function draw() {
    isAsked = false;
    const { width, height } = size();
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    if (isShaded) {
      shade ??= makeShade();
      const edge = (0.05 / 0.9) * GRID;
      pen.imageSmoothingQuality = "high";
      pen.drawImage(shade, toX(-edge), toY(-edge), scaleX() * (GRID + 2 * edge), scaleY() * (GRID + 2 * edge));
    }
    const radius = Math.min(7, (count > 1200 ? 2.4 : 3.4) * Math.sqrt(view.zoom));
    for (const isFront of [false, true]) {
      for (let i = 0; i < count; i++) {
        if (isShown(i) !== isFront) continue;
        pen.globalAlpha = isFront ? 0.85 : 0.12;
        pen.fillStyle = colourOf(i);
        dot(i, radius);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
    if (chosen >= 0) {
      pen.strokeStyle = getComputedStyle(canvas).color;
      pen.lineWidth = 2;
      dot(chosen, radius + 3);
      pen.stroke();
      placePeek();
    }
  }
  const redraw = () => {
    if (!isAsked) requestAnimationFrame(draw);
    isAsked = true;
  };

  const pictureOf = (row) =>
    data.pictures[row] || document.querySelector(`#${data.anchor}run img[data-row="${row}"]`)?.src;
  function line(text, name) {
    const p = document.createElement("p");
    p.textContent = text;
    if (name) p.className = name;
    return p;
  }
  function show(i, isKept = false) {
    if (i === chosen && isKept === isPinned) return;
    chosen = i;
    isPinned = isKept && i >= 0;
    peek.hidden = i < 0;
    if (i >= 0) {
      const cluster = data.cluster[i];
      const parts = [line(data.name[i], "file"), line(`${cluster === data.outliers ? "Outlier" : `Cluster ${cluster}`}, confidence ${(data.sure[i] / 100).toFixed(2)}`)];
      if (data.truth) parts.push(line(`True class: ${data.classes[data.truth[i]]}`));
      const source = pictureOf(data.row[i]);
      if (source) {
        const picture = new Image();
        picture.src = source;
        picture.alt = "";
        parts.unshift(picture);
      } else {
        parts.push(line("No picture of it was kept.", "note"));
      }
      if (isPinned) {
        const link = document.createElement("a");
        link.href = `#${data.anchor}cluster-${cluster}`;
        link.textContent = `Go to cluster ${cluster}`;
        parts.push(link);
      }
      peek.replaceChildren(...parts);
    }
    redraw();
  }
  function placePeek() {
    const { width, height } = size();
    const x = toX(layout[0][chosen]);
    const y = toY(layout[1][chosen]);
    const left = x + 14 + peek.offsetWidth > width ? x - 14 - peek.offsetWidth : x + 14;
    const top = y - peek.offsetHeight / 2;
    peek.style.left = `${Math.max(4, Math.min(left, width - peek.offsetWidth - 4))}px`;
    peek.style.top = `${Math.max(4, Math.min(top, height - peek.offsetHeight - 4))}px`;
  }
  function nearest(x, y) {
    let best = -1;
    let reach = 14 ** 2;
    for (let i = 0; i < count; i++) {
      if (!isShown(i)) continue;
      const away = (toX(layout[0][i]) - x) ** 2 + (toY(layout[1][i]) - y) ** 2;
      if (away < reach) [best, reach] = [i, away];
    }
    return best;
  }
  function zoom(factor, x = size().width / 2, y = size().height / 2) {
    const [beforeX, beforeY] = [scaleX(), scaleY()];
    view.zoom = Math.max(0.5, Math.min(60, view.zoom * factor));
    view.x += (x - size().width / 2) * (1 / beforeX - 1 / scaleX());
    view.y += (y - size().height / 2) * (1 / beforeY - 1 / scaleY());
    redraw();
  }
  function move(dx, dy) {
    view.x -= dx / scaleX();
    view.y -= dy / scaleY();
    redraw();
  }
  function showAll() {
    view = { x: GRID / 2, y: GRID / 2, zoom: 1 };
    redraw();
  }
  function step(by) {
    const rows = [...Array(count).keys()].filter(isShown);
    if (!rows.length) return;
    const next = rows[(rows.indexOf(chosen) + by + rows.length) % rows.length];
    show(next, true);
    const { width, height } = size();
    const [x, y] = [toX(layout[0][next]), toY(layout[1][next])];
    if (x < 0 || y < 0 || x > width || y > height) [view.x, view.y] = [layout[0][next], layout[1][next]];
  }

  const touches = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    touches.set(event.pointerId, event);
    travelled = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = touches.get(event.pointerId);
    if (!last) {
      if (!isPinned) show(nearest(event.offsetX, event.offsetY));
      return;
    }
    const [dx, dy] = [event.offsetX - last.offsetX, event.offsetY - last.offsetY];
    travelled += Math.abs(dx) + Math.abs(dy);
    if (touches.size === 2) {
      const other = [...touches.values()].find((touch) => touch.pointerId !== event.pointerId);
      const apart = (a) => Math.hypot(a.offsetX - other.offsetX, a.offsetY - other.offsetY) || 1;
      zoom(apart(event) / apart(last), other.offsetX, other.offsetY);
    } else if (travelled > 3) {
      move(dx, dy);
    }
    touches.set(event.pointerId, event);
  });
  canvas.addEventListener("pointerup", (event) => {
    touches.delete(event.pointerId);
    if (travelled <= 3) {
      const found = nearest(event.offsetX, event.offsetY);
      show(found, found >= 0);
    }
  });
  canvas.addEventListener("pointercancel", (event) => touches.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => isPinned || show(-1));
  // The wheel belongs to the page until the map has been selected.
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
  const actions = {
    ArrowLeft: () => move(40, 0),
    ArrowRight: () => move(-40, 0),
    ArrowUp: () => move(0, 40),
    ArrowDown: () => move(0, -40),
    "+": () => zoom(1.3),
    "=": () => zoom(1.3),
    "-": () => zoom(1 / 1.3),
    0: showAll,
    n: () => step(1),
    p: () => step(-1),
    Escape: () => show(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
  box.querySelectorAll("[data-zoom]").forEach((button) =>
    button.addEventListener("click", () => ({ in: () => zoom(1.4), out: () => zoom(1 / 1.4), all: showAll })[button.dataset.zoom]()),
  );
  function showKey() {
    const entry = (colour, text) => {
      const item = document.createElement("span");
      const dot = document.createElement("i");
      dot.className = "dot";
      dot.style.background = colour;
      item.append(dot, text);
      return item;
    };
    const keys = {
      cluster: () => [],
      truth: () => data.classes.slice(0, 40).map((name, i) => entry(palette[i % data.colours], name)),
      right: () => [entry(palette[2], "right"), entry(palette[3], "wrong")],
      sure: () => [0, 25, 50, 75, 100].map((sure) => entry(sureColour(sure), (sure / 100).toFixed(2))),
    };
    box.querySelector(".key").replaceChildren(...keys[colourBy]());
    const chosenColour = box.querySelector("[data-choice=colour]").selectedOptions[0].textContent;
    canvas.setAttribute("aria-label", canvas.getAttribute("aria-label").replace(/coloured by .*/, `coloured by ${chosenColour}`));
    box.classList.toggle("plain", colourBy !== "cluster");
  }
  box.querySelectorAll("select").forEach((select) =>
    select.addEventListener("change", () => {
      if (select.dataset.choice === "colour") colourBy = select.value;
      else if (select.dataset.choice === "shading") isShaded = select.value === "all";
      else layout = data[select.value];
      shade = null;
      showKey();
      redraw();
    }),
  );
  const buttons = [...box.querySelectorAll("[data-cluster]")];
  buttons.forEach((button) =>
    button.addEventListener("click", () => {
      const cluster = Number(button.dataset.cluster);
      only = only === cluster ? null : cluster;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(Number(other.dataset.cluster) === only)));
      show(-1);
      redraw();
    }),
  );
  readColours();
  // Drawn at once, not with the next frame: a stretched old drawing would be seen in between.
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("themechange", () => {
    shade = null;
    redraw();
  });
  addEventListener("beforeprint", draw);
}
