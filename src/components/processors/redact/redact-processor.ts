import { behindMark } from '../../../core/codec.js'
import type { ComponentContext, Processor } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { type FieldReader, STRING_VALUE } from '../../../core/event/field-reader.js'
import { DECODED, INVALID, MODIFIED } from '../../../core/event/flags.js'
import type { Origin } from '../../../core/event/origin.js'
import type { FindingsOf } from '../../../core/explain.js'
import { LF, OPEN_OBJECT } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { writeBytes } from '../../../lib/formats/json-string.js'
import { CONTINUES, PIECE } from '../../../lib/lines/line-splitter.js'
import type { Action } from './action.js'
import type { SecretFinder } from './finder.js'
import { NewLines } from './new-lines.js'
import { type Selection, selectionOf } from './selection.js'
import { type Cuts, ValueRedactor } from './values.js'

/** Field that holds, in base64, the bytes of a line that is not UTF-8. */
const RAW = parseFieldPath('.raw')
const RAW_NAME = Buffer.from('"raw"')
const RAW_ALONE = selectionOf([RAW])
const FAILED = Buffer.from('{"message":"***"}')
const PIECES = [PIECE, PIECE | CONTINUES, CONTINUES].map(flags => ({
  before: (flags & CONTINUES) !== 0,
  behind: (flags & PIECE) !== 0,
}))

/**
 * Replaces a line of text by a redacted line, because the original must not be visible downstream. Other events get
 * redacted JSON.
 */
export class RedactProcessor implements Processor {
  readonly #finder: SecretFinder
  readonly #values: ValueRedactor
  readonly #selection: Selection
  readonly #context: ComponentContext
  readonly #raw: FieldReader
  readonly #lines = new NewLines()
  /** The JSON of an event whose line is not JSON. */
  readonly #made = new GrowingBytes()
  readonly #coversText: boolean
  readonly #failures: { value: number }
  readonly #rules: readonly string[]
  readonly #counters: readonly { readonly value: number }[]
  /** Whether to redact names of fields in every event. */
  readonly #coversNames: boolean
  #origin: Origin | undefined
  #isOriginSecret = false

  constructor(
    finder: SecretFinder,
    action: Action,
    selection: Selection,
    coversNames: boolean,
    context: ComponentContext,
  ) {
    this.#coversNames = coversNames
    const counter = (rule: string) =>
      context.metrics.counter('sluice_redact_matches_total', 'Values that were found and replaced, by rule.', {
        rule,
      })
    this.#rules = [...finder.rules, 'divided_line']
    const counters = this.#rules.map(counter)
    this.#counters = counters
    this.#finder = finder
    this.#values = new ValueRedactor(finder, action, rule => counters[rule]!.value++)
    this.#selection = selection
    this.#context = context
    this.#raw = context.field(RAW)
    this.#coversText = selection.all || selection.names.get('message')?.all === true
    this.#failures = context.metrics.counter(
      'sluice_redact_failed_events_total',
      'Events that could not be redacted. They were reduced to the message ***.',
    )
  }

  found(): (readonly [rule: string, count: number])[] {
    return this.#rules.map((rule, n) => [rule, this.#counters[n]!.value] as const)
  }

  process(batch: EventBatch): void {
    this.#lines.begin()
    const isSimple = this.#isSimple(batch)
    for (let i = 0; i < batch.length; i++) {
      try {
        if (!isSimple || this.#mayHold(batch, i)) this.#redact(batch, i, isSimple)
      } catch {
        // If redaction fails, the event must not pass unchanged. The error is hidden, because it may quote the event.
        batch.changeTo(i, FAILED, batch.bytes)
        this.#failures.value++
      }
    }
    const growth = this.#lines.apply(batch)
    if (growth > 0) this.#context.metrics.emitted(0, growth)
    if (growth < 0) this.#context.metrics.consumed(0, -growth)
  }

  /** Whether all matches of a line, JSON or text, can be found by a search in its bytes. */
  #isSimple({ origin, chunk, length, starts, ends }: EventBatch): boolean {
    if (length === 0 || origin.codec.form !== 'object' || this.#hasSecretOrigin(origin)) return false
    if (!this.#selection.all) return true
    const raw = chunk.indexOf(RAW_NAME, starts[0])
    return raw < 0 || raw >= ends[length - 1]!
  }

  /** Whether event `i` may have matches. Rules out most lines without decoding them. */
  #mayHold(batch: EventBatch, i: number): boolean {
    const isRead = (batch.flags[i]! & (MODIFIED | PIECE | CONTINUES)) === 0
    return !isRead || this.#finder.mayHold(batch.chunk, batch.starts[i]!, batch.ends[i]!)
  }

  /** `isSeen`: the finder has just scanned this line, unless the line is modified or divided. */
  #redact(batch: EventBatch, i: number, isSeen: boolean): void {
    const flags = batch.look(i)
    const { texts, origin, chunk } = batch
    this.#values.coversNames = this.#coversNames
    if (texts?.has(i)) {
      this.#redactJson(batch, i, texts.bytes, texts.starts[i]!, texts.ends[i]!, false)
      return
    }
    const start = batch.starts[i]!
    const end = batch.ends[i]!
    if ((flags & (DECODED | INVALID)) === DECODED && origin.codec.form === 'object') {
      const isWhole = (flags & (PIECE | CONTINUES)) === 0
      this.#redactJson(batch, i, chunk, behindMark(chunk, start, end), end, isSeen && isWhole)
      return
    }
    if ((flags & DECODED) === 0 && !this.#hasSecretOrigin(origin)) {
      if (this.#coversText && this.#values.text(chunk, start, end, cutsOf(flags))) {
        this.#lines.add(i, this.#values.out)
      }
      return
    }
    // In a line with fields, such as logfmt, any word can become a name.
    this.#values.coversNames ||= origin.codec.form === 'fields'
    this.#made.clear()
    origin.codec.writeEvent(batch, i, this.#made)
    // A line feed follows: scans may read one byte after the object.
    this.#made.addByte(LF)
    this.#redactJson(batch, i, this.#made.bytes, 0, this.#made.length - 1, false)
  }

  #redactJson(batch: EventBatch, i: number, b: Buffer, start: number, end: number, isSeen: boolean): void {
    const values = this.#values
    const flags = batch.flags[i]!
    while (b[start] !== OPEN_OBJECT) start++
    const mayHold = isSeen || this.#finder.mayHold(b, start, end)
    const isChanged = mayHold && values.object(b, start, end, this.#selection, cutsOf(flags))
    const isRawSecret = (isChanged && (flags & INVALID) !== 0) || this.#isRawSecret(batch, i, isChanged)
    if (!isChanged && !isRawSecret) return
    const { out } = values
    if (isRawSecret) {
      const json = Buffer.from(isChanged ? out.bytes.subarray(0, out.length) : b.subarray(start, end))
      values.whole(json, 0, json.length, RAW_ALONE)
    }
    const texts = batch.textsToChange()
    const at = texts.reserve(out.length, batch.bytes)
    const to = writeBytes(out.bytes, 0, out.length, texts.bytes, at)
    texts.end(to)
    batch.setText(i, at, to)
  }

  /** Whether the bytes in `.raw`, which are in base64, have matches. */
  #isRawSecret(batch: EventBatch, i: number, isChanged: boolean): boolean {
    if (!isChanged && !this.#selection.all) return false
    if (this.#raw.load(batch, i) !== STRING_VALUE) return false
    return this.#values.finds(Buffer.from(this.#raw.text(), 'base64'))
  }

  #hasSecretOrigin(origin: Origin): boolean {
    if (origin === this.#origin) return this.#isOriginSecret
    const { path, peer, host } = origin
    const own = Object.entries({ file: path, peer, host }).filter(([, value]) => value !== undefined)
    this.#origin = origin
    this.#isOriginSecret = own.some(
      ([name, value]) =>
        (this.#selection.all || this.#selection.names.get(name)?.all === true) &&
        this.#values.finds(Buffer.from(value!)),
    )
    return this.#isOriginSecret
  }
}

/** Returns the ends at which a piece of a long line was cut, or undefined if the line is whole. */
function cutsOf(flags: number): Cuts | undefined {
  const piece = flags & (PIECE | CONTINUES)
  if (piece === 0) return undefined
  return PIECES[piece === PIECE ? 0 : piece === CONTINUES ? 2 : 1]
}

export function explainRedact(processor: RedactProcessor): FindingsOf {
  return batch => {
    const before = processor.found().map(([, count]) => count)
    processor.process(batch.snapshot())
    const findings = processor.found().flatMap(([rule, count], n) => {
      const found = count - before[n]!
      return found === 0
        ? []
        : [{ text: rule, holds: true, value: found === 1 ? 'found once' : `found ${found} times` }]
    })
    return findings.length > 0 ? findings : [{ text: 'no rule finds anything', holds: false }]
  }
}
