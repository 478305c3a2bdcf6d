// Class and probabilities of a row, by a model of renyi; needs nothing but JavaScript.
//
// renyiModel.predict(row) returns the likelier class of an object from columns to
// cells, and renyiModel.predictProba(row) the probabilities of renyiModel.classes.
// A cell is a string, a number, a boolean, or null (or NaN) if it is missing.
var renyiModel = (function () {
  "use strict";
  const MODEL = {}; // the model
  const tables = MODEL.columns.map((column) => new Map(column[2]));

  // What a number is as a text: 1 of 1.0, 1e-05 of 0.00001.
  function textOf(cell) {
    if (typeof cell === "boolean") return cell ? "True" : "False";
    if (typeof cell !== "number") return String(cell);
    if (Number.isInteger(cell)) return BigInt(cell).toString();
    if (!Number.isFinite(cell)) return cell > 0 ? "inf" : "-inf";
    if (Math.abs(cell) >= 1e-4) return String(cell);
    return cell.toExponential().replace(/e-(\d)$/, "e-0$1");
  }

  function shown(cell) {
    return JSON.stringify(typeof cell === "string" ? cell.slice(0, 60) : textOf(cell));
  }

  const space = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
  const digits = "[0-9]+(?:_[0-9]+)*";
  const form = new RegExp(
    `^${space}([+-]?)(?:(inf(?:inity)?)|(nan)|` +
      `((?:${digits}\\.?(?:${digits})?|\\.${digits})(?:e[+-]?${digits})?))${space}$`,
    "i",
  );

  function numberOf(cell, name) {
    let value = NaN;
    if (typeof cell === "string") {
      const parts = form.exec(cell);
      if (parts === null) value = null;
      else if (parts[2]) value = Infinity;
      else if (parts[4]) value = Number(parts[4].replaceAll("_", ""));
      if (parts !== null && parts[1] === "-") value = -value;
    } else {
      value = Number(cell);
      if (typeof cell === "bigint" && !Number.isFinite(value)) value = null;
    }
    if (value === null)
      throw new Error(`Column ${JSON.stringify(name)} is numeric but holds ${shown(cell)}.`);
    return value;
  }

  function codeOf(row, column, table) {
    const [name, kind, , edges, gaps, missing, unseen] = column;
    const where = `Column ${JSON.stringify(name)}`;
    if (!Object.prototype.hasOwnProperty.call(row, name))
      throw new Error(`${where} is missing from the row.`);
    const cell = row[name];
    let code = missing;
    if (cell !== null && cell !== undefined && cell === cell) {
      if (!["string", "number", "boolean", "bigint"].includes(typeof cell))
        throw new TypeError(`${where} holds a ${typeof cell}: give a text or a number.`);
      const text = textOf(cell);
      code = table.has(text) ? table.get(text) : unseen;
      if (kind === "number" && !table.has(text)) {
        const value = numberOf(cell, name);
        code = edges.filter((edge) => edge <= value).length;
        if (value !== value || gaps.includes(value)) code = missing;
      }
    }
    if (code === unseen && MODEL.strict)
      throw new Error(`${where} holds ${shown(cell)}, unseen in training.`);
    return code;
  }

  // The points of a row, added up: of the second class, if there are two.
  function scores(row) {
    const codes = MODEL.columns.map((column, j) => codeOf(row, column, tables[j]));
    const totals = MODEL.start.map(() => 0);
    for (const [members, places, points] of MODEL.features) {
      let place = 0;
      for (const j of members) place = place * (MODEL.columns[j][6] + 1) + codes[j];
      const added = points[places.length ? places[place] : place];
      added.forEach((each, k) => (totals[k] += each));
    }
    return totals.map((total, k) => total + MODEL.start[k]);
  }

  function estimates(given) {
    const both = given.length === 1 ? [-given[0], given[0]] : given;
    return both.map((score) => score + 1 / both.length);
  }

  // The class with the largest estimate, the first of equals.
  function predict(row) {
    const t = estimates(scores(row).map((score) => score - MODEL.threshold));
    return MODEL.classes[t.indexOf(Math.max(...t))];
  }

  function sum(values) {
    return values.reduce((total, each) => total + each, 0);
  }

  function predictProba(row) {
    const t = estimates(scores(row));
    const top = Math.max(...t);
    if (MODEL.slope) {
      const grown = t.map((each) => Math.exp(MODEL.slope * (each - top)));
      const whole = sum(grown);
      return grown.map((each) => Math.max(each / whole, 2 ** -1022));
    }
    let total = 0;
    let shift = -Infinity; // the nearest probabilities: t − shift where positive
    const ordered = t.map((each) => each - top).sort((a, b) => b - a);
    ordered.forEach((each, k) => {
      total += each;
      shift = Math.max(shift, (total - 1) / (k + 1));
    });
    let p = t.map((each) => Math.max(each - top - shift, 0));
    if (MODEL.odds !== 1) {
      p = [p[0] * Math.min(1, 1 / MODEL.odds), p[1] * Math.min(1, MODEL.odds)];
      const whole = sum(p);
      p = p.map((each) => each / whole);
    }
    return p;
  }

  return { classes: MODEL.classes, predict, predictProba };
})();
if (typeof module !== "undefined") module.exports = renyiModel;
