import { inspect, isDeepStrictEqual } from 'node:util'
import { sleep } from '../../lib/time.js'
import { parseYaml } from '../config/yaml/load-yaml.js'
import { toValue } from '../config/yaml/node.js'
import { Problems } from '../config/yaml/problems.js'

/** Time limit for operations that should finish at once. */
const PATIENCE_MS = 30_000
const LONGEST_SHOWN = 2000

export class Findings {
  readonly list: string[] = []

  ok(holds: boolean, what: string): void {
    if (!holds) this.list.push(what)
  }

  same(found: unknown, wanted: unknown, what: string): void {
    if (isDeepStrictEqual(found, wanted)) return
    if (Array.isArray(found) && Array.isArray(wanted)) {
      const at = wanted.findIndex((value, i) => !isDeepStrictEqual(value, found[i]))
      if (at >= 0 && at < found.length) {
        this.same(found[at], wanted[at], `${what}, number ${at} of ${found.length}`)
        return
      }
    }
    const shown = (value: unknown) => inspect(value, { depth: 8, breakLength: 110 }).slice(0, LONGEST_SHOWN)
    this.list.push(`${what}: found ${shown(found)}, expected ${shown(wanted)}`)
  }
}

/** Runs `work` and returns the violations, each after `title`. An error or timeout of `work` is a violation too. */
export async function findingsOf(title: string, work: (found: Findings) => unknown): Promise<string[]> {
  const found = new Findings()
  const over = new AbortController()
  const late = sleep(PATIENCE_MS, over.signal).then(() => {
    throw new Error(`did not end within ${PATIENCE_MS / 1000} seconds`)
  })
  try {
    await Promise.race([work(found), late])
  } catch (error) {
    found.list.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  } finally {
    late.catch(() => {})
    over.abort()
  }
  return found.list.map(text => `${title}: ${text}`)
}

/** Waits until `test` returns true. Throws if that takes too long. */
export async function until(test: () => boolean, what: string): Promise<void> {
  for (let waited = 0; !test(); waited += 5) {
    if (waited > PATIENCE_MS) throw new Error(`${what}: did not happen within ${PATIENCE_MS / 1000} seconds`)
    await sleep(5)
  }
}

export function optionsOf(yaml: string): object {
  const problems = new Problems()
  const root = parseYaml(yaml, 'example')(process.env, problems)
  const [problem] = problems.list()
  if (problem) throw new Error(`the YAML of an example: ${problem.message}`)
  return root ? (toValue(root) as object) : {}
}
