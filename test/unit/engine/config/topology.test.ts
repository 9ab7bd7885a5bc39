import t from 'tap'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { components as all } from './fake-components.js'
import { problemsOf } from '../../../support/problems.js'

t.test('a second source of what there is one of', async t => {
  const text = `
sources:
  a: { type: tail, include: [a] }
  b: { type: tail, include: [b] }
  c: { type: tail, include: [c], folow: true }
destinations: { out: { type: keep, inputs: [a, b, c], path: p } }
`
  const told = (text: string, single: string | undefined) => {
    const components = all.map(definition => (definition.kind === 'source' ? { ...definition, single } : definition))
    return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components: components as typeof all }))
  }
  t.same(told(text, 'tape'), [
    'c.yaml:4:3: sources.b: there is one tape only, and a reads it',
    'c.yaml:5:3: sources.c: there is one tape only, and a reads it',
    'c.yaml:5:34: sources.c.folow: unknown option of tail; did you mean "follow"?',
  ])
  t.same(told(text.replace(', folow: true', ''), undefined), [], 'of other types there may be more')
})

t.test('copies of one event', async t => {
  const told = (filters: string[], inputs: string) => {
    const text = [
      'sources: { in: { type: tail, include: [a] } }',
      'processors:',
      ...filters.map(line => `  ${line}`),
      `destinations: { out: { type: keep, inputs: [${inputs}], path: p } }`,
    ].join('\n')
    return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components: all }))
  }
  /** Each level reads the two above it. */
  const diamond = (levels: number) =>
    Array.from({ length: levels }, (_, i) => {
      const inputs = [i > 1 ? `f${i - 2}` : 'in', ...(i > 0 ? [`f${i - 1}`] : [])]
      return `f${i}: { type: pass, inputs: [${inputs}] }`
    })
  t.same(told(diamond(10), 'f9'), [])
  t.match(told(diamond(24), 'f23'), [
    /^c\.yaml:1:12: sources\.in: one of its events would be copied \d{6} times \(at most 1000 are allowed\), .*: f1, f2, f3, .*; remove inputs/,
  ])
  t.match(told(diamond(100), 'f99'), [/copied more than 10\^12 times/], 'the number does not overflow')
  const wide = Array.from({ length: 400 }, (_, i) => `f${i}: { type: pass, inputs: [in] }`)
  t.same(told(wide, wide.map((_, i) => `f${i}`).join(', ')), [], 'many routes side by side are fine')
})
