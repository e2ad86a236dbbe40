"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = id => document.getElementById(id);
  const make = (name, props, ...children) => {
    const element = Object.assign(document.createElement(name), props);
    element.append(...children);
    return element;
  };
  const escape = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const kinds = { ".": "ok", i: "i", e: "e", b: "b", "-": "n" };
  const meanings = data.meanings;
  const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
  const probes = [...new Set(data.tables.map(table => table.probe))];
  const families = [...new Set(data.tables.map(table => table.family))];
  const tableOf = (probe, family) => data.tables.find(table => table.probe === probe && table.family === family);
  const current = () => tableOf(probe, family);
  let probe = probes[0], family = families[0], only = null, pinned = null, shown = { from: [], to: [] };

  // Everything is drawn for one tab at a time; what is filtered out is not drawn at all.
  function draw() {
    const match = (end, words) => words.every(word => end.name.toLowerCase().includes(word));
    const words = id => $(id).value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = id => data.ends.map((_, at) => at).filter(at => match(data.ends[at], words(id)));
    shown = { from: chosen("from"), to: chosen("to") };
    const table = current();
    if (!table || !shown.from.length || !shown.to.length) {
      $("sheet").replaceChildren(make("p", { className: "hint", textContent: table ? "Nothing has such a name." : "No pod has an address." }));
      $("sheet").firstChild.style.cssText = "margin:0;padding:18px";
      return;
    }
    const label = end => end.group && end.kind === "pod" ? `<span>${escape(end.group)}/</span>${escape(end.short)}` : escape(end.name);
    const gap = (at, list) => at > 0 && data.ends[list[at]].group !== data.ends[list[at - 1]].group;
    const html = [`<table role="grid" aria-label="${escape(title(table))}"${only ? ` data-only="${only}"` : ""}><thead><tr><th class="corner">from ↓ &nbsp; to →</th>`];
    shown.to.forEach((to, x) => {
      if (gap(x, shown.to)) html.push('<th class="gap" aria-hidden="true"></th>');
      const end = data.ends[to];
      html.push(`<th scope="col" data-x="${x}" title="${escape(end.name)} ${escape(end.addresses)}"><div>${label(end)}</div></th>`);
    });
    html.push("</tr></thead><tbody>");
    const columns = shown.to.length + shown.to.filter((_, x) => gap(x, shown.to)).length + 1;
    shown.from.forEach((from, y) => {
      const end = data.ends[from];
      if (y === 0 || gap(y, shown.from)) {
        html.push(`<tr class="group"><th scope="rowgroup">${escape(end.group)}</th><td colspan="${columns - 1}"></td></tr>`);
      }
      html.push(`<tr data-y="${y}"><th scope="row" title="${escape(end.name)} ${escape(end.addresses)}">${escape(end.short)}</th>`);
      shown.to.forEach((to, x) => {
        if (gap(x, shown.to)) html.push('<td class="gap"></td>');
        const letter = table.rows[from][to];
        const says = escape(`${end.name} to ${data.ends[to].name}: ${meanings[letter]}`);
        const self = from === to ? " self" : "";
        const text = letter === "." ? "·" : letter === "-" ? "–" : letter;
        html.push(`<td class="c ${kinds[letter]}${self}" data-x="${x}" tabindex="-1" title="${says}" aria-label="${says}">${text}</td>`);
      });
      html.push("</tr>");
    });
    html.push("</tbody></table>");
    $("sheet").innerHTML = html.join("");
    if (cell(0, 0)) cell(0, 0).tabIndex = 0;
    if (pinned) mark(cell(...place(pinned)));
  }

  const title = table => `${table.probe} over ${table.family}`;
  const cell = (y, x) => document.querySelector(`#sheet tr[data-y="${y}"] td[data-x="${x}"]`);
  const at = td => [Number(td.parentNode.dataset.y), Number(td.dataset.x)];
  const place = ([from, to]) => [shown.from.indexOf(from), shown.to.indexOf(to)];
  const mark = td => {
    document.querySelectorAll("td.pin").forEach(other => other.classList.remove("pin"));
    if (td) td.classList.add("pin");
  };

  function cross(td) {
    document.querySelectorAll("#sheet .on").forEach(other => other.classList.remove("on"));
    if (!td) return;
    const [, x] = at(td);
    td.parentNode.classList.add("on");
    document.querySelector(`#sheet thead th[data-x="${x}"]`).classList.add("on");
  }

  function side(table, which, from, to) {
    const known = table[which][from][to];
    if (known < 0) return null;
    const { allowed, head, lines } = data.sides[known];
    const list = make("ul", {}, ...lines.map(line => make("li", { className: line.startsWith("  ") ? "deeper" : "", textContent: line.trim() })));
    return make("section", { className: allowed ? "yes" : "no" }, make("h3", { textContent: head }), list);
  }

  function explain(from, to) {
    const table = current();
    const letter = table.rows[from][to];
    const address = end => end.addresses.split(" ").find(text => text.includes(":") === (family === "IPv6")) || "no address";
    const [source, target] = [data.ends[from], data.ends[to]];
    const heading = make("h2", {}, source.name, make("span", { textContent: "  →  " }), target.name);
    const flow = make("p", { className: "flow", textContent: `${title(table)}, ${address(source)} to ${address(target)}` });
    const badge = make("p", { className: `verdict ${letter === "." ? "yes" : letter === "-" ? "" : "no"}`, textContent: meanings[letter] });
    const parts = [heading, flow, badge, side(table, "egress", from, to), side(table, "ingress", from, to)];
    if (letter === "-") parts.push(make("p", { className: "hint", textContent: "An end has no address of this family, or neither end is a pod." }));
    $("why").replaceChildren(...parts.filter(Boolean));
  }

  function show(td) {
    cross(td);
    const [y, x] = at(td);
    explain(shown.from[y], shown.to[x]);
  }

  function rest() {
    cross(null);
    if (pinned && place(pinned).every(at => at >= 0)) return explain(...pinned);
    $("why").innerHTML = '<p class="hint">Point at a cell to see why; click to keep it. With the keyboard: <kbd>Tab</kbd> into the matrix, '
      + 'arrow keys to walk, <kbd>Enter</kbd> to keep, <kbd>/</kbd> to filter.</p>';
  }

  function tabs() {
    const count = (table, letters) => table.rows.reduce((sum, row) => sum + [...row].filter(c => letters.includes(c)).length, 0);
    $("tabs").replaceChildren(...probes.map(name => {
      const table = tableOf(name, family);
      const [yes, no] = [count(table, "."), count(table, "ieb")];
      const bar = make("span", { className: "share" }, make("i"), make("i"));
      bar.children[0].style.flex = yes; bar.children[1].style.flex = no;
      const tab = make("button", { type: "button" }, make("b", { textContent: name }), bar, make("span", { className: "count", textContent: `${yes} allowed · ${no} refused` }));
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", name === probe);
      tab.tabIndex = name === probe ? 0 : -1;
      tab.onclick = () => { probe = name; all(); $("tabs").children[probes.indexOf(name)].focus(); };
      return tab;
    }));
    $("families").hidden = families.length < 2;
    $("families").replaceChildren(...families.map(name => {
      const button = make("button", { type: "button", textContent: name });
      button.setAttribute("aria-pressed", name === family);
      button.onclick = () => { family = name; all(); $("families").children[families.indexOf(name)].focus(); };
      return button;
    }));
  }

  const all = () => { tabs(); legend(); draw(); rest(); };

  function legend() {
    const table = current();
    const rows = table ? table.rows : [];
    $("legend").replaceChildren(...Object.keys(kinds).map(letter => {
      const kind = kinds[letter];
      const count = rows.reduce((sum, row) => sum + row.split(letter).length - 1, 0);
      const text = letter === "." ? "·" : letter === "-" ? "–" : letter;
      const button = make("button", { type: "button" }, make("span", { className: `key ${kind}`, textContent: text }),
        `${meanings[letter]} (${count.toLocaleString("en")})`);
      button.setAttribute("aria-pressed", only === kind);
      button.onclick = () => { only = only === kind ? null : kind; legend(); draw(); };
      return button;
    }));
  }

  const hit = event => event.target.closest && event.target.closest("td.c");
  $("sheet").addEventListener("mouseover", event => { const td = hit(event); if (td) show(td); });
  $("sheet").addEventListener("mouseleave", rest);
  $("sheet").addEventListener("focusin", event => { const td = hit(event); if (td) show(td); });
  const pin = td => {
    const [y, x] = at(td);
    const chosen = [shown.from[y], shown.to[x]];
    pinned = pinned && pinned[0] === chosen[0] && pinned[1] === chosen[1] ? null : chosen;
    mark(pinned && td);
    if (pinned) explain(...pinned);
  };
  $("sheet").addEventListener("click", event => { const td = hit(event); if (td) pin(td); });
  $("sheet").addEventListener("keydown", event => {
    const td = hit(event);
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!td) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pin(td); return; }
    if (!step) return;
    event.preventDefault();
    const [y, x] = at(td);
    const next = cell(y + step[0], x + step[1]);
    if (next) { td.tabIndex = -1; next.tabIndex = 0; next.focus(); }
  });
  $("tabs").addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const next = step && $("tabs").children[probes.indexOf(probe) + step];
    if (next) { event.preventDefault(); next.click(); }
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && event.target.tagName !== "INPUT") { event.preventDefault(); $("from").focus(); }
  });
  for (const id of ["from", "to"]) $(id).addEventListener("input", () => { draw(); rest(); });
  $("filters").addEventListener("submit", event => event.preventDefault());

  const pods = data.ends.filter(end => end.kind === "pod");
  $("summary").textContent = [plural(pods.length, "pod"), plural(new Set(pods.map(end => end.group)).size, "namespace"),
    `${data.policies} ${data.policies === 1 ? "policy" : "policies"}`].join(" · ");
  if (data.note) { $("note").textContent = data.note; $("note").hidden = false; }
  // A link may say which tab and which cell: #TCP/80 IPv4|shop/web|shop/db.
  const [tab, from, to] = decodeURIComponent(location.hash.slice(1)).split("|");
  const linked = data.tables.find(table => `${table.probe} ${table.family}` === tab);
  if (linked) ({ probe, family } = linked);
  const ends = [from, to].map(name => data.ends.findIndex(end => end.name === name));
  if (data.tables.length && ends.every(end => end >= 0)) pinned = ends;
  all();
})();
