import { z } from 'zod'
import { APOSTROPHE, BACKSLASH, CR, isAt, LF, QUOTE, SPACE } from '../../lib/formats/ascii.js'
import { FieldName, type FieldSink } from '../../lib/formats/field-sink.js'
import { behindMark, defineCodec } from '../codec.js'
import { reaches } from '../options/reach.js'
import { FieldsCodec } from './fields-codec.js'

const TAB = 0x09
const TRUE = Buffer.from('true')
const LONGEST_DELIMITER = 16
/** Flags of a byte: whether it can begin a delimiter after a pair (ENDS_PAIR) or after a key (ENDS_KEY). */
const ENDS_PAIR = 1
const ENDS_KEY = 2

const delimiter = () =>
  reaches('nothing', z.string().min(1).max(LONGEST_DELIMITER)).refine(text => !/["'\\]/.test(text), {
    error: 'must not contain quotes or a backslash',
  })

const options = z.strictObject({
  key_value_delimiter: delimiter().default('=').describe('Separator between a key and its value, 1 to 16 characters.'),
  field_delimiter: delimiter()
    .default(' ')
    .describe('Separator between pairs, 1 to 16 characters. A space also matches tabs and repeated spaces.'),
})
type Options = z.output<typeof options>

const BLANKS = [SPACE, TAB, LF, CR]
const IS_BLANK = new Uint8Array(256)
for (const byte of BLANKS) IS_BLANK[byte] = 1

function skipBlanks(b: Buffer, p: number, end: number): number {
  while (p < end && IS_BLANK[b[p]!] === 1) p++
  return p
}

/** The text that was read last. `escaped`: whether this text was quoted and contains a backslash. */
let textStart = 0
let textEnd = 0
let escaped = false

class KeyValue extends FieldsCodec {
  readonly #between: Buffer
  readonly #after: Buffer
  readonly #isBlank: boolean
  /** For each byte: the kinds of delimiter that the byte can begin. */
  readonly #stops = new Uint8Array(256)
  /** Whether each byte with a flag in `#stops` is always a delimiter. */
  readonly #isCertain: boolean
  readonly #name = new FieldName()

  constructor(given: Options) {
    const { key_value_delimiter, field_delimiter } = given
    super(keyValue, undefined, {
      ...(key_value_delimiter === '=' ? {} : { key_value_delimiter }),
      ...(field_delimiter === ' ' ? {} : { field_delimiter }),
    })
    this.#between = Buffer.from(key_value_delimiter)
    this.#after = Buffer.from(field_delimiter)
    this.#isBlank = field_delimiter === ' '
    this.#isCertain = this.#isBlank && this.#between.length === 1
    for (const byte of this.#isBlank ? BLANKS : [this.#after[0]!]) this.#stops[byte]! |= ENDS_PAIR
    this.#stops[this.#between[0]!]! |= ENDS_KEY
  }

  read(b: Buffer, start: number, end: number, to: FieldSink): boolean {
    let hasPair = false
    for (let p = skipBlanks(b, behindMark(b, start, end), end); p < end; ) {
      p = this.#textEnd(b, p, end, true)
      if (textEnd === textStart) return false
      if (!escaped) this.#name.at(b, textStart, textEnd)
      else {
        const key = Buffer.from(unescaped(b.toString('utf8', textStart, textEnd)))
        this.#name.at(key, 0, key.length)
      }
      const between = skipBlanks(b, p, end)
      if (isAt(b, between, end, this.#between)) {
        hasPair = true
        const behind = between + this.#between.length
        // `a` has an empty value in "a= b=1", but not in "a = b".
        const isTight = this.#isBlank && between === p
        p = this.#textEnd(b, isTight ? behind : skipBlanks(b, behind, end), end, false)
        if (escaped) to.value(this.#name, unescaped(b.toString('utf8', textStart, textEnd)))
        else to.text(this.#name, b, textStart, textEnd)
      } else to.json(this.#name, TRUE, 0, TRUE.length)
      p = this.#nextPair(b, p, end)
    }
    return hasPair
  }

  override problem(): string {
    return 'a pair without a key, or no pair at all'
  }

  /** Reads a key or value, with or without quotes. Returns its end. */
  #textEnd(b: Buffer, p: number, end: number, isKey: boolean): number {
    escaped = false
    if (p < end && (b[p] === QUOTE || b[p] === APOSTROPHE)) {
      const close = closingQuote(b, p, end)
      if (close > 0 && this.#endsAt(b, close + 1, end, isKey)) {
        textStart = p + 1
        textEnd = close
        return close + 1
      }
    }
    escaped = false
    textStart = p
    const stops = this.#stops
    const mask = isKey ? ENDS_PAIR | ENDS_KEY : ENDS_PAIR
    for (; p < end; p++) {
      if ((stops[b[p]!]! & mask) === 0) continue
      if (this.#isCertain || this.#isAfter(b, p, end) || (isKey && isAt(b, p, end, this.#between))) break
    }
    textEnd = p
    while (textEnd > textStart && IS_BLANK[b[textEnd - 1]!] === 1) textEnd--
    return p
  }

  /** Whether a quoted text can end at `p`. If not, the quotes are part of the text. */
  #endsAt(b: Buffer, p: number, end: number, isKey: boolean): boolean {
    if (p === end || this.#isAfter(b, p, end)) return true
    const next = skipBlanks(b, p, end)
    return next === end || this.#isAfter(b, next, end) || (isKey && isAt(b, next, end, this.#between))
  }

  #isAfter(b: Buffer, p: number, end: number): boolean {
    return this.#isBlank ? IS_BLANK[b[p]!] === 1 : isAt(b, p, end, this.#after)
  }

  /** Returns the start of the pair that follows the pair ending at `p`. */
  #nextPair(b: Buffer, p: number, end: number): number {
    p = skipBlanks(b, p, end)
    if (!this.#isBlank && isAt(b, p, end, this.#after)) p = skipBlanks(b, p + this.#after.length, end)
    return p
  }
}

/** Returns the position of the quote that closes the quote at `p`, or -1 if not found. */
function closingQuote(b: Buffer, p: number, end: number): number {
  const quote = b[p]
  for (let at = p + 1; at < end; at++) {
    if (b[at] === quote) return at
    if (b[at] !== BACKSLASH) continue
    escaped = true
    at++
  }
  return -1
}

function unescaped(text: string): string {
  return text.replace(/\\(["'\\n])/g, (_, letter: string) => (letter === 'n' ? '\n' : letter))
}

export const keyValue = defineCodec({
  name: 'key_value',
  summary: 'Each line consists of pairs of a key and a value, separated by characters of your choice.',
  notes:
    'Keys and values may be in single or double quotes, in which `\\"`, `\\\'`, `\\\\` and `\\n` are escapes; any other backslash is kept. Blanks around a key or a value ' +
    'are not part of it. A key without a value has the value true, and all other values are text. If a key has several values, the last one counts. A line has at least one pair with a value. ' +
    'Lines of the usual form `key=value key="other value"` are also logfmt; the codec `logfmt` reads them faster.',
  options,
  form: 'fields',
  expects: 'pairs of keys and values',
  undecodedHelp: 'Lines that are not pairs of keys and values. They are kept as text.',
  joinsLines: true,
  examples: [
    {
      title: 'Other delimiters',
      yaml: "key_value_delimiter: ':'\nfield_delimiter: ','\n",
      line: `user: ada, "full name": 'Ada "Countess" L.', admin`,
      event: { user: 'ada', 'full name': 'Ada "Countess" L.', admin: true },
    },
    {
      title: 'LTSV: labels and values between tabs',
      yaml: 'key_value_delimiter: \':\'\nfield_delimiter: "\\t"\n',
      line: 'host:127.0.0.1\tuser:-\ttime:[10/Jul/2026:13:27:05 +0200]\treq:GET / HTTP/1.1\tstatus:200',
      event: {
        host: '127.0.0.1',
        user: '-',
        time: '[10/Jul/2026:13:27:05 +0200]',
        req: 'GET / HTTP/1.1',
        status: '200',
      },
    },
  ],
  create: parsed => new KeyValue(parsed),
})
