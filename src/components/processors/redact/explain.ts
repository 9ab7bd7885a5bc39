import type { FindingsOf } from '../../../core/explain.js'
import type { RedactProcessor } from './redact-processor.js'

/** Says which rules find something in the event, and how often. */
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
