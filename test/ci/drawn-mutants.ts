import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from '../support/checkout.js'
import type { Seeded } from '../support/seeded.js'

export interface Place {
  readonly file: string
  readonly text: string
  readonly by: string
}

/** What is changed where: comparisons, conditions, sums by one, and calls that are left out. */
const RULES: readonly (readonly [pattern: RegExp, by: string])[] = [
  [/ <= /g, ' < '],
  [/ >= /g, ' > '],
  [/ < /g, ' <= '],
  [/ > /g, ' >= '],
  [/ === /g, ' !== '],
  [/ !== /g, ' === '],
  [/ && /g, ' || '],
  [/ \|\| /g, ' && '],
  [/ \+ 1\b/g, ''],
  [/ - 1\b/g, ''],
  [/ \+= /g, ' -= '],
  [/ -= /g, ' += '],
  [/ (= |return )true\b/g, ' $1false'],
  [/ (= |return )false\b/g, ' $1true'],
  [/\bMath\.min\(/g, 'Math.max('],
  [/\bMath\.max\(/g, 'Math.min('],
  [/\bif \((?=[\w.#!?()]+\))/g, 'if (!'],
  [/(?<=^\s+)(await |void )?(?!super\b)[a-z][\w.#!?]*\([^()]*(\([^()]*\)[^()]*)*\)$/g, ''],
]

/** Draws places at which a small change can be made. */
export function drawn(files: readonly string[], count: number, seeded: Seeded): Place[] {
  const places = files.flatMap(placesOf)
  return Array.from({ length: Math.min(count, places.length) }, () => places.splice(seeded.below(places.length), 1)[0]!)
}

function placesOf(file: string): Place[] {
  const source = readFileSync(join(checkout, file), 'utf8')
  const lines = source.split('\n')
  return lines.flatMap((line, n) => {
    if (/^\s*(\/\/|\/?\*)|^(import|export (type|interface)|interface|type)\b|\b(log|metrics)\.|gauge\(/.test(line))
      return []
    return RULES.flatMap(([pattern, by]) =>
      [...line.matchAll(pattern)].map(({ index }): Place => {
        const here = new RegExp(pattern.source, 'y')
        here.lastIndex = index
        const changed = line.replace(here, by)
        // As many lines before it as make the text unique.
        let first = n
        const text = (last: string) => [...lines.slice(first, n), last].join('\n').trimStart()
        while (first > 0 && source.split(text(line)).length > 2) first--
        return { file, text: text(line), by: text(changed) }
      }),
    )
  })
}
