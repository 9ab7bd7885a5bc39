import type { HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { discard, type Emitted } from '../../../core/processor.js'
import { BucketKey } from '../../throttle/bucket-key.js'
import { bucketName } from '../../throttle/bucket-name.js'
import type { DedupeOptions } from '../dedupe.js'
import { RecentKeys } from './recent-keys.js'
import { Summaries } from './summaries.js'

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
