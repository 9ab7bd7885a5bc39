import { createHash } from 'node:crypto'
import type { HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { discard, type Emitted } from '../../../core/processor.js'
import { QueueMap } from '../../../lib/bounded-map.js'
import { BucketKey, LONGEST_KEY } from '../../throttle/buckets/bucket-key.js'
import { bucketName, OTHER_NAME } from '../../throttle/buckets/bucket-name.js'
import type { DedupeOptions } from './options.js'

const DUPLICATE = discard(0)
const COUNT_FIELD = parseFieldPath('.duplicates')

/** A window begins with an event that passed. Later equal events in the window are duplicates. */
interface Window {
  readonly since: number
  duplicates: number
  /** The field values as text, for the report. Empty until a duplicate must be reported. */
  name: string
}

export class Dedupe implements Processor {
  readonly #options: DedupeOptions
  readonly #context: ProcessorContext
  /** Windows by the values of the fields, the oldest first. */
  readonly #windows: QueueMap<string, Window>
  readonly #key: BucketKey
  readonly #editor: EventEditor
  /** The field for the number of duplicates. Undefined if this number is not written. */
  readonly #countField: EditedField | undefined
  readonly #forgotten: { value: number }
  #due: Emitted[] = []
  /** Duplicates of keys that had no room in `#due`. `since`: when the first event with one of these keys passed. */
  #others = { since: Number.POSITIVE_INFINITY, duplicates: 0 }

  constructor(options: DedupeOptions, context: ProcessorContext) {
    const { fields, report, count_field = COUNT_FIELD } = options
    const { metrics, inherited } = context
    this.#options = options
    this.#context = context
    this.#windows = inherited instanceof QueueMap ? inherited : new QueueMap()
    const readers = fields.map(path => context.field(path))
    this.#key = new BucketKey(readers)
    this.#editor = context.editor()
    if (report === 'next') this.#countField = this.#editor.field(count_field, false)
    const keys = 'Remembered combinations of field values.'
    metrics.gauge('sluice_dedupe_keys', keys, () => this.#windows.size)
    const forgotten = 'Events that were forgotten before their window was over, because of max_keys.'
    this.#forgotten = metrics.counter('sluice_dedupe_forgotten_keys_total', forgotten)
  }

  process(batch: EventBatch, to: Uint8Array): void {
    const now = this.#context.clock.now()
    const { window, max_keys, report } = this.#options
    const windows = this.#windows
    for (let i = 0; i < batch.length; i++) {
      if (!this.#key.load(batch, i)) continue
      const text = this.#key.text()
      const key = text.length > LONGEST_KEY ? digest(text) : text
      const known = windows.get(key)
      if (known && now - known.since < window) {
        if (known.duplicates++ === 0 && report === 'summary') known.name = bucketName(text)
        to[i] = DUPLICATE
        continue
      }
      if (known) this.#end(key, known)
      else if (windows.size >= max_keys) this.#forgetOldest(now)
      windows.set(key, { since: now, duplicates: 0, name: '' })
      if (known && known.duplicates > 0 && this.#countField) {
        this.#editor.open(batch, i)
        this.#editor.set(this.#countField, known.duplicates)
        this.#editor.close()
      }
    }
  }

  #forgetOldest(now: number): void {
    const [, oldest] = this.#windows.shift()!
    if (now - oldest.since < this.#options.window) this.#forgotten.value++
    this.#report(oldest)
  }

  #end(key: string, window: Window): void {
    this.#windows.delete(key)
    this.#report(window)
  }

  #report({ name, since, duplicates }: Window): void {
    if (duplicates === 0 || this.#options.report !== 'summary') return
    if (this.#due.length < this.#options.max_keys) this.#due.push(this.#summary(name, since, duplicates))
    else {
      const others = this.#others
      this.#others = { since: Math.min(since, others.since), duplicates: others.duplicates + duplicates }
    }
  }

  #summary(key: string, since: number, duplicates: number): Emitted {
    const { id, clock } = this.#context
    const first = timeText(clock.wall() - (clock.now() - since))
    const dedupe = { component: id, key, duplicates, first, window_ms: this.#options.window }
    return { fields: { message: 'duplicates', timestamp: timeText(clock.wall()), dedupe } }
  }

  emit(why: 'time' | 'drain' | 'reload'): readonly Emitted[] {
    if (this.#options.report !== 'summary') return []
    const now = this.#context.clock.now()
    for (const [key, window] of this.#windows) {
      if (now - window.since >= this.#options.window) this.#end(key, window)
      else if (why === 'time') break
      else {
        this.#report(window)
        window.duplicates = 0
      }
    }
    const due = this.#due
    const { since, duplicates } = this.#others
    if (duplicates > 0) due.push(this.#summary(OTHER_NAME, since, duplicates))
    this.#due = []
    this.#others = { since: Number.POSITIVE_INFINITY, duplicates: 0 }
    return due
  }

  handOver(): HandoverState {
    return { value: this.#windows }
  }
}

/**
 * Replaces a key that is too long to keep. The replacement is longer than every key that was not replaced, so it equals
 * no such key.
 */
function digest(text: string): string {
  return createHash('sha256')
    .update(text, 'utf16le')
    .digest('hex')
    .padEnd(LONGEST_KEY + 1, '0')
}

const timeText = (ms: number) => new Date(ms).toISOString()
