// The list of lines: search, order, pages and links to lines.
// Text of the corpus is set only through textContent, so that it is never interpreted as HTML.
"use strict";

const LINES_A_PAGE = 50;
const HASH_OF_LINE = /^#line-(\d+)$/;
// maximum size of the table in which a longest common subsequence is searched for
const MOST_CELLS = 250_000;
// scripts without spaces between words, in which each cluster counts as a word; see nmt/text/words.py
const UNSPACED = ["Thai", "Lao", "Myanmar", "Khmer", "Han", "Hiragana", "Katakana"].map((name) => `\\p{scx=${name}}`).join("");
const CLUSTER = `\\p{Logical_Order_Exception}*[${UNSPACED}](?:\\p{M}|[ะาำๅະາຳ]|(?<=[\\u1039\\u17d2])\\p{L})*`;
const WORD = new RegExp(`${CLUSTER}|[\\p{P}\\p{S}]|[^\\s\\p{P}\\p{S}${UNSPACED}]+`, "gu");

const get = (id) => document.getElementById(id);

/** Return an element with text, or with other nodes inside. */
function element(tag, inside, attributes = {}) {
  const made = document.createElement(tag);
  if (typeof inside === "string") made.textContent = inside;
  else made.append(...inside);
  for (const [name, value] of Object.entries(attributes)) if (value) made.setAttribute(name, value);
  return made;
}

/** Read the data of the page: JSON, compressed, in base64. */
async function readData() {
  const text = atob(get("data").textContent), packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// --- words ---------------------------------------------------------------------------------------

/** Return for each word of two lines whether it is in a longest common subsequence; true if the lines are too long. */
function commonWords(first, second) {
  const n = first.length, m = second.length;
  const same = n === m && first.every((word, i) => word === second[i]);
  const inFirst = Array(n).fill(false), inSecond = Array(m).fill(false);
  if (same || n * m > MOST_CELLS) return [inFirst.fill(true), inSecond.fill(true)];
  const width = m + 1;
  const lengths = new Uint16Array((n + 1) * width); // of the longest common subsequences of the suffixes
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      const skipped = Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      lengths[i * width + j] = first[i] === second[j] ? lengths[(i + 1) * width + j + 1] + 1 : skipped;
    }
  }
  for (let i = 0, j = 0; i < n && j < m; ) {
    if (first[i] === second[j]) {
      inFirst[i++] = inSecond[j++] = true;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      i++;
    } else {
      j++;
    }
  }
  return [inFirst, inSecond];
}

/** Return the nodes of a text with words marked or underlined. `spans`: the positions of the words. */
function marked(text, spans, wrong, changed) {
  const nodes = [];
  let end = 0;
  for (let i = 0; i < spans.length; ) {
    let last = i; // of the words with the same marks
    while (last + 1 < spans.length && wrong[last + 1] === wrong[i] && changed[last + 1] === changed[i]) last++;
    const start = spans[i].start, stop = spans[last].stop;
    let piece = document.createTextNode(text.slice(start, stop));
    if (changed[i]) piece = element("u", [piece]);
    if (wrong[i]) piece = element("mark", [piece]);
    nodes.push(text.slice(end, start), piece);
    end = stop;
    i = last + 1;
  }
  nodes.push(text.slice(end));
  return nodes;
}

// --- a line --------------------------------------------------------------------------------------

function signed(value, digits) {
  const text = Math.abs(value).toFixed(digits);
  return (Number(text) === 0 ? "" : value < 0 ? "−" : "+") + text;
}

/** Return the element of a line. */
function lineElement(data, number, metric) {
  const spansOf = (text) =>
    Array.from(text.matchAll(WORD), ({ 0: word, index }) => ({ word, start: index, stop: index + word.length }));
  const [sourceLanguage, targetLanguage] = data.languages;
  const entry = (head, inside, lang) => [element("dt", head), element("dd", inside, { lang, dir: "auto" })];

  const id = `line-${number + 1}`;
  const entries = [];
  if (data.sources) entries.push(...entry("source", data.sources[number], sourceLanguage));
  const reference = data.references[number];
  const texts = data.translations.map((lines) => lines[number]);
  const referenceSpans = spansOf(reference), spans = texts.map(spansOf);
  const words = spans.map((found) => found.map((span) => span.word));
  const common = words.map((own) => commonWords(referenceSpans.map((span) => span.word), own));
  const missed = referenceSpans.map((_, i) => !common.some(([inReference]) => inReference[i]));
  const none = missed.map(() => false);
  entries.push(...entry("reference", marked(reference, referenceSpans, missed, none), targetLanguage));
  texts.forEach((text, system) => {
    const score = metric.scores[system][number], baseline = metric.scores[data.baseline][number];
    const gain = system === data.baseline ? "" : signed(score - baseline, metric.digits);
    const numbers = [`${score.toFixed(metric.digits)} `, element("b", gain)];
    const key = element("span", "", { class: `key g${system % 8}` });
    const wrong = common[system][1].map((there) => !there);
    const changed = commonWords(words[data.baseline], words[system])[1].map((there) => !there);
    const head = [element("span", [key, ` ${data.names[system]}`]), " ", element("span", numbers)];
    entries.push(...entry(head, marked(text, spans[system], wrong, changed), targetLanguage));
  });
  const parts = [element("a", String(number + 1), { href: `#${id}` })];
  if (data.isSeen.has(number)) parts.push(element("span", "in a training text", { class: "seen" }));
  return element("li", [...parts, element("dl", entries)], { class: "line", id });
}

// --- which lines, in which order -----------------------------------------------------------------

/** Return the sort key of lines: a function from the number of a line to a value, in ascending order. */
function keyOf(order, data, metric, system) {
  const sign = metric.higher ? 1 : -1;
  const baseline = metric.scores[data.baseline], own = metric.scores[system];
  const gain = (number) => sign * (own[number] - baseline[number]);
  switch (order) {
    case "gain": return (number) => -gain(number);
    case "loss": return gain;
    case "baseline": return (number) => sign * baseline[number];
    case "score": return (number) => sign * own[number];
    case "reference": return (number) => -data.references[number].length;
    case "line": return (number) => number;
    default: return (number) => -Math.abs(gain(number));
  }
}

/** Return the numbers of the lines that the controls select, in order. */
function chosenLines(data, controls) {
  const system = Number(controls.system.value), metric = data.metrics[controls.metric.value];
  const wanted = controls.search.value.toLowerCase().trim();
  let numbers = Array.from(data.references.keys());
  if (wanted) {
    // built at the first search
    data.searched ??= numbers.map((number) =>
      [data.sources?.[number] ?? "", data.references[number], ...data.translations.map((lines) => lines[number])]
        .join("\n").toLowerCase());
    numbers = numbers.filter((number) => data.searched[number].includes(wanted));
  }
  if (controls.differ.checked) {
    const baseline = data.translations[data.baseline], own = data.translations[system];
    numbers = numbers.filter((number) => baseline[number] !== own[number]);
  }
  if (controls.seen?.checked) numbers = numbers.filter((number) => data.isSeen.has(number));
  const key = keyOf(controls.order.value, data, metric, system);
  const values = new Map(numbers.map((number) => [number, key(number)]));
  return numbers.sort((a, b) => values.get(a) - values.get(b) || a - b);
}

// --- the page ------------------------------------------------------------------------------------

async function main() {
  const data = await readData();
  data.isSeen = new Set(data.seen);
  const names = ["search", "system", "order", "metric", "differ", "seen"];
  const controls = Object.fromEntries(names.map((name) => [name, get(name)]));
  let chosen = [], page = 0;

  const show = () => {
    const last = Math.max(0, Math.ceil(chosen.length / LINES_A_PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const metric = data.metrics[controls.metric.value];
    const numbers = chosen.slice(page * LINES_A_PAGE, (page + 1) * LINES_A_PAGE);
    get("list").replaceChildren(...numbers.map((number) => lineElement(data, number, metric)));
    const all = data.references.length.toLocaleString("en");
    get("status").textContent = `${chosen.length.toLocaleString("en")} of ${all} lines`;
    get("page").textContent = `page ${page + 1} of ${last + 1}`;
    get("previous").disabled = page === 0;
    get("next").disabled = page === last;
  };
  const choose = () => {
    chosen = chosenLines(data, controls);
    page = 0;
    show();
  };
  /** Show the line that the URL names, also if it is not among the selected lines. */
  const follow = () => {
    const match = HASH_OF_LINE.exec(location.hash);
    const number = match ? Number(match[1]) - 1 : -1;
    if (number < 0 || number >= data.references.length) return false;
    if (!chosen.includes(number)) {
      controls.search.value = "";
      controls.differ.checked = false;
      if (controls.seen) controls.seen.checked = false;
      choose();
    }
    page = Math.floor(chosen.indexOf(number) / LINES_A_PAGE);
    show();
    const line = get(`line-${number + 1}`);
    line.classList.add("target");
    line.scrollIntoView();
    return true;
  };
  const turn = (pages) => {
    page += pages;
    show();
    get("controls").scrollIntoView();
  };

  readState(controls);
  for (const control of Object.values(controls)) {
    control?.addEventListener("input", () => {
      choose();
      writeState(controls);
    });
  }
  get("controls").addEventListener("submit", (event) => event.preventDefault());
  get("previous").addEventListener("click", () => turn(-1));
  get("next").addEventListener("click", () => turn(1));
  window.addEventListener("hashchange", () => {
    if (!follow() && readState(controls)) choose();
  });
  get("controls").hidden = false;
  choose();
  follow();
}

/** Set the controls from a URL such as `#order=gain&search=word`; return whether the URL has such a state. */
function readState(controls) {
  if (!location.hash.includes("=")) return false;
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) {
    const value = state.get(name);
    if (control?.type === "checkbox") control.checked = value !== null;
    else if (control?.type === "search") control.value = value ?? "";
    else if (control) control.selectedIndex = Math.max(0, [...control.options].findIndex((option) => option.value === value));
  }
  return true;
}

/** Put the state of the controls into the URL, so that it can be shared. */
function writeState(controls) {
  const state = new URLSearchParams();
  for (const [name, control] of Object.entries(controls)) {
    if (!control) continue;
    const isDefault = control.type === "checkbox" ? !control.checked : control.value === (control.options?.[0].value ?? "");
    if (!isDefault) state.set(name, control.type === "checkbox" ? "1" : control.value);
  }
  history.replaceState(null, "", `#${state.size ? state : "lines"}`);
}

main();
