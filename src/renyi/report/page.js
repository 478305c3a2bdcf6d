// What tables of every page do: sort by a head, show the rows that hold a text.
"use strict";
(() => {
  const key = (row, k) => {
    const cell = row.cells[k];
    return cell.dataset.key ?? cell.textContent.trim();
  };
  const number = (text) => {
    const found = parseFloat(text.replace("−", "-").replace(/,/g, ""));
    return Number.isNaN(found) ? -Infinity : found;
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
  // A page may add rows that it holds back: see report.js.
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
