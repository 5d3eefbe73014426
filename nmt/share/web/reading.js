// The form in which the model's vocabulary reads text: nmt.text.reading.Reading, nmt.text.letters and nmt.text.tokenizer.
// Offsets and lengths do not matter, except where a comment says code points.
import { SOURCES } from "./patterns.js";

const SPECIAL = new RegExp(SOURCES.SPECIAL, "vg"), SPACE = new RegExp(SOURCES.SPACE, "v");
const BLANK = new RegExp(`^(?:${SOURCES.SPACE}|[\\p{Cc}\\p{Cf}])*$`, "v");
const LETTERS = /\p{L}/v;
const CONTROL = /(?!\t)\p{Cc}/gv;
const MARK = "\u2581"; // how SentencePiece writes a space

const isAscii = (text) => !/[^\x00-\x7f]/.test(text);
const nPoints = (text) => [...text].length;

/** Return a text with spaces for control characters other than tabs. */
export const withoutControls = (text) => text.replace(CONTROL, " ");
/** Return whether a line has only white space and invisible characters. */
export const isBlank = (text) => BLANK.test(text);
/** Return whether a text has letters; a text without any is its own translation. */
export const hasLetters = (text) => LETTERS.test(text);

// --- forms of letters ----------------------------------------------------------------------------

const CLASSES = { s: SOURCES.SPACE, S: SOURCES.SPACE.replace("[", "[^"), d: "\\p{Nd}", D: "\\P{Nd}", w: "[\\p{L}\\p{N}_]",
  W: "[^\\p{L}\\p{N}_]", Z: "$" };

/** Return a pattern of Python, of those that nmt.text.letters has, for JavaScript. */
const translated = (source) =>
  new RegExp(source.replace(/\\(\p{Any})|\./gv, (escape, name) => (name ? CLASSES[name] ?? escape : "[^\\n]")), "vg");

/** Return a function that writes letters in their usual forms. `forms`: the usual form by pattern. */
export function writer(forms) {
  const steps = Object.entries(forms).map(([source, usual]) => [translated(source), usual]);
  return (text) => (isAscii(text) ? text : steps.reduce((written, [source, usual]) =>
    written.replace(source, (match) => inForm(usual, match)), text));
}

function inForm(usual, match) {
  if (usual === "NFKC") return match.normalize("NFKC");
  if (!usual.includes(">")) return usual;
  const [others, letters] = usual.split(">").map((text) => [...text]);
  return [...match].map((letter) => letters[others.indexOf(letter)] ?? letter).join("");
}

// --- white space, invisible characters, normal forms ---------------------------------------------

/** The form in which a vocabulary reads text. */
export class Reading {
  #isKnown;
  #composedFrom = new Map(); // first character of a decomposition -> [[decomposition, character], …]
  #suspect;
  #cluster;
  #equivalent = new Map();

  /** `pieces`: the pieces as text. `isKnown`: returns whether the vocabulary has pieces for a character. */
  constructor(pieces, isKnown) {
    const known = new Map();
    this.#isKnown = (character) => {
      if (!known.has(character)) known.set(character, isKnown(character));
      return known.get(character);
    };
    const characters = new Set(pieces.filter((piece) => nPoints(piece) === 1 && !isAscii(piece)));
    const spelled = new Map([...characters].map((character) => [character.normalize("NFD"), character]));
    const inner = new Set([...spelled.keys()].flatMap((form) => [...form].slice(1)));
    const used = pieces.filter((piece) => characters.has(piece) || [...piece].some((each) => inner.has(each))).join("\n");
    let marks = "";
    for (const [form, character] of spelled) {
      if (used.includes(form)) continue;
      const [first, ...others] = form;
      if (!this.#composedFrom.has(first)) this.#composedFrom.set(first, []);
      this.#composedFrom.get(first).push([form, character]);
      marks += others.join("");
    }
    marks ||= "\n";
    const unknown = `[^\\x00-\\x08\\x0a-\\x7f${[...characters].join("")}]`;
    this.#suspect = new RegExp(`${unknown}|[${marks}]`, "v");
    this.#cluster = new RegExp(`\\p{Any}[\\p{M}\\u1160-\\u11ff${marks}]{1,8}|${unknown}`, "vg");
  }

  /** Return a text as it is read. */
  read(text) {
    if (!this.#suspect.test(text)) return text;
    return text.replace(SPECIAL, (character) => this.#plain(character))
      .replace(this.#cluster, (cluster) => this.#asKnown(cluster));
  }

  #plain(character) {
    if (this.#isKnown(character)) return character;
    return SPACE.test(character) ? " " : "";
  }

  #asKnown(cluster) {
    if (!this.#equivalent.has(cluster)) this.#equivalent.set(cluster, this.#findEquivalent(cluster));
    return this.#equivalent.get(cluster);
  }

  /** Return the canonically equivalent text with the fewest unknown characters; of several, the shortest. */
  #findEquivalent(cluster) {
    const decomposed = cluster.normalize("NFD"), texts = [decomposed];
    for (const text of texts) { // which grows
      [...text].forEach((first, start, points) => {
        for (const [form, character] of this.#composedFrom.get(first) ?? []) {
          const marks = [...form].slice(1), following = points.slice(start + 1);
          if (!marks.every((mark) => following.includes(mark))) continue;
          for (const mark of marks) if (following.includes(mark)) following.splice(following.indexOf(mark), 1);
          const composed = [...points.slice(0, start), character, ...following].join("");
          if (composed.normalize("NFD") === decomposed && !texts.includes(composed)) texts.push(composed);
        }
      });
    }
    const nUnknown = (text) => [...text].filter((character) => !this.#isKnown(character)).length;
    if (texts.length === 1 && !nUnknown(cluster)) return cluster;
    texts.push(cluster.normalize("NFC"));
    const cost = (text) => nUnknown(text) * 1e6 + nPoints(text);
    return texts.reduce((best, text) => (cost(text) < cost(best) ? text : best));
  }
}

/** Return a function that returns a text as the vocabulary reads it. `write`: see `writer`. */
export const reader = (reading, write) => (text) =>
  isAscii(text) && !text.includes("\t") ? text : reading.read(write(text));

/**
 * Return the reading of a vocabulary that nmt trained, given the content of tokenizer.json.
 * Its pieces have plain spaces, so a space is never asked for and U+2581 stands for one: see nmt.share.transformers.
 */
export function losslessReading({ added_tokens: added, model: { vocab } }) {
  const special = new Set(added.map((token) => token.content));
  const pieces = new Set(Object.keys(vocab).filter((piece) => !special.has(piece) && !/^<0x[0-9A-F]{2}>$/.test(piece)));
  return new Reading([...pieces], (character) => character !== " " && pieces.has(character === MARK ? " " : character));
}
