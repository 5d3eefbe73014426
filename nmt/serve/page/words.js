// Which words of a text and of its translation belong together, and how they are marked.

/** Return a text as nodes, with an element for each of the ranges [start, end) of code points; adds these to `found`. */
function pieces(text, ranges, found) {
  const points = Array.from(text), nodes = [];
  let at = 0;
  for (const [start, end] of ranges.sort(([a], [b]) => a - b)) {
    if (start < at || end <= start) continue; // seen before
    const word = document.createElement("span");
    word.className = "word";
    word.textContent = points.slice(start, end).join("");
    found.set(start, word);
    nodes.push(points.slice(at, start).join(""), word);
    at = end;
  }
  return [...nodes, points.slice(at).join("")];
}

/** The words of the text, in the mirror that lies below it, and those of the result. */
export class Words {
  #mirror;
  #result;
  #partners = new Map(); // element of a word -> those of the other side, and itself
  #marked = [];

  constructor(mirror, result) {
    this.#mirror = mirror;
    this.#result = result;
  }

  /** The text has changed: no word of it is known. */
  forget(text) {
    this.mark(null);
    this.#partners.clear();
    this.#mirror.textContent = `${text}\n`; // the last line has a height, too
  }

  /** Show lines: `source`, `text`, and `alignment` if it is about the text. */
  show(lines) {
    this.mark(null);
    this.#partners.clear();
    const sources = [], results = [];
    for (const { source, text, best, alignment } of lines) {
      const links = text === best ? (alignment ?? []) : [], [left, right] = [new Map(), new Map()];
      sources.push(...pieces(source, links.map((link) => link.source), left), "\n");
      const line = document.createElement("span");
      line.dir = "auto";
      line.append(...pieces(text, links.map((link) => link.target), right));
      results.push(line);
      for (const link of links) this.#join(left.get(link.source[0]), right.get(link.target[0]));
    }
    if (lines.length) this.#mirror.replaceChildren(...sources);
    this.#result.replaceChildren(...results);
  }

  #join(left, right) {
    if (!left || !right) return;
    for (const [one, other] of [[left, right], [right, left]]) {
      if (!this.#partners.has(one)) this.#partners.set(one, new Set([one]));
      this.#partners.get(one).add(other);
    }
  }

  /** Mark a word and those that belong to it, and no other. */
  mark(word) {
    for (const old of this.#marked) old.classList.remove("on");
    this.#marked = [...(this.#partners.get(word) ?? [])];
    for (const each of this.#marked) each.classList.add("on");
  }

  /** Mark the word at a point of the window, even below the text. */
  markAt(x, y) {
    this.mark(document.elementsFromPoint(x, y).find((each) => this.#partners.has(each)));
  }

  /** Mark the word of the text at a place in UTF-16 units. */
  markAtCursor(place) {
    let end = 0;
    for (const node of this.#mirror.childNodes) {
      end += node.textContent.length;
      if (place <= end && this.#partners.has(node)) return this.mark(node);
      if (place < end) break;
    }
    return this.mark(null);
  }
}
