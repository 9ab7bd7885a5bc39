import type { ComponentContext } from '../../../core/component.js'
import { explainCondition } from '../../../core/condition/explain.js'
import type { Finding, FindingsOf } from '../../../core/explain.js'
import type { SampleOptions } from '../sample.js'
import { KeySample } from './sample-processor.js'

/** The reasons for a decision about an event that is the first one. */
export function explainSample(options: SampleOptions, context: ComponentContext): FindingsOf {
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
