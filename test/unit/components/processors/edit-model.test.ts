// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Sluice, not of the test
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { edit } from '../../../../src/components/processors/edit.js'
import type { EditedField } from '../../../../src/core/event/event-editor.js'
import { parseFieldPath, valueAt } from '../../../../src/core/event/field-path.js'
import { batchOf } from '../../../support/batches.js'
import { collectBytes } from '../../../support/collect-bytes.js'
import { type Edit, edited } from '../../../support/edits.js'
import { Seeded } from '../../../support/seeded.js'
import { loadedStageOf } from '../../../support/stage.js'

type Fields = Record<string, unknown>
type Step = Record<string, unknown>

const PATHS = ['.a', '.b', '.c', '.a.b', '.b.x.y', '.list[0]', '.list', '."x y"']
const VALUES: readonly unknown[] = [
  '',
  'Text',
  ' é😀" ',
  'a,b',
  '12',
  0,
  1.5,
  true,
  null,
  {},
  { b: 1, x: { y: 'Q' } },
  ['a', 1],
]

const at = (object: Fields, path: string) => valueAt(object, parseFieldPath(path).segments)
const textOf = (value: unknown) =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)

class Failed extends Error {}

/** The object after a change that an editor makes too; throws where it cannot be made. */
function changed(object: Fields, what: Edit['what'], path: string, to = path, value: unknown = null): Fields {
  const field = (text: string) => ({ path: parseFieldPath(text) }) as EditedField
  const made = edited(object, { what, field: field(path), to: field(to), value })
  if (made) return made
  if (what === 'set' || (what === 'rename' && at(object, path) !== undefined)) throw new Failed()
  return object
}

function asText(object: Fields, path: string, change: (text: string) => unknown): Fields {
  const value = at(object, path)
  if (value === undefined || value === null) return object
  if (typeof value === 'object') throw new Failed()
  const text = String(value)
  return change(text) === text ? object : changed(object, 'set', path, path, change(text))
}

function kept(value: unknown, paths: readonly (readonly string[])[]): unknown {
  if (paths.some(path => path.length === 0)) return value
  const inner = Object.entries(value as Fields).flatMap(([name, member]) => {
    const rest = paths.filter(path => path[0] === name).map(path => path.slice(1))
    const isObject = typeof member === 'object' && member !== null && !Array.isArray(member)
    if (rest.length === 0 || (!isObject && rest.every(path => path.length > 0))) return []
    return [[name, kept(member, rest)]]
  })
  return Object.fromEntries(inner)
}

/** What a step does with an object, said with plain objects. */
const MODEL: Record<string, (object: Fields, given: never) => Fields> = {
  set: (object, given: Fields) =>
    Object.entries(given).reduce(
      (made, [path, value]) => changed(made, 'set', path, path, filled(made, value)),
      object,
    ),
  default: (object, given: Fields) =>
    Object.entries(given).reduce(
      (made, [path, value]) =>
        at(made, path) === undefined ? changed(made, 'set', path, path, filled(made, value)) : made,
      object,
    ),
  rename: (object, given: Record<string, string>) =>
    Object.entries(given).reduce((made, [path, to]) => changed(made, 'rename', path, to), object),
  copy: (object, given: Record<string, string>) =>
    Object.entries(given).reduce(
      (made, [path, to]) => (at(made, path) === undefined ? made : changed(made, 'set', to, to, at(made, path))),
      object,
    ),
  remove: (object, given: string[]) => given.reduce((made, path) => changed(made, 'remove', path), object),
  keep: (object, given: string[]) =>
    kept(
      object,
      given.map(path => parseFieldPath(path).segments as readonly string[]),
    ) as Fields,
  lower: (object, given: string[]) =>
    given.reduce((made, path) => asText(made, path, text => text.toLowerCase()), object),
  trim: (object, given: string[]) => given.reduce((made, path) => asText(made, path, text => text.trim()), object),
  split: (object, given: Record<string, string>) =>
    Object.entries(given).reduce((made, [path, by]) => asText(made, path, text => text.split(by)), object),
}

/** The value of `set`, with the fields of a template. */
function filled(object: Fields, value: unknown): unknown {
  return typeof value === 'string'
    ? value.replace(/\$\{([^}]*)\}/g, (_, path: string) => textOf(at(object, path)))
    : value
}

function randomStep(random: Seeded): Step {
  const path = () => random.pick(PATHS)
  const name = random.pick(Object.keys(MODEL))
  const count = 1 + random.below(2)
  const byPath = (value: () => unknown) => Object.fromEntries(Array.from({ length: count }, () => [path(), value()]))
  const list = (paths: readonly string[]) => Array.from({ length: count }, () => random.pick(paths))
  const value = () => (random.chance(0.4) ? `<\${${path()}}\${${path()}}>` : random.pick(VALUES))
  const given: Record<string, () => unknown> = {
    set: () => byPath(value),
    default: () => byPath(value),
    rename: () => byPath(path),
    copy: () => byPath(path),
    keep: () => list(PATHS.filter(one => !one.includes('['))),
    split: () => byPath(() => ','),
  }
  const step = { [name]: (given[name] ?? (() => list(PATHS)))() }
  return random.chance(0.2) ? { ...step, when: `if (${path()} exists)` } : step
}

function modelled(object: Fields, steps: readonly Step[]): Fields {
  try {
    return steps.reduce<Fields>((made, { when, ...step }) => {
      if (when && at(made, /\((.*) exists/.exec(when as string)![1]!) === undefined) return made
      const [name, given] = Object.entries(step)[0]!
      return MODEL[name]!(made, given as never)
    }, structuredClone(object))
  } catch (error) {
    if (!(error instanceof Failed)) throw error
    return { ...object, processing_error: 'failed' }
  }
}

t.test('random steps do with the bytes of events what they do with plain objects', async t => {
  const random = new Seeded(4)
  const seen = { failed: 0, unchanged: 0 }
  for (let round = 0; round < 400; round++) {
    const steps = Array.from({ length: 1 + random.below(5) }, () => randomStep(random))
    const { stage, wanted, counters } = await loadedStageOf(edit, { steps })
    // Two members must not be one object, which a clone would keep.
    const value = () => structuredClone(random.pick(VALUES))
    const objects = Array.from({ length: 5 }, () => {
      const entries = ['a', 'b', 'c', 'x y', 'list'].filter(() => random.chance(0.7)).map(name => [name, value()])
      return Object.fromEntries(entries) as Fields
    })
    const lines = objects.map(object =>
      JSON.stringify(object, undefined, random.chance(0.2) ? ' ' : undefined).replaceAll('\n', ' '),
    )
    const batch = batchOf(lines, { wanted })
    if (random.chance(0.3)) batch.modify(1, objects[1]!)
    counters.arrived(batch.length, batch.bytes)
    const out: string[] = []
    await pipeline(Readable.from([batch]), stage, collectBytes(out))
    for (const [i, object] of objects.entries()) {
      const expected = modelled(object, steps)
      const found = JSON.parse(out[i]!) as Fields
      if ('processing_error' in found) found.processing_error = 'failed'
      if ('processing_error' in expected) seen.failed++
      if (out[i] === lines[i]) seen.unchanged++
      if (JSON.stringify(found) === JSON.stringify(expected)) continue
      return t.same(found, expected, `${JSON.stringify(steps)} on ${lines[i]}`)
    }
  }
  t.ok(seen.failed > 50 && seen.failed < 1500 && seen.unchanged > 50, JSON.stringify(seen))
})
