"use strict";
// Sortable tables: a button in each header. Numbers go by their exact value, text in natural order (h.2 before
// h.10); empty cells and nan stay last either way. Rows that compare equal keep their places.

const NUMBER = 0, TEXT = 1, NOTHING = 2;
const collator = new Intl.Collator("en", { numeric: true });

function key(cell) {
  const written = cell.dataset.value;
  if (written === undefined) return { kind: cell.textContent ? TEXT : NOTHING, value: cell.textContent };
  const value = /^-?\d+$/.test(written) ? BigInt(written) : Number(written.replace("inf", "Infinity"));
  return { kind: Number.isNaN(value) ? NOTHING : NUMBER, value };
}

function compare(a, b) {
  if (a.kind === NUMBER) return (a.value > b.value) - (a.value < b.value);
  return a.kind === TEXT ? collator.compare(a.value, b.value) : 0;
}

function sort(table, column, direction) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, row => ({ row, key: key(row.cells[column]) }));
  rows.sort(({ key: a }, { key: b }) => a.kind - b.kind || direction * compare(a, b));
  body.append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      headers.forEach(other => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", order);
      sort(table, column, order === "ascending" ? 1 : -1);
    });
  });
}
