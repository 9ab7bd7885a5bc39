import type { Outcome } from './play.js'

/** A difference between two outcomes of a case. Differences with the same `cause` are shown once. */
export interface Difference {
  readonly kind: 'output' | 'end' | 'text'
  readonly cause: string
  readonly base: string
  readonly now: string
}

/** Values that differ between any two runs. Paths and ports do not, and the wall clock starts at the same time. */
const NORMALISED: readonly (readonly [RegExp, string])[] = [
  // Times of the run, as text, in milliseconds and in seconds. It starts at 2031-03-04T05:10:00.500Z.
  [/2031-03-04[T ]05:1\d:\d\d(\.\d+)?(Z|\+00:00)?/g, 'NOW'],
  [/\b19303674\d\d(\d{3})?(\.\d+)?\b/g, 'NOW'],
  [/(interval_ms"?[:=])\d+/g, '$1N'],
  [/"pid":\d+/g, '"pid":N'],
]

const normalised = (text: string) => NORMALISED.reduce((changed, [pattern, to]) => changed.replace(pattern, to), text)

/** After a kill, a file may be read under its previous or its next name. */
const FILE_NAME = /\/in\/([ab])\.log(\.\d)?\b/g

/** Decodes as latin1, which keeps every byte. */
const textOf = (bytes: Buffer | undefined) => normalised((bytes ?? Buffer.alloc(0)).toString('latin1'))
const linesOf = (text: string) => text.split('\n')
/** Texts that differ in numbers and names have the same cause. */
const general = (text: string) =>
  text
    .replace(/\b(sources|processors|destinations)\.\w+/g, '$1.ID')
    .replace(/[\w.]+(?=: unknown option; known are sources)/, 'ID')
    .replace(/"[^"]*"|'[^']*'/g, '"…"')
    .replace(/\d+/g, 'N')

interface Rules {
  readonly isKilled: boolean
  readonly isUnordered: boolean
}

export function compare(base: Outcome, now: Outcome, { isKilled, isUnordered }: Rules): Difference[] {
  const differences: Difference[] = []
  for (const name of new Set([...base.outputs.keys(), ...now.outputs.keys()])) {
    const [before, after] = [base, now].map(({ outputs }) => {
      const text = textOf(outputs.get(name))
      return isKilled ? text.replace(FILE_NAME, '/in/$1.log') : text
    }) as [string, string]
    if (before === after) continue
    const lines = isKilled
      ? ([new Set(linesOf(before)), new Set(linesOf(after))] as const)
      : ([linesOf(before), linesOf(after)] as const)
    const missing = without(lines[0], lines[1])
    const more = without(lines[1], lines[0])
    if (missing.length > 0 || more.length > 0)
      differences.push({ kind: 'output', ...changeOf('output', missing[0], more[0]) })
    else if (!isKilled && !isUnordered) {
      const at = linesOf(before).findIndex((line, i) => line !== linesOf(after)[i])
      differences.push({
        kind: 'output',
        cause: 'output: the order of lines',
        base: linesOf(before)[at]!,
        now: linesOf(after)[at] ?? '',
      })
    }
  }
  // The exit codes of lives that may be killed depend on timing.
  const exits = [base, now].map(one => String(isKilled ? one.exits.at(-1) : one.exits)) as [string, string]
  if (exits[0] !== exits[1])
    differences.push({ kind: 'end', cause: `exit code ${exits[0]} → ${exits[1]}`, base: exits[0], now: exits[1] })
  const [before, after] = [base, now].map(({ log }) => lastLine(log, isKilled)) as [string, string]
  if (before !== after) differences.push({ kind: 'end', ...changeOf('last line of the log', before, after) })
  // After a kill, the messages of the next start depend on timing.
  if (!isKilled) differences.push(...compareTexts('log', messages(base.log), messages(now.log)))
  return differences
}

/** Compares two lists of texts and ignores their order. */
export function compareTexts(what: string, base: readonly string[], now: readonly string[]): Difference[] {
  const missing = without(base, now)
  const more = without(now, base)
  return Array.from({ length: Math.max(missing.length, more.length) }, (_, i) => {
    const [before = '', after = ''] = [missing[i], more[i]]
    return { kind: 'text', cause: `${what}: ${general(before)} → ${general(after)}`, base: before, now: after }
  })
}

/** Counts repeated lines. After a kill they are allowed, but their number should not grow. */
export function repeats({ outputs }: Outcome): number {
  let repeated = 0
  for (const bytes of outputs.values()) {
    const lines = linesOf(textOf(bytes))
    repeated += lines.length - new Set(lines).size
  }
  return repeated
}

/** Returns the lines that `one` has more often than `other`. */
function without(one: Iterable<string>, other: Iterable<string>): string[] {
  const counts = new Map<string, number>()
  for (const line of other) counts.set(line, (counts.get(line) ?? 0) + 1)
  return [...one].filter(line => {
    const count = counts.get(line) ?? 0
    counts.set(line, count - 1)
    return count <= 0
  })
}

function object(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Names the cause of a difference between two lines. For JSON objects, it is the members that differ. */
function changeOf(what: string, before: string | undefined, after: string | undefined) {
  const shown = { base: before ?? '(no such line)', now: after ?? '(no such line)' }
  if (before === undefined) return { ...shown, cause: `${what}: more lines` }
  if (after === undefined) return { ...shown, cause: `${what}: fewer lines` }
  const [one, other] = [object(before), object(after)]
  if (!one || !other) return { ...shown, cause: `${what}: ${one || other ? 'JSON and not JSON' : 'other bytes'}` }
  const changed = [...new Set([...Object.keys(one), ...Object.keys(other)])].filter(
    key => JSON.stringify(one[key]) !== JSON.stringify(other[key]),
  )
  return {
    ...shown,
    cause: `${what}: ${changed.map(key => `.${key}`).join(', ') || 'the same members written otherwise'}`,
  }
}

const logLines = (log: string) => log.split('\n').filter(Boolean)

function lastLine(log: string, isKilled: boolean): string {
  const last = logLines(log).at(-1) ?? ''
  if (!isKilled) return normalised(last)
  const { msg, undelivered } = object(last) ?? {}
  return JSON.stringify({ msg, undelivered })
}

/** Returns the messages of a log with the names of their fields. Lines that are not JSON are kept. */
function messages(log: string): string[] {
  const found = logLines(log).map(line => {
    const entry = object(line)
    if (!entry) return normalised(line)
    const { msg, level, ...fields } = entry
    return `level ${level}: ${msg} (${Object.keys(fields).sort().join(', ')})`
  })
  return [...new Set(found)]
}
