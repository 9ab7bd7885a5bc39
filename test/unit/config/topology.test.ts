import t from 'tap'
import { parseConfig } from '../../../src/config/load.js'
import { ConfigError, formatProblem } from '../../../src/core/errors.js'
import { components as all } from './fake-components.js'

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
    try {
      parseConfig(text, 'c.yaml', { env: {}, components: components as typeof all })
      return []
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return error.problems.map(formatProblem)
    }
  }
  t.same(told(text, 'tape'), [
    'c.yaml:4:3: sources.b: there is one tape only, and a reads it',
    'c.yaml:5:3: sources.c: there is one tape only, and a reads it',
    'c.yaml:5:34: sources.c.folow: unknown option of tail; did you mean "follow"?',
  ])
  t.same(told(text.replace(', folow: true', ''), undefined), [], 'of other types there may be more')
})
