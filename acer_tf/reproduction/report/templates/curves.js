// Draws the curves of each <details class="curves"> when it is opened: a task to choose, methods to show, and the values
// under the pointer. Without scripts the page's images show the same. Also opens the section that a link leads to.
"use strict";
(() => {
  const COLOURS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"];
  const HEIGHT = 380, LEFT = 64, RIGHT = 12, TOP = 12, BOTTOM = 44;

  const node = (name, attributes = {}, ...children) => {
    const svg = ["svg", "g", "path", "line", "text", "rect", "circle"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const short = (value) => {
    const size = Math.abs(value);
    const [divisor, unit] = size >= 1e6 ? [1e6, " M"] : size >= 1e3 ? [1e3, " k"] : [1, ""];
    return Number((value / divisor).toPrecision(3)).toLocaleString("en") + unit;
  };
  const ticks = (low, high, count) => {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
    return found;
  };
  const at = (curve, x) => {
    const next = curve.x.findIndex((value) => value >= x);
    if (next < 0 || x < curve.x[0]) return null;
    if (!next) return curve.y[0];
    const share = (x - curve.x[next - 1]) / (curve.x[next] - curve.x[next - 1]);
    return curve.y[next - 1] + share * (curve.y[next] - curve.y[next - 1]);
  };

  const draw = (svg, curves, colours, logarithmic, says) => {
    svg.replaceChildren();
    says.textContent = "";
    svg.onpointermove = svg.onpointerleave = null;
    const WIDTH = svg.clientWidth;  // a unit is a pixel: text keeps its size on a phone
    if (!curves.length || !WIDTH) return;
    const xs = curves.flatMap((curve) => curve.x).filter((x) => !logarithmic || x > 0);
    const ys = curves.flatMap((curve) => [...curve.low, ...curve.high]);
    const [x0, x1] = logarithmic ? [Math.log10(Math.min(...xs)), Math.log10(Math.max(...xs))] : [0, Math.max(...xs)];
    let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    if (y0 === y1) [y0, y1] = [y0 - 1, y1 + 1];
    const across = WIDTH - LEFT - RIGHT, down = HEIGHT - TOP - BOTTOM;
    const px = (x) => LEFT + across * ((logarithmic ? Math.log10(x) : x) - x0) / (x1 - x0 || 1);
    const py = (y) => TOP + down * (1 - (y - y0) / (y1 - y0));
    for (const y of ticks(y0, y1, 6)) {
      svg.append(node("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: py(y), y2: py(y) }));
      svg.append(node("text", { x: LEFT - 8, y: py(y) + 4, "text-anchor": "end" }, short(y)));
    }
    const powers = [];
    for (let power = Math.ceil(x0); logarithmic && power <= Math.floor(x1); power++) powers.push(10 ** power);
    const places = powers.length > 1 ? powers : logarithmic ? ticks(10 ** x0, 10 ** x1, 4) : ticks(x0, x1, WIDTH / 110);
    for (const x of places) {
      svg.append(node("line", { class: "rule", x1: px(x), x2: px(x), y1: TOP, y2: HEIGHT - BOTTOM }));
      svg.append(node("text", { x: px(x), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, short(x)));
    }
    svg.append(node("text", { x: LEFT + across / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "environment steps"));
    for (const curve of curves) {
      const points = curve.x.map((x, i) => [x, i]).filter(([x]) => !logarithmic || x > 0);
      const line = (values, order) => order.map(([x, i]) => `${px(x).toFixed(1)} ${py(values[i]).toFixed(1)}`).join("L");
      const band = `M${line(curve.low, points)}L${line(curve.high, [...points].reverse())}Z`;
      const colour = colours.get(curve.method);
      svg.append(node("path", { d: band, fill: colour, opacity: 0.13 }));
      svg.append(node("path", { d: `M${line(curve.y, points)}`, fill: "none", stroke: colour, "stroke-width": 2,
        "stroke-dasharray": curve.runs ? "none" : "6 4" }));
    }
    const cursor = node("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    svg.append(cursor);
    svg.onpointermove = (event) => {
      const box = svg.getBoundingClientRect();
      const place = Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / across));
      const x = logarithmic ? 10 ** (x0 + place * (x1 - x0)) : x0 + place * (x1 - x0);
      cursor.setAttribute("x1", px(x));
      cursor.setAttribute("x2", px(x));
      cursor.setAttribute("visibility", "visible");
      const values = curves.map((curve) => [curve.label, at(curve, x)]).filter(([, y]) => y !== null);
      says.textContent = [`${short(x)} steps`, ...values.map(([label, y]) => `${label}: ${short(y)}`)].join(" · ");
    };
    svg.onpointerleave = () => { cursor.setAttribute("visibility", "hidden"); says.textContent = ""; };
  };

  for (const place of document.querySelectorAll("details.curves")) {
    const tasks = JSON.parse(place.querySelector("script").textContent);
    const kinds = [...new Set(Object.values(tasks).flat().map((curve) => curve.method))];
    const colours = new Map(kinds.map((method, i) => [method, COLOURS[i % COLOURS.length]]));
    const hidden = new Set();
    const task = node("select", { "aria-label": "task" });
    for (const name of Object.keys(tasks)) task.append(node("option", {}, name));
    const methods = node("div", { class: "methods" });
    const log = node("input", { type: "checkbox" });
    const svg = node("svg", { height: HEIGHT, role: "img", "aria-label": "learning curves" });
    const says = node("output", {}, "");
    const redraw = () => draw(svg, tasks[task.value].filter((curve) => !hidden.has(curve.label)), colours, log.checked, says);
    const choose = () => {
      methods.replaceChildren(...tasks[task.value].map((curve) => {
        const box = node("input", { type: "checkbox" });
        box.checked = !hidden.has(curve.label);
        box.onchange = () => { hidden[box.checked ? "delete" : "add"](curve.label); redraw(); };
        const runs = curve.runs > 1 ? ` (${curve.runs} ${curve.unit})` : "";
        return node("label", { style: `--method: ${colours.get(curve.method)}` }, box, curve.label + runs);
      }));
      redraw();
    };
    task.onchange = () => {
      const end = (published) => Math.max(0, ...tasks[task.value].filter((c) => !c.runs === published).map((c) => c.x.at(-1)));
      log.checked = end(true) > 3 * end(false);
      choose();
    };
    log.onchange = redraw;
    const controls = node("p", { class: "controls" }, node("label", {}, "Task ", task), node("label", {}, log, "logarithmic steps"));
    place.append(node("div", { class: "chart" }, controls, methods, svg, says));
    task.onchange();
    new ResizeObserver(redraw).observe(svg);
  }

  const open = () => document.querySelector(":target > details")?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();
})();
