import type { HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { discard, type Emitted } from '../../../core/processor.js'
import { BucketKey } from '../../throttle/bucket-key.js'
import { bucketName, OTHER } from '../../throttle/bucket-name.js'
import type { DedupeOptions } from '../dedupe.js'
import { RecentKeys } from './recent-keys.js'

const DUPLICATE = discard(0)
const COUNT_FIELD = parseFieldPath('.duplicates')

export class Dedupe implements Processor {
  readonly #window: number
  readonly #clock: ProcessorContext['clock']
  readonly #keys: RecentKeys
  readonly #key: BucketKey
  readonly #editor: EventEditor
  /** The field for the number of duplicates; undefined: it is not written. */
  readonly #countField: EditedField | undefined
  readonly #summaries: Summaries | undefined
  readonly #forgotten: { value: number }

  constructor(options: DedupeOptions, context: ProcessorContext) {
    const { fields, window, max_keys, report, count_field = COUNT_FIELD } = options
    const { clock, metrics, inherited } = context
    this.#window = window
    this.#clock = clock
    this.#keys = inherited instanceof RecentKeys ? inherited : new RecentKeys(max_keys)
    this.#key = new BucketKey(
      fields.map(path => context.field(path)),
      this.#keys.seed,
      true,
    )
    this.#editor = context.editor()
    if (report === 'next') this.#countField = this.#editor.field(count_field, false)
    if (report === 'summary') this.#summaries = new Summaries(context, window, max_keys)
    const keys = 'Events that are remembered, by their fields.'
    metrics.gauge('sluice_dedupe_keys', keys, () => this.#keys.size)
    const forgotten = 'Events that were forgotten before their window was over, because of max_keys.'
    this.#forgotten = metrics.counter('sluice_dedupe_forgotten_keys_total', forgotten)
  }

  process(batch: EventBatch, to: Uint8Array): void {
    const now = this.#clock.now()
    const key = this.#key
    const keys = this.#keys
    for (let i = 0; i < batch.length; i++) {
      if (!key.load(batch, i)) continue
      const id = keys.find(key)
      if (id >= 0 && now - keys.since(id) < this.#window) {
        to[i] = DUPLICATE
        if (keys.add(id) === 1 && this.#summaries) keys.setName(id, bucketName(key.text()))
        continue
      }
      const duplicates = id < 0 ? 0 : keys.count(id)
      if (duplicates > 0) this.#summaries?.add(keys, id, now)
      else if (id < 0 && keys.isFull) this.#forgetOldest(now)
      keys.begin(key, now)
      if (duplicates > 0 && this.#countField) this.#writeCount(batch, i, this.#countField, duplicates)
    }
  }

  #forgetOldest(now: number): void {
    const keys = this.#keys
    const id = keys.oldest
    if (now - keys.since(id) < this.#window) this.#forgotten.value++
    this.#summaries?.add(keys, id, now)
    keys.forget(id)
  }

  #writeCount(batch: EventBatch, i: number, field: EditedField, duplicates: number): void {
    this.#editor.open(batch, i)
    this.#editor.set(field, duplicates)
    this.#editor.close()
  }

  emit(why: 'time' | 'drain' | 'reload'): readonly Emitted[] {
    const summaries = this.#summaries
    if (!summaries) return []
    const keys = this.#keys
    const now = this.#clock.now()
    const isOver = (id: number) => now - keys.since(id) >= this.#window
    for (let id = keys.oldest; id >= 0 && isOver(id); id = keys.oldest) {
      summaries.add(keys, id, now)
      keys.forget(id)
    }
    if (why !== 'time') for (const id of keys) summaries.add(keys, id, now)
    return summaries.take()
  }

  handOver(): HandoverState {
    return { value: this.#keys }
  }
}

/** Makes events of the numbers of duplicates, in bounded memory. */
class Summaries {
  readonly #context: Pick<ProcessorContext, 'id' | 'clock'>
  readonly #window: number
  readonly #most: number
  #due: Emitted[] = []
  /** Duplicates of the keys for which there was no room, and when the first of them passed. */
  #others = 0
  #othersSince = 0

  constructor(context: Pick<ProcessorContext, 'id' | 'clock'>, window: number, most: number) {
    this.#context = context
    this.#window = window
    this.#most = most
  }

  /** Adds the duplicates of a key that were counted, if there are any, and counts from 0 again. */
  add(keys: RecentKeys, id: number, now: number): void {
    const duplicates = keys.count(id)
    if (duplicates === 0) return
    const first = this.#context.clock.wall() - (now - keys.since(id))
    if (this.#due.length < this.#most) this.#due.push(this.#summary(keys.name(id) ?? OTHER, duplicates, first))
    else {
      this.#othersSince = this.#others === 0 ? first : Math.min(first, this.#othersSince)
      this.#others += duplicates
    }
    keys.clearCount(id)
  }

  /** Returns the events that are due. */
  take(): Emitted[] {
    const due = this.#due
    if (this.#others > 0) due.push(this.#summary(OTHER, this.#others, this.#othersSince))
    this.#due = []
    this.#others = 0
    return due
  }

  #summary(key: string, duplicates: number, first: number): Emitted {
    const { id, clock } = this.#context
    return {
      fields: {
        message: 'duplicates',
        timestamp: timeText(clock.wall()),
        dedupe: { component: id, key, duplicates, first: timeText(first), window_ms: this.#window },
      },
    }
  }
}

const timeText = (ms: number) => new Date(ms).toISOString()
