// Tables of every page: sort by a head, show the rows that contain a text.
// Reports: further rows of the scorecard, and the panel "what if".
"use strict";
(() => {
  const key = (row, k) => {
    const cell = row.cells[k];
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const number = (text) => {
    const value = parseFloat(text.replace("−", "-").replace(/,/g, ""));
    return Number.isNaN(value) ? -Infinity : value;
  };
  const sort = (head) => {
    const table = head.closest("table"), k = head.cellIndex;
    const numeric = head.classList.contains("number") || table.tBodies[0].rows[0]?.cells[k].dataset.key;
    const was = head.getAttribute("aria-sort");
    const down = was ? was === "ascending" : Boolean(numeric);
    for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compare = numeric
      ? (a, b) => number(key(a, k)) - number(key(b, k))
      : (a, b) => key(a, k).localeCompare(key(b, k), undefined, { numeric: true });
    const rows = [...table.tBodies[0].rows].sort(compare);
    table.tBodies[0].append(...(down ? rows.reverse() : rows));
  };
  document.addEventListener("click", (event) => {
    const head = event.target.closest("th[data-sort]");
    if (head) sort(head);
  });
  // The scorecard adds rows that it does not show at first: see below.
  const find = (input) => {
    const id = input.dataset.search, body = document.getElementById(id).tBodies[0];
    const words = input.value.toLowerCase().trim();
    input.dispatchEvent(new CustomEvent("finding", { detail: words, bubbles: true }));
    let count = 0;
    for (const row of body.rows) {
      row.hidden = !row.textContent.toLowerCase().includes(words);
      count += !row.hidden;
    }
    const status = document.querySelector(`[data-found="${id}"]`);
    status.textContent = words ? `${count} rows found` : "";
  };
  document.addEventListener("input", (event) => {
    if (event.target.dataset.search) find(event.target);
  });
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const each of closed) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
})();

// Only a report has data. All texts are set as textContent, never as HTML.
(() => {
  const source = document.getElementById("page-data");
  if (source === null) return;
  const D = JSON.parse(source.textContent);
  const K = D.classes.length, width = D.intercept.length;
  const byId = (id) => document.getElementById(id);
  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const drawn = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const bar = (value, most, both) => {
    const share = most > 0 ? Math.min(Math.abs(value) / most, 1) : 0;
    const long = both ? 50 * share : 100 * share;
    const start = both ? (value < 0 ? 50 - long : 50) : 0;
    const svg = drawn("svg", { class: both ? "bar both" : "bar", "aria-hidden": "true" });
    svg.append(drawn("rect", { x: `${start}%`, width: `${long}%`, class: value < 0 ? "minus" : "plus" }));
    return svg;
  };
  const cell = (content, attributes) => {
    const element = make("td", undefined, attributes);
    element.append(content);
    return element;
  };
  const signed = (x, digits = D.digits) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
  const percent = (p) => {
    if (p > 0 && p < 0.0005) return "< 0.1\u00a0%";
    if (p < 1 && p > 0.9995) return "> 99.9\u00a0%";
    return `${(100 * p).toFixed(1)}\u00a0%`;
  };

  // ---- columns and features
  const columns = D.columns.map(([name, level, start, counts]) => {
    const [categories, other] = D.levels[level];
    const choices = other === null ? categories : [...categories, other];
    return { name, categories, choices, start, counts };
  });
  const features = D.features.map(([members, points, unseen, keys, fresh, counts, name, ruled, ruledUnseen]) => {
    const sizes = members.map((j) => columns[j].categories.length);
    const place = keys && new Map(keys.map((key, k) => [key, k]).filter(([key]) => key !== null));
    return { members, points, unseen, keys, fresh, counts, name, ruled, ruledUnseen, sizes, place };
  });
  for (const f of features) {
    const single = f.keys === null;
    f.name ??= columns[f.members[0]].name;
    f.counts ??= single ? columns[f.members[0]].counts : null;
    f.size = f.points.length / width;
    f.text = (k) => {
      if (single) return columns[f.members[0]].categories[k];
      let key = f.keys[k];
      if (key === null) return "(new)";
      const parts = [];
      for (let i = f.sizes.length - 1; i >= 0; i--) {
        parts.unshift(columns[f.members[i]].categories[key % f.sizes[i]]);
        key = Math.floor(key / f.sizes[i]);
      }
      return parts.join(" & ");
    };
  }
  const using = columns.map(() => []);
  features.forEach((f) => f.members.forEach((j) => using[j].push(f)));
  const ordered = [...new Set(features.flatMap((f) => f.members))];

  // ---- from choices to an answer
  let codes = columns.map((c) => c.start);
  const covariates = D.covariates.map(([name, weight]) => ({ name, weight, value: 0 }));
  const codeOf = (f, at) => {
    let key = 0;
    for (let i = 0; i < f.members.length; i++) {
      const code = at(f.members[i]);
      if (code >= f.sizes[i]) return f.size;
      key = key * f.sizes[i] + code;
    }
    return f.place === null ? key : (f.place.get(key) ?? f.fresh ?? f.size);
  };
  const pointsAt = (f, k, own) => {
    const table = own && f.ruled ? f.ruled : f.points, last = own && f.ruled ? f.ruledUnseen : f.unseen;
    return k < f.size ? table.slice(k * width, (k + 1) * width) : last;
  };
  const add = (scores, points, sign) => points.forEach((x, y) => { scores[y] += sign * x; });
  const scoresAt = (own) => {
    const scores = [...(own && D.rule_intercept ? D.rule_intercept : D.intercept)];
    for (const f of features) add(scores, pointsAt(f, codeOf(f, (j) => codes[j]), own), 1);
    for (const c of covariates) scores[0] += c.weight * c.value;
    return scores;
  };
  const changed = (scores, j, code, own) => {
    const sums = [...scores];
    for (const f of using[j]) {
      add(sums, pointsAt(f, codeOf(f, (i) => codes[i]), own), -1);
      add(sums, pointsAt(f, codeOf(f, (i) => (i === j ? code : codes[i])), own), 1);
    }
    return sums;
  };
  const estimates = (s) => (K === 2 ? [0.5 - s[0], 0.5 + s[0]] : s.map((x) => x + 1 / K));
  const decide = (t) => t.indexOf(Math.max(...t));
  const project = (t) => {
    const down = [...t].sort((a, b) => b - a);
    let total = 0, shift = 0;
    down.forEach((x, k) => {
      total += x;
      if (x > (total - 1) / (k + 1)) shift = (total - 1) / (k + 1);
    });
    return t.map((x) => Math.max(x - shift, 0));
  };
  const probabilities = (t) => {
    if (D.slope === null) return project(t);
    const most = Math.max(...t), e = t.map((x) => Math.exp(D.slope * (x - most)));
    const total = e.reduce((a, b) => a + b);
    return e.map((x) => x / total);
  };
  const ruleShares = (t) => {
    const p = project(t), q = p.reduce((a, x) => a + x * x, 0);
    if (D.rule === "renyi") return p.map((x) => (x * x) / q);
    const r = p.map((x) => Math.max(0, 2 * x - q));
    r[decide(p)] += 1 - r.reduce((a, b) => a + b);
    return r;
  };

  // ---- the panel
  const LIMIT = 50, TURNS = 8;
  const show = () => {
    const scores = scoresAt(false), t = estimates(scores), p = probabilities(t);
    const random = D.rule !== "map", ruled = random ? scoresAt(true) : scores;
    const answer = decide(estimates(ruled));
    let text = `Answer: ${D.classes[answer]}`;
    if (random) text = `Rule ${D.rule} answers at random: ${D.classes[answer]} on ${percent(ruleShares(estimates(ruled))[answer])} of such rows`;
    byId("answer").textContent = text;
    byId("score").textContent = K === 2
      ? `Score ${signed(scores[0])}; above 0 ${random ? "the likelier" : "it"} is ${D.classes[1]}.`
      : `Scores ${scores.map((x, y) => `${D.classes[y]} ${signed(x)}`).slice(0, 8).join(", ")}; the highest ${random ? "is the likeliest" : "wins"}.`;
    byId("chances").tBodies[0].replaceChildren(...D.classes.map((name, y) => {
      const row = make("tr");
      row.append(make("th", name, { scope: "row" }), cell(bar(p[y], 1, false), { class: "chart" }));
      row.append(make("td", percent(p[y]), { class: "number", "data-value": p[y] }));
      if (random) row.append(make("td", percent(ruleShares(estimates(ruled))[y]), { class: "number" }));
      return row;
    }));
    showMoves(answer);
    showTurns(ruled, answer, random);
  };
  const showMoves = (answer) => {
    const place = K === 2 ? 0 : answer;
    const moves = features.map((f) => {
      const k = codeOf(f, (j) => codes[j]);
      return { name: f.name, text: k < f.size ? f.text(k) : "(any other)", points: pointsAt(f, k)[place] };
    });
    for (const c of covariates) moves.push({ name: c.name, text: String(c.value), points: c.weight * c.value });
    moves.sort((a, b) => Math.abs(b.points) - Math.abs(a.points));
    const top = moves.slice(0, 8), most = Math.abs(top[0]?.points ?? 0);
    byId("moves").tHead.rows[0].cells[1].textContent = K === 2
      ? `← ${D.classes[0]} ${D.classes[1]} →` : `← against, for → ${D.classes[answer]}`;
    byId("moves").tBodies[0].replaceChildren(...top.map(({ name, text, points }) => {
      const row = make("tr"), head = make("th", name, { scope: "row" });
      head.append(make("small", text));
      row.append(head, cell(bar(points, most, true), { class: "chart" }));
      row.append(make("td", signed(points), { class: "number" }));
      return row;
    }));
  };
  const showTurns = (scores, answer, own) => {
    const turns = [];
    let near = null;
    ordered.forEach((j) => columns[j].choices.forEach((choice, code) => {
      if (code === codes[j]) return;
      const column = columns[j];
      const t = estimates(changed(scores, j, code, own)), other = decide(t);
      const p = probabilities(t);
      const entry = { column, choice, j, code, p: p[other], answer: other, left: p[answer] };
      if (other !== answer) turns.push(entry);
      else if (near === null || entry.left < near.left) near = entry;
    }));
    turns.sort((a, b) => b.p - a.p);
    const some = turns.slice(0, TURNS);
    const items = some.map((e) => {
      const item = make("li"), button = make("button", `${e.column.name}: ${e.column.choices[codes[e.j]]} → ${e.choice}`, { type: "button", class: "plain" });
      button.addEventListener("click", () => choose(e.j, e.code, true));
      item.append(button, make("span", `gives ${D.classes[e.answer]}${own ? "" : ` (${percent(e.p)})`}`));
      return item;
    });
    let text = `${turns.length} single ${turns.length === 1 ? "change turns the answer:" : "changes turn the answer, the surest first:"}`;
    if (some.length < turns.length) text = `${turns.length} single changes turn the answer. The surest ${some.length} of them:`;
    if (!turns.length) text = "No single change turns the answer.";
    if (!turns.length && near && !own) text += ` The nearest: ${near.column.name}: ${near.column.choices[codes[near.j]]} → ${near.choice} leaves ${D.classes[answer]} at ${percent(near.left)}.`;
    byId("turns-note").textContent = text;
    byId("turns").replaceChildren(...items);
  };
  const choose = (j, code, focus) => {
    codes[j] = code;
    list();
    show();
    const select = byId(`column-${j}`);
    if (focus && select) select.focus();
  };
  const list = () => {
    const words = byId("find-column").value.toLowerCase().trim();
    const moved = [], others = [];
    ordered.forEach((j) => {
      const column = columns[j];
      if (words ? column.name.toLowerCase().includes(words) : true) {
        (!words && columns.length > LIMIT && codes[j] !== column.start ? moved : others).push(j);
      }
    });
    const all = [...moved, ...others], some = all.slice(0, LIMIT);
    const box = byId("choices"), focused = box.contains(document.activeElement) ? document.activeElement.id : null;
    box.replaceChildren(...some.map((j) => {
      const row = make("div", undefined, { class: "choice" });
      const select = make("select", undefined, { id: `column-${j}` });
      columns[j].choices.forEach((text, code) => {
        const option = make("option", text, { value: code });
        option.selected = code === codes[j];
        select.append(option);
      });
      select.addEventListener("change", () => { codes[j] = Number(select.value); show(); });
      row.append(make("label", columns[j].name, { for: `column-${j}` }), select);
      return row;
    }));
    if (focused) byId(focused)?.focus();
    byId("choices-note").textContent = all.length > some.length
      ? `${some.length} of ${all.length.toLocaleString("en")} are shown: type to find others.` : words ? `${all.length} found.` : "";
  };
  const inputs = () => covariates.map((c, k) => {
    const row = make("div", undefined, { class: "choice" });
    const field = make("input", undefined, { id: `number-${k}`, type: "number", step: "any", value: "0" });
    field.addEventListener("input", () => { c.value = Number(field.value) || 0; show(); });
    row.append(make("label", c.name, { for: `number-${k}` }), field);
    return row;
  });
  byId("numbers").append(...inputs());
  byId("find-column").addEventListener("input", list);
  byId("again").addEventListener("click", () => {
    codes = columns.map((c) => c.start);
    byId("find-column").value = "";
    covariates.forEach((c, k) => { c.value = 0; byId(`number-${k}`).value = "0"; });
    list();
    show();
  });
  byId("panel").hidden = false;
  byId("no-script").remove();
  list();
  show();

  // ---- rows of the scorecard that the page does not begin with
  const ROWS = 300;
  document.addEventListener("finding", (event) => {
    if (event.target.dataset.search !== "points") return;
    const body = byId("points").tBodies[0], words = event.detail;
    for (const row of body.querySelectorAll("[data-more]")) row.remove();
    if (!words) return;
    const most = D.most;
    let count = 0;
    for (const f of features.slice(D.shown)) {
      const whole = f.name.toLowerCase().includes(words);
      for (let k = 0; k < f.size && count < ROWS; k++) {
        if (!whole && !f.text(k).toLowerCase().includes(words)) continue;
        count += 1;
        const row = make("tr", undefined, { "data-more": "" }), points = pointsAt(f, k);
        row.append(make("th", f.name, { scope: "row" }), make("td", f.text(k)));
        row.append(make("td", f.counts ? f.counts[k].toLocaleString("en") : "", { class: "number" }));
        points.forEach((x) => {
          if (K === 2) row.append(cell(bar(x, most, true), { class: "bars" }));
          const last = make("td", signed(x), { class: "number" });
          if (K > 2) last.append(bar(x, most, true));
          row.append(last);
        });
        body.append(row);
      }
    }
  });
})();
