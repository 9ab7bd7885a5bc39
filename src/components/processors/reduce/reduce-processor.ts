import type { HandoverState, Processor, ProcessorContext } from '../../../core/component.js'
import { compileCondition, type EventTest } from '../../../core/condition/condition.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { parseFieldPath } from '../../../core/event/field-path.js'
import { type BatchScope, CONSUMED, type EmitReason, type Emitted } from '../../../core/processor.js'
import { QueueMap } from '../../../lib/bounded-map.js'
import { BucketKey } from '../../throttle/buckets/bucket-key.js'
import { bucketName } from '../../throttle/buckets/bucket-name.js'
import { EventGroup, type FieldRule } from './group.js'
import type { ReduceOptions } from './options.js'

/** Why groups end. These are the values of the label `reason`. */
type End = 'starts_when' | 'ends_when' | 'timeout' | 'max_duration' | 'max_events' | 'max_groups' | 'max_bytes' | 'end'

/** State that is passed to a successor with the same options. */
class Groups {
  /** Open groups by key, the oldest first. */
  readonly open = new QueueMap<string, EventGroup>()
  ended: EventGroup[] = []
  bytes = 0
  batch = 0
}

export class Reduce implements Processor {
  readonly #options: ReduceOptions
  readonly #rules: readonly FieldRule[]
  readonly #clock: ProcessorContext['clock']
  readonly #key: BucketKey
  readonly #starts: EventTest | undefined
  readonly #ends: EventTest | undefined
  readonly #groups: Groups
  readonly #counts: (reason: End) => { value: number }

  constructor(options: ReduceOptions, context: ProcessorContext) {
    const { clock, metrics, inherited } = context
    const { key_field, starts_when, ends_when, merge } = options
    this.#options = options
    this.#clock = clock
    const fields = key_field.map(path => context.field(path))
    this.#key = new BucketKey(fields)
    const test = (when: ReduceOptions['ends_when']) => when && compileCondition(when, path => context.field(path))
    this.#starts = test(starts_when)
    this.#ends = test(ends_when)
    this.#rules = Object.entries(merge).map(([path, rule]) => ({ path: parseFieldPath(path), rule }))
    this.#groups = inherited instanceof Groups ? inherited : new Groups()
    metrics.gauge('sluice_reduce_open_groups', 'Groups that are open.', () => this.#groups.open.size)
    const help = 'Groups that ended, by reason.'
    this.#counts = reason => metrics.counter('sluice_reduce_ended_groups_total', help, { reason })
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const now = this.#clock.now()
    const { max_events, max_groups, max_bytes } = this.#options
    const groups = this.#groups
    groups.batch++
    for (let i = 0; i < batch.length; i++) {
      if (!this.#key.load(batch, i) && this.#key.hasFields) continue
      to[i] = CONSUMED
      const key = this.#key.hasFields ? bucketName(this.#key.text()) : ''
      if (this.#starts?.(batch, i)) this.#end(key, 'starts_when')
      const group = this.#add(key, batch, i, now, scope)
      if (this.#ends?.(batch, i)) this.#end(key, 'ends_when')
      else if (group.events >= max_events) this.#end(key, 'max_events')
      if (groups.open.size > max_groups) this.#endOldest('max_groups')
      while (groups.bytes > max_bytes && groups.open.size > 0) this.#endOldest('max_bytes')
    }
  }

  emit(why: EmitReason): readonly Emitted[] {
    if (why === 'reload') return []
    const { timeout, max_duration = Number.POSITIVE_INFINITY } = this.#options
    const groups = this.#groups
    const now = this.#clock.now()
    for (const [key, { last, since }] of groups.open) {
      if (why === 'drain') this.#end(key, 'end')
      else if (now - last >= timeout) this.#end(key, 'timeout')
      else if (now - since >= max_duration) this.#end(key, 'max_duration')
    }
    const ended = groups.ended
    groups.ended = []
    return ended.map(group => ({
      fields: group.merged(),
      shares: group.shares,
      ...(group.name !== undefined && { name: group.name }),
    }))
  }

  handOver(): HandoverState {
    return { value: this.#groups }
  }

  #add(key: string, batch: EventBatch, i: number, now: number, scope: BatchScope): EventGroup {
    const groups = this.#groups
    let group = groups.open.get(key)
    if (!group) {
      const { reading } = batch
      group = new EventGroup(this.#rules, now, reading === '' ? undefined : `${reading} ${batch.place(i)}`)
      groups.open.set(key, group)
      groups.bytes += group.bytes
    }
    const before = group.bytes
    group.add(batch.fields(i, true), now)
    groups.bytes += group.bytes - before
    if (group.batch !== groups.batch && !scope.isOnce) group.shares.push(scope.share())
    group.batch = groups.batch
    return group
  }

  #end(key: string, reason: End): void {
    const groups = this.#groups
    const group = groups.open.get(key)
    if (!group) return
    groups.open.delete(key)
    this.#ended(group, reason)
  }

  #endOldest(reason: End): void {
    const [, group] = this.#groups.open.shift()!
    this.#ended(group, reason)
  }

  #ended(group: EventGroup, reason: End): void {
    const groups = this.#groups
    groups.bytes -= group.bytes
    groups.ended.push(group)
    this.#counts(reason).value++
  }
}
