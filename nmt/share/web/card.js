// The model card, whose Markdown is in the page as text: headings, lists, tables, code and paragraphs. All else is text.

const element = (tag, inside) => {
  const made = document.createElement(tag);
  made.append(...[inside].flat());
  return made;
};

/** Return the nodes of a line, with code between backticks. */
const inline = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? element("code", part) : part));

const row = (line, tag) =>
  element("tr", line.replace(/^\|\s*|\s*\|$/g, "").split("|").map((cell) => element(tag, inline(cell.trim()))));

/** Make the element of lines of one kind. */
function block(kind, lines) {
  if (kind === "|") {
    const [head, ...rows] = lines.filter((line) => !/^[|\s:-]+$/.test(line));
    const table = element("table", [row(head, "th"), ...rows.map((line) => row(line, "td"))]), wide = element("div", table);
    wide.className = "wide";
    return wide;
  }
  if (kind === "-") return element("ul", lines.map((line) => element("li", inline(line.replace(/^\s*- /, "")))));
  if (kind === "p") return element("p", inline(lines.join(" ")));
  return element(`h${Math.min(4, kind.length + 1)}`, inline(lines[0].replace(/^#+ /, "")));
}

/** Replace the text of an element by what its Markdown means. */
export function render(place) {
  const made = [];
  place.textContent.split(/^```.*$/m).forEach((part, i) => {
    if (i % 2) return made.push(element("pre", part.trim()));
    let last = "";
    const groups = [];
    for (const line of part.split("\n")) {
      const kind = !line.trim() ? "" : line.match(/^(?:#+(?= )|\||\s*-(?= ))/)?.[0].trim() ?? "p";
      if (kind && (kind !== last || kind[0] === "#")) groups.push([kind, []]);
      if (kind) groups.at(-1)[1].push(line);
      last = kind;
    }
    return made.push(...groups.map((group) => block(...group)));
  });
  const rendered = element("div", made);
  rendered.id = place.id;
  place.replaceWith(rendered);
}
