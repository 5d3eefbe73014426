// Links between the words of a text and of its translation, and their highlighting.

/** Return the nodes of a text, with an element for each range [start, end) of code points; adds them to `found`. */
function pieces(text, ranges, found) {
  const points = Array.from(text), nodes = [];
  let at = 0;
  for (const [start, end] of ranges.sort(([a], [b]) => a - b)) {
    if (start < at || end <= start) continue; // duplicate or empty
    const word = document.createElement("span");
    word.className = "word";
    word.textContent = points.slice(start, end).join("");
    found.set(start, word);
    nodes.push(points.slice(at, start).join(""), word);
    at = end;
  }
  return [...nodes, points.slice(at).join("")];
}

/** The words of the text, as elements of the mirror behind it, and the words of the result. */
export class Words {
  #mirror;
  #result;
  #partners = new Map(); // element of a word -> itself and the linked elements of the other side
  #marked = [];

  constructor(mirror, result) {
    this.#mirror = mirror;
    this.#result = result;
  }

  /** Remove all links, since the text has changed. */
  forget(text) {
    this.mark(null);
    this.#partners.clear();
    this.#mirror.textContent = `${text}\n`; // gives the last line its height
  }

  /** Show translated lines; words are linked if `alignment` belongs to the shown translation, and lines to check are marked. */
  show(lines) {
    this.mark(null);
    this.#partners.clear();
    const sources = [], results = [];
    for (const { source, text, best, alignment, confidence } of lines) {
      const links = text === best ? (alignment ?? []) : [], [left, right] = [new Map(), new Map()];
      sources.push(...pieces(source, links.map((link) => link.source), left), "\n");
      const line = document.createElement("span");
      line.dir = "auto";
      if (text === best && confidence?.is_low) line.dataset.check = `Check: expected chrF ${Math.round(confidence.chrf)}`;
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

  /** Highlight only a word and the words that are linked with it. */
  mark(word) {
    for (const old of this.#marked) old.classList.remove("on");
    this.#marked = [...(this.#partners.get(word) ?? [])];
    for (const each of this.#marked) each.classList.add("on");
  }

  /** Highlight the word at a point of the window, even behind the text. */
  markAt(x, y) {
    this.mark(document.elementsFromPoint(x, y).find((each) => this.#partners.has(each)));
  }

  /** Highlight the word of the text at an offset in UTF-16 units. */
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
