// Splitting of long lines into sentences, and joining of their translations: nmt.text.split, function by function.
// Offsets are in UTF-16 units, except where a comment says code points.
import { OPENED_BY, QUOTES, SOURCES, STOPS, VOWELS } from "./patterns.js";

const pattern = (name, flags = "") => new RegExp(SOURCES[name], `v${flags}`);

const SENTENCE = pattern("SENTENCE", "g"), TEMPLATE = pattern("TEMPLATE", "g");
const WEAKER = ["CLAUSE", "COMMA", "WORD"].map((name) => pattern(name, "g"));
const OPEN = pattern("OPEN", "y"), CONTINUES = pattern("CONTINUES", "y"), ANOTHER = pattern("ANOTHER", "y");
const ABBREVIATION = pattern("ABBREVIATION"), LETTER_WITHOUT_CASE = pattern("LETTER_WITHOUT_CASE");
const ETC = pattern("ETC", "g"), BAR_BEFORE_SPACE = pattern("BAR_BEFORE_SPACE", "g"), ANY_BAR = pattern("ANY_BAR", "g");
const LAST_MARK = pattern("LAST_MARK"), PICTURES = pattern("PICTURES", "g"), QUOTE = pattern("QUOTE", "g");
const CLUSTER = pattern("CLUSTER", "g"), CLUSTER_HERE = pattern("CLUSTER", "y");
const WIDE = pattern("WIDE", "y"), UNSPACED = pattern("UNSPACED"), ENDED = pattern("ENDED"), GLUED = pattern("GLUED");
const SPACE = pattern("SPACE"), SPACES = new RegExp(`${SOURCES.SPACE}+`, "v");

// --- strings as in Python ------------------------------------------------------------------------

const isAscii = (text) => !/[^\x00-\x7f]/.test(text);
const isSpace = (unit) => unit !== undefined && SPACE.test(unit); // white space has one unit
const first = (text) => String.fromCodePoint(...(text ? [text.codePointAt(0)] : []));
const last = (text) => text.match(/\p{Any}$/v)?.[0] ?? "";
const nPoints = (text) => [...text].length;

/** Remove characters from the start and the end of a text; the test gets a unit. Patterns would take quadratic time. */
function stripped(text, isRemoved, atStart = true, atEnd = true) {
  let start = 0, end = text.length;
  while (atStart && start < end && isRemoved(text[start])) start++;
  while (atEnd && end > start && isRemoved(text[end - 1])) end--;
  return text.slice(start, end);
}

const strip = (text) => stripped(text, isSpace);
const lstrip = (text, isRemoved = isSpace) => stripped(text, isRemoved, true, false);
const rstrip = (text, isRemoved = isSpace) => stripped(text, isRemoved, false, true);
const isQuote = (unit) => QUOTES.includes(unit);

/** Match a sticky pattern at an offset. */
function matchAt(sticky, text, at) {
  sticky.lastIndex = at;
  return sticky.exec(text);
}

// --- splitting -----------------------------------------------------------------------------------

/**
 * Split a line into parts, each with the white space that follows it: [[part, separator], …].
 * `nPieces` returns the number of pieces of each of several texts. A line of at most `whole` pieces is one part.
 */
export function split(text, nPieces, longest, whole = longest) {
  if (nPieces([text])[0] <= whole) return [[text, ""]];
  const begin = text.length - lstrip(text).length, end = rstrip(text).length;
  if (begin >= end) return [["", text]];
  const parts = pack(text, sentencesWithin(text, [begin, end], nPieces, longest), nPieces, longest);
  const ends = [...parts.slice(1).map(([start]) => start), text.length];
  const result = begin ? [["", text.slice(0, begin)]] : [];
  parts.forEach(([start, stop], i) => {
    const part = strip(text.slice(start, stop)); // a cut within a word may be at a no-break space
    const left = text.indexOf(part, start), after = ends[i];
    if (left > start || !part) result.at(-1)[1] += text.slice(start, part ? left : after);
    if (part) result.push([part, text.slice(left + part.length, after)]);
  });
  return result;
}

/** Count the sentences of a line, at least one. */
export const nSentences = (text) => [...between(prepared(text), [0, text.length], SENTENCE)].length;

/** Return a text of the same length in which the patterns find the ends of sentences. */
export function prepared(text) {
  text = text.replace(TEMPLATE, (template) => "_".repeat(template.length));
  if (isAscii(text)) return text;
  text = text.replace(PICTURES, (pictures) => "!".repeat(rstrip(pictures).length).padEnd(pictures.length));
  text = text.replace(ETC, (etc) => "។".repeat(etc.length));
  if (text.includes("|") && !lstrip(text).startsWith("|"))
    text = text.replace(LAST_MARK.test(text) ? ANY_BAR : BAR_BEFORE_SPACE, (bars) => bars.replaceAll("|", "।"));
  const opened = new Set();
  return text.replace(QUOTE, (quote, following) => {
    if (opened.delete(OPENED_BY[quote] ?? "")) return quote;
    opened.add(quote);
    return following ? "„" : quote;
  });
}

/** Return the sentences as fragments: span, number of pieces, start of the sentence. Longer ones than `longest` are cut. */
function sentencesWithin(text, line, nPieces, longest) {
  const counted = (spans) => nPieces(spans.map((span) => text.slice(...span)));
  const cut = ([span, n], level) =>
    level < WEAKER.length ? [...between(outside, span, WEAKER[level])]
      : evenly(text, span, Math.ceil((1.1 * n) / longest)); // a little finer: pieces are not spread evenly
  const outside = prepared(text), spans = [...between(outside, line, SENTENCE)], counts = counted(spans);
  let done = spans.map((span, i) => [span, counts[i], span[0]]);
  for (let level = 0; done.some(([, n]) => n > longest); level++) {
    const cuts = done.map((fragment) => (fragment[1] > longest ? cut(fragment, level) : [fragment[0]]));
    if (level >= WEAKER.length && cuts.every((shorter) => shorter.length === 1)) break; // single characters
    const numbers = counted(cuts.filter((shorter) => shorter.length > 1).flat()).values();
    done = done.flatMap(([, n, start], i) =>
      cuts[i].length > 1 ? cuts[i].map((span) => [span, numbers.next().value, start]) : [[cuts[i][0], n, start]]);
  }
  return done;
}

/** Yield the spans between the breaks within a span. */
function* between(text, [start, stop], breaks) {
  const visible = text.slice(0, stop);
  breaks = new RegExp(breaks); // an iterator of its own, with its own position
  breaks.lastIndex = start;
  for (let match; (match = breaks.exec(visible)); ) {
    const marks = match.groups.g1, from = match.index, left = from + marks.length, right = from + match[0].length;
    if (right < stop && !(
      isAbbreviated(text, marks, from, right) ||
      (breaks.source === SENTENCE.source && (continuesInLowercase(text, marks, right) || matchAt(CONTINUES, text, right))) ||
      (left === right && isWithinCluster(text, right))
    )) {
      yield [start, left];
      start = right;
    }
  }
  yield [start, stop];
}

/** Return at most `n` code points before an offset, in the normal form NFC. */
const before = (text, n, at) => [...text.slice(Math.max(0, at - 2 * n), at)].slice(-n).join("").normalize("NFC");

function isAbbreviated(text, marks, at, end) {
  if (marks !== "." && marks !== "．") return false;
  const preceding = before(text, 12, at);
  if (!ABBREVIATION.test(preceding)) return false;
  const letter = last(preceding);
  if (VOWELS.includes(first(letter.normalize("NFD")))) return !isWord(text, at, end);
  // scripts from left to right without case, such as Sinhala, have words of one letter, but also ዓ.ም.
  return !LETTER_WITHOUT_CASE.test(letter) || preceding.slice(0, -letter.length).endsWith(".");
}

/**
 * Return whether the vowel before a mark is a word, rather than an abbreviation or the number of an item.
 * `end`: the end of the white space after the mark.
 */
function isWord(text, at, end) {
  if (matchAt(ANOTHER, text, end)) return false;
  const words = ["", "", ...before(text, 40, at).split(SPACES).filter(Boolean)];
  const [beforePrevious, previous, word] = words.slice(-3);
  if (nPoints(word) > 1) return "'’-".includes([...word].at(-2));
  const isAfterName = isAscii(word) && /^\p{Uppercase}/v.test(previous) && !STOPS.includes(last(beforePrevious));
  return !(word === "u" || isAfterName || STOPS.includes(last(previous))); // "s. o.", "in Frankfurt a. Main", "Alt u. Neu"
}

function continuesInLowercase(text, marks, at) {
  const letter = first(text.slice(at + matchAt(OPEN, text, at)[0].length));
  // Georgian sentences begin with letters that are lower case but have no title case
  return ".!?…".includes(marks[0]) && /^\p{Lowercase}/v.test(letter) && letter.toUpperCase() !== letter
    && !/^[\u10d0-\u10ff]/.test(letter);
}

/** Return about `n` spans of equal length in code points, which consist of whole clusters. */
function evenly(text, [start, stop], n) {
  const edges = []; // of clusters, in units and in code points
  let points = 0;
  for (const cluster of text.slice(start, stop).matchAll(CLUSTER)) {
    edges.push([start + cluster.index, points]);
    points += nPoints(cluster[0]);
  }
  const cuts = [[start, 0]];
  for (let i = 1; i < n; i++) {
    const at = Math.floor((i * points) / n);
    let following = edges.findIndex(([, point]) => point > at);
    if (following < 0) following = edges.length;
    const edge = edges.slice(following - 1, following + 1).find(([, point]) => point > cuts.at(-1)[1]);
    if (edge) cuts.push(edge);
  }
  return cuts.map(([unit], i) => [unit, i + 1 < cuts.length ? cuts[i + 1][0] : stop]);
}

/** Return whether the character at an offset belongs to the same cluster as the one before it. */
function isWithinCluster(text, at) {
  const start = at - last(text.slice(Math.max(0, at - 2), at)).length;
  const cluster = matchAt(CLUSTER_HERE, text, start);
  return cluster !== null && start + cluster[0].length > at;
}

/** Join consecutive fragments of a sentence into spans of at most `longest` pieces. */
function pack(text, fragments, nPieces, longest) {
  let groups = [], used = 0;
  for (const [span, n, sentence] of fragments) {
    if (groups.length && used + n <= longest && span[0] !== sentence) {
      groups.at(-1).push(span);
      used += n;
    } else {
      groups.push([span]);
      used = n;
    }
  }
  // Joined, they can have more pieces than separately, as with two spaces between them.
  for (;;) {
    const together = groups.filter((group) => group.length > 1);
    const counts = nPieces(together.map((group) => text.slice(group[0][0], group.at(-1)[1])));
    const tooLong = new Set(together.filter((_, i) => counts[i] > longest));
    if (!tooLong.size) return groups.map((group) => [group[0][0], group.at(-1)[1]]);
    groups = groups.flatMap((group) => {
      const middle = Math.floor(group.length / 2);
      return tooLong.has(group) ? [group.slice(0, middle), group.slice(middle)] : [group];
    });
  }
}

// --- joining -------------------------------------------------------------------------------------

/** Join the translations of the parts of a line that `split` returned. */
export function join(parts, translations) {
  const joined = [];
  let gap = "", previous = "";
  parts.forEach(([source, after], i) => {
    const translation = translations[i];
    if (translation) {
      if (joined.length) joined.push(separator(joined.at(-1), translation, gap, [previous, source]));
      joined.push(translation);
      gap = "";
    }
    gap += after;
    previous = source;
  });
  return joined.join("");
}

/** Return the separator of two translations, given their sources and what separates these. */
function separator(one, other, gap, sources) {
  const end = last(rstrip(one, isQuote)), isWide = (text) => matchAt(WIDE, text, 0) !== null;
  if (isWide(end) && (!/[\p{L}\p{N}]/v.test(end) || isWide(lstrip(other, isQuote)))) return "";
  const left = last(sources[0]), right = first(sources[1]);
  if (gap || ENDED.test(sources[0])) return " ";
  const isWithinSentence = "\u0f0b\u0f0c".includes(left) || /[\p{L}\p{M}\p{N}]/v.test(left);
  const isGlued = GLUED.test(left + right) && !(isWithinSentence && UNSPACED.test(last(one) + first(other)));
  return isGlued ? " " : "";
}
