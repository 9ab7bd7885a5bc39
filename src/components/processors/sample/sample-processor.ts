import type { ComponentContext, HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import { compileCondition, type EventTest } from '../../../core/condition/condition.js'
import type { EventBatch } from '../../../core/event/batch.js'
import type { EditedField, EventEditor } from '../../../core/event/event-editor.js'
import { type FieldReader, NUMBER } from '../../../core/event/field-reader.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import { discard } from '../../../core/processor.js'
import { BucketKey } from '../../throttle/buckets/bucket-key.js'
import type { SampleOptions } from './options.js'

const SAMPLED = discard(0)
/** Seed of the hash. It is constant, so that all runs and all daemons make the same decisions. */
const SEED = 0x5105
const HASHES = 2 ** 32
/** A ratio is rounded to a multiple of 1 / PARTS. */
const PARTS = 1_000_000_000

/** Decides which counted events pass. Of every `size` events, `step` pass, evenly spread. */
interface Count {
  readonly step: number
  readonly size: number
  count: number
}

/** Returns which events pass: `step` of every `size` counted events, or those with a hash below `mostHash`. */
function rateOf({ one_in: oneIn, ratio = 1 }: SampleOptions) {
  const step = oneIn === undefined ? Math.max(1, Math.round(ratio * PARTS)) : 1
  const size = oneIn ?? PARTS
  return { step, size, mostHash: Math.ceil((HASHES * step) / size), standsFor: oneIn ?? 1 / ratio }
}

export class KeySample {
  readonly key: BucketKey
  readonly #mostHash: number

  constructor(options: SampleOptions, context: Pick<ComponentContext, 'field'>) {
    this.key = new BucketKey(
      options.key_field.map(path => context.field(path)),
      SEED,
    )
    this.#mostHash = rateOf(options).mostHash
  }

  /** Whether events with the last loaded key pass. */
  get passes(): boolean {
    return this.key.hash >>> 0 < this.#mostHash
  }
}

export class SampleProcessor implements Processor {
  readonly #keeps: EventTest | undefined
  readonly #keys: KeySample | undefined
  readonly #count: Count
  readonly #standsFor: number
  readonly #editor: EventEditor
  readonly #rate: { readonly field: EditedField; readonly reader: FieldReader } | undefined

  constructor(options: SampleOptions, context: ProcessorContext) {
    const { keep, key_field, rate_field } = options
    const { step, size, standsFor } = rateOf(options)
    this.#keeps = keep && compileCondition(keep, path => context.field(path))
    if (key_field.length > 0) this.#keys = new KeySample(options, context)
    this.#count = (context.inherited as Count | undefined) ?? { step, size, count: size - step }
    this.#standsFor = standsFor
    this.#editor = context.editor()
    if (rate_field !== false) {
      this.#rate = { field: this.#editor.field(rate_field), reader: context.field(rate_field) }
    }
  }

  process(batch: EventBatch, to: Uint8Array): void {
    for (let i = 0; i < batch.length; i++) {
      if (this.#keeps?.(batch, i)) continue
      if (this.#passes(batch, i)) this.#writeRate(batch, i)
      else to[i] = SAMPLED
    }
  }

  #passes(batch: EventBatch, i: number): boolean {
    const keys = this.#keys
    if (keys?.key.load(batch, i)) return keys.passes
    const counter = this.#count
    counter.count += counter.step
    if (counter.count < counter.size) return false
    counter.count -= counter.size
    return true
  }

  #writeRate(batch: EventBatch, i: number): void {
    const rate = this.#rate
    if (!rate) return
    const before = rate.reader.load(batch, i) === NUMBER ? rate.reader.number() : 1
    this.#editor.open(batch, i)
    this.#editor.set(rate.field, this.#standsFor * before)
    this.#editor.close()
  }

  handOver(): HandoverState {
    return { value: this.#count }
  }
}

/** Explains the decision about an event, as if it were the first event. */
export async function explainSample(options: SampleOptions, context: ComponentContext): Promise<FindingsOf> {
  const { explainCondition } = await import('../../../core/condition/explain.js')
  const { keep, one_in: oneIn, ratio, key_field } = options
  const keeps = keep && explainCondition(keep, path => context.field(path))
  const keys = new KeySample(options, context)
  const rate = oneIn === undefined ? `ratio: ${ratio}` : `one_in: ${oneIn}`
  const names = key_field.map(({ text }) => text).join(', ')
  return batch => {
    const kept = keeps?.(batch, 0)
    const findings: Finding[] = kept ? [{ text: 'keep', holds: kept.holds, parts: [kept] }] : []
    if (kept?.holds) return findings
    if (keys.key.load(batch, 0)) {
      const holds = keys.passes
      const value = `${names} is ${JSON.stringify(keys.key.text())}`
      return [...findings, { text: `${rate}: all events with this key ${holds ? 'pass' : 'are discarded'}`, value }]
    }
    const without = key_field.length > 0 ? `without ${names} ` : ''
    return [...findings, { text: `${rate}: ${without}events are counted; the first one passes` }]
  }
}
