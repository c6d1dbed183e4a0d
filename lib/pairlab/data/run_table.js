// A table of runs: sorted by a column whose heading is pressed, with boxes to tick. It draws the rows that the kernel
// sorted and sent (widgets/run_table.py); rows and cells are texts.

function made(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function render({ model, el }) {
  const table = made("table", {});
  const columns = made("div", { className: "pairlab-columns" });
  const more = made("button", { className: "jupyter-button pairlab-more-runs" });
  const set = (name, value) => {
    model.set(name, value);
    model.save_changes();
  };

  function heading(column) {
    const by = model.get("order") === column.name;
    const down = model.get("descending");
    const button = made("button", { textContent: column.label + (by ? (down ? " ▼" : " ▲") : "") });
    button.dataset.place = `sort ${column.name}`;
    button.onclick = () => {
      model.set("descending", by ? !down : column.name === "when");
      set("order", column.name);
    };
    const cell = made("th", { scope: "col", className: column.number ? "pairlab-number" : "" }, button);
    cell.setAttribute("aria-sort", by ? (down ? "descending" : "ascending") : "none");
    return cell;
  }

  function tick(label, place, ticked, change) {
    const box = made("input", { type: "checkbox", checked: ticked });
    box.setAttribute("aria-label", label);
    box.dataset.place = place;
    box.onchange = () => change(box.checked);
    return box;
  }

  function row(run, shown, chosen) {
    const among = (ticked) => {
      const others = model.get("chosen").filter((key) => key !== run.key);
      set("chosen", ticked ? [...others, run.key] : others);
    };
    const box = tick(`choose ${run.cells.spec}`, `run ${run.key}`, chosen.has(run.key), among);
    const cells = shown.map((column) =>
      made("td", { textContent: run.cells[column.name], className: column.number ? "pairlab-number" : "" }),
    );
    const line = made("tr", { className: `pairlab-is-${run.status}` }, made("td", {}, box), ...cells);
    line.classList.toggle("pairlab-chosen", chosen.has(run.key));
    line.onclick = (event) => {
      if (event.target === box || getSelection().toString()) return; // a text that was marked is to be copied
      if (event.ctrlKey || event.metaKey) among(!box.checked);
      else set("chosen", [run.key]);
    };
    return line;
  }

  function draw() {
    const place = el.contains(document.activeElement) ? document.activeElement.dataset.place : undefined;
    const chosen = new Set(model.get("chosen"));
    const shown = model.get("columns").filter((column) => model.get("shown").includes(column.name));
    const rows = model.get("rows");
    const all = tick("choose all that are listed", "all", rows.length > 0 && rows.every((run) => chosen.has(run.key)),
      (ticked) => set("chosen", ticked ? rows.map((run) => run.key) : []));
    table.replaceChildren(
      made("caption", { textContent: "Runs: tick several to compare them" }),
      made("thead", {}, made("tr", {}, made("th", {}, all), ...shown.map(heading))),
      made("tbody", {}, ...rows.map((run) => row(run, shown, chosen))),
    );
    const left = model.get("total") - rows.length;
    more.style.display = left > 0 ? "" : "none";
    more.textContent = `List more (${left} are not listed)`;
    columns.replaceChildren(...model.get("columns").map((column) => {
      const now = model.get("shown");
      const box = tick(`column ${column.label}`, `column ${column.name}`, now.includes(column.name), (ticked) =>
        set("shown", ticked ? [...now, column.name] : now.filter((name) => name !== column.name)));
      return made("label", {}, box, ` ${column.label}`);
    }));
    if (place) el.querySelector(`[data-place="${CSS.escape(place)}"]`)?.focus();
  }

  more.onclick = () => set("limit", model.get("limit") + 200);
  const choice = made("details", {}, made("summary", { textContent: "Columns" }), columns);
  el.classList.add("pairlab-table");
  el.append(choice, made("div", { className: "pairlab-table-rows" }, table), more);
  for (const name of ["rows", "chosen", "shown", "total"]) model.on(`change:${name}`, draw);
  draw();
}

export default { render };
