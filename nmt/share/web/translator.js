// Translation of lines by the model: what nmt.translate.segment does around a search, with greedy search.
import { hasLetters, isBlank, losslessReading, reader, Reading, withoutControls, writer } from "./reading.js";
import { join, nSentences, split } from "./split.js";

const REPETITIONS = 8; // see nmt.translate.segment

/** A tokenizer.json without special tokens, so that the text never becomes one of them. */
class Vocabulary {
  #tokenizer;

  /** `json`, `settings`: the contents of tokenizer.json and tokenizer_config.json. */
  constructor({ PreTrainedTokenizer }, json, settings) {
    this.json = json;
    this.added = new Map(json.added_tokens.map((token) => [token.content, token.id]));
    this.special = new Set(json.added_tokens.filter((token) => token.special).map((token) => token.id));
    this.#tokenizer = new PreTrainedTokenizer({ ...json, added_tokens: [], post_processor: null }, settings);
  }

  encode(text) {
    return text ? Array.from(this.#tokenizer.encode(text, { add_special_tokens: false })) : [];
  }

  decode(ids) {
    const text = ids.filter((id) => !this.special.has(id));
    return text.length ? this.#tokenizer.decode(text, { clean_up_tokenization_spaces: false }) : "";
  }

  /** Return how text is read before it is encoded. `isLossless`: whether nmt trained the vocabulary, of `n` pieces. */
  reading(isLossless, n) {
    if (isLossless) return losslessReading(this.json);
    const { vocab } = this.json.model, pieces = Array.isArray(vocab) ? vocab.map(([piece]) => piece) : [];
    if (!pieces.length) for (const [piece, id] of Object.entries(vocab)) pieces[id] = piece;
    const added = new Set(this.added.values()); // pieces from the n-th on are not known to the model
    const isKnown = (id) => id < n && !added.has(id) && !/^<0x[0-9A-F]{2}>$|^\0/.test(pieces[id]);
    const known = pieces.filter((_, id) => isKnown(id)).map((piece) => piece.replaceAll("\u2581", " "));
    return new Reading(known, (character) => this.encode(character).every(isKnown));
  }
}

/** A model with its vocabularies. */
export class Translator {
  #library;
  #about;
  #model;
  #source;
  #target;
  #end; // the id of the end of a sentence
  #longest; // the most ids of a source, without the end
  #readers; // of each direction
  #remembered = new Map(); // translations of sentences

  /**
   * Load the model. `library`: transformers.js; `about`: the content of about.json; `json`: returns the content of a file
   * of the model, or undefined; `name`: the name of the model for the library; `options`: for its loading.
   */
  static async load(library, about, json, name, options = {}) {
    const vocabulary = async (folder) => {
      const content = await json(`${folder}tokenizer.json`);
      return content && new Vocabulary(library, content, await json(`${folder}tokenizer_config.json`));
    };
    const source = await vocabulary(""), target = (await vocabulary("target/")) ?? source;
    const model = await library.MarianMTModel.from_pretrained(name, options);
    return new Translator(library, about, model, source, target, (await json("tokenizer_config.json")).model_max_length);
  }

  constructor(library, about, model, source, target, mostIds) {
    [this.#library, this.#about, this.#model, this.#source, this.#target] = [library, about, model, source, target];
    this.#end = [model.generation_config?.eos_token_id ?? model.config.eos_token_id].flat()[0];
    this.#longest = mostIds - 1;
    const reading = source.reading(about.is_lossless, about.n_pieces);
    this.#readers = about.directions.map((direction) => reader(reading, writer(direction.letters)));
  }

  /** Yield the translation of a line after each of its sentences; nothing more after `isStopped` returns true. */
  async *translate(line, number, isStopped = () => false) {
    const read = this.#readers[number], most = Math.min(this.#longest, this.#about.max_pieces);
    if (isBlank(read(line))) return yield "";
    const nPieces = (texts) => texts.map((text) => this.#encode(text, read).length);
    const parts = this.#needsSplit(line, nPieces, most) ? split(line, nPieces, most, 0) : [[line, ""]];
    const translations = [];
    for (const [i, [part]] of parts.entries()) {
      translations.push(await this.#sentence(part, number, isStopped));
      if (isStopped()) return;
      yield join(parts.slice(0, i + 1), translations);
    }
  }

  #needsSplit(line, nPieces, most) {
    if (this.#about.split === "never" || !hasLetters(line)) return false;
    return nPieces([line])[0] > most || (this.#about.split === "always" && nSentences(line) > 1);
  }

  /** Return the ids of a text. Tokenizers of nmt put a space before it, which is also read. */
  #encode(text, read) {
    if (!text || !this.#about.is_lossless) return this.#source.encode(read(text));
    return this.#source.encode(read(` ${withoutControls(text)}`).replace(/^ /, ""));
  }

  async #sentence(text, number, isStopped) {
    const key = `${number} ${text}`;
    if (!this.#remembered.has(key)) {
      const translation = await this.#search(text, number, isStopped);
      if (isStopped()) return "";
      this.#remembered.set(key, translation);
    }
    return this.#remembered.get(key);
  }

  async #search(text, number, isStopped) {
    if (!isBlank(text) && !hasLetters(text)) return withoutControls(text); // numbers, signs
    const ids = this.#encode(text, this.#readers[number]);
    if (!ids.length) return "";
    const first = this.#about.directions[number].pieces.map((piece) => this.#source.added.get(piece));
    const source = [...first, ...ids].slice(0, this.#longest), { Tensor, StoppingCriteria } = this.#library;
    const row = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    class Stopped extends StoppingCriteria {
      _call(rows) {
        return rows.map(isStopped);
      }
    }
    const output = await this.#model.generate({
      input_ids: row([...source, this.#end]), attention_mask: row([...source, this.#end].fill(1)), num_beams: 1,
      do_sample: false, max_new_tokens: this.#mostNew(source), stopping_criteria: new Stopped(),
    });
    const translation = withoutControls(this.#target.decode(output[0].tolist().map(Number).slice(1)));
    return this.#about.is_lossless ? translation : translation.trim();
  }

  /** Return the maximum length of a translation, including the end: nmt.translate.segment.longest_translation. */
  #mostNew(ids) {
    const { max_length_ratio: most, max_length_offset: offset, min_length: least } = this.#about;
    const positions = this.#model.config.max_position_embeddings ?? Infinity;
    const ratio = ids.length >= REPETITIONS * new Set(ids).size ? Math.min(most, 1) : most;
    return Math.min(Math.max(Math.trunc(ratio * ids.length + offset), least + 1), positions);
  }
}
