import type { ComponentContext } from '../../core/component.js'
import { isDated, withTime } from '../../core/dated.js'
import type { EventBatch } from '../../core/event/batch.js'
import { EventTime } from '../../core/event/event-time.js'
import type { FieldPath } from '../../core/event/field-path.js'
import { RequestTexts } from '../../core/partition.js'
import type { Template } from '../../core/template.js'
import type { ObjectNames } from '../../engine/flow/spool/spooled-destination.js'
import { isDotSegment } from '../../net/urls.js'

/** Maximum bytes of a prefix. S3 accepts 1,024 bytes for the whole name. */
const LONGEST = 900
/**
 * Maximum bytes between two slashes of a prefix. Servers that store objects as files reject a longer name, which would
 * pause the destination.
 */
const LONGEST_STEP = 255
/** Maximum bytes that Sluice appends to the part after the last slash. */
const REST = 64

export function objectKeyProblem({ parts }: Template): string | undefined {
  const text = parts.map(part => (typeof part === 'string' ? part : 'x')).join('')
  if (/%(?![YmdFHM])/.test(text)) return 'has a % that does not begin %Y, %m, %d, %F, %H or %M'
  if (/\p{Cc}/u.test(text)) return 'must not have control characters'
  return prefixProblem(text)
}

function prefixProblem(text: string): string | undefined {
  if (text.startsWith('/')) return 'must not begin with "/"'
  const timed = withTime(text, '2026-01-31T23:59:59Z')
  const steps = timed.split('/')
  if (steps.some(isDotSegment)) return 'must not have a step that is "." or ".."'
  if (Buffer.byteLength(timed) > LONGEST) return `is longer than ${LONGEST} bytes`
  const longest = (i: number) => (i < steps.length - 1 ? LONGEST_STEP : LONGEST_STEP - REST)
  const long = steps.findIndex((step, i) => Buffer.byteLength(step) > longest(i))
  return long < 0 ? undefined : `has a step that is longer than ${longest(long)} bytes when it is encoded`
}

/** Builds prefixes of object names from a template and the event time in UTC. */
export class KeyPrefixes implements ObjectNames {
  readonly #texts: RequestTexts
  readonly #time: EventTime
  readonly #hasTime: boolean
  /** A cache, because consecutive events usually have the same prefix. */
  #last = { text: '', minute: Number.NaN, prefix: '' }

  constructor(key: Template, timestamp: FieldPath, { field }: ComponentContext) {
    const text = { option: 'key', template: key, encode: encodeURIComponent, problem: prefixProblem }
    this.#texts = new RequestTexts([text], field)
    this.#time = new EventTime(field(timestamp))
    this.#hasTime = isDated(key)
  }

  isOnePrefix(batch: EventBatch): boolean {
    return this.#texts.areConstant && (!this.#hasTime || this.#time.isReceipt(batch))
  }

  prefixOf(batch: EventBatch, i: number): string {
    const text = this.#texts.partitionOf(batch, i)
    if (!this.#hasTime) return text
    const minute = Math.floor(this.#time.secondsOf(batch, i) / 60)
    if (text !== this.#last.text || minute !== this.#last.minute)
      this.#last = { text, minute, prefix: withTime(text, new Date(minute * 60_000).toISOString()) }
    return this.#last.prefix
  }
}

/** Returns the prefix for an event without any fields. `ms`: the time of the event, in milliseconds since the epoch. */
export function samplePrefix({ parts }: Template, ms: number): string {
  const texts = parts.map(part => (typeof part === 'string' ? part : encodeURIComponent(part.fallback || 'none')))
  return withTime(texts.join(''), new Date(ms).toISOString())
}
