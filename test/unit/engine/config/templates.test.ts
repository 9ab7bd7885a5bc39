// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration, not of the test
import t from 'tap'
import { z } from 'zod'
import { defineProcessor } from '../../../../src/core/component.js'
import { type Template, template } from '../../../../src/core/template.js'
import { parseConfig, parseDocument } from '../../../../src/engine/config/load.js'
import { problemsOf } from '../../../support/problems.js'
import { components } from './fake-components.js'

const value = z.union([template(), z.number()])
const label = defineProcessor({
  type: 'label',
  summary: 'Labels.',
  options: z.strictObject({
    name: template().describe('A template.'),
    plain: z.string().optional().describe('No template.'),
    steps: z
      .array(z.union([z.strictObject({ set: z.record(z.string(), value) }), z.strictObject({ note: z.string() })]))
      .default([])
      .describe('Templates further in.'),
  }),
  examples: [{ title: 'One', yaml: 'name: x\n' }],
  create: () => ({ process() {} }),
})

interface LabelOptions {
  readonly name: Template
  readonly plain?: string
  readonly steps: readonly { readonly set: Record<string, Template | number> }[]
}

const text = (...options: string[]) =>
  [
    'sources: { in: { type: tail, include: [a] } }',
    'destinations: { out: { type: keep, inputs: [lab], path: p } }',
    'processors:',
    '  lab:',
    ...['type: label', 'inputs: [in]', ...options].map(option => `    ${option}`),
    '',
  ].join('\n')

const all = [...components, label]

const optionsOf = (env: NodeJS.ProcessEnv, ...options: string[]) =>
  parseConfig(text(...options), 'c.yaml', { env, components: all }).processors[0]!.options as LabelOptions

const problems = (...options: string[]) => problemsOf(() => optionsOf({ APP: 'cart' }, ...options))

const shown = ({ parts }: Template) => parts.map(part => (typeof part === 'string' ? part : [part.path.text]))

t.test('fields stay in a template, beside the environment', async t => {
  const cases: readonly (readonly [yaml: string, parts: unknown[]])[] = [
    ["'${.host}-${.app:-x}'", [['.host'], '-', ['.app']]],
    ['${.host}', [['.host']]],
    ['${APP}-${.host}', ['cart-', ['.host']]],
    ['a $${.host} $${APP}', ['a ${.host} ${APP}']],
    ['${ODD}/${.host}', ['${.host}/', ['.host']]],
    ['${ODD}', ['${.host}']],
    ['"${.a:-${APP}}"', [['.a']]],
  ]
  const env = { APP: 'cart', ODD: '${.host}' }
  for (const [yaml, parts] of cases) t.same(shown(optionsOf(env, `name: ${yaml}`).name), parts, yaml)
  const { steps } = optionsOf(env, 'name: x', 'steps: [{ set: { a: ${.b}, c: 5 } }]')
  t.match(steps, [{ set: { a: { parts: [{ path: { text: '.b' } }] }, c: 5 } }], 'in brackets, without quotes')
  t.equal(optionsOf(env, 'name: x', 'plain: $${.host}').plain, '${.host}', 'elsewhere $${ is as it was')
})

t.test('where no template is, a field is an error at its place, and so is what is wrong with a template', async t => {
  const same = 'stands for the value of a field, but this option is the same for all events; write $${ for "${" itself'
  t.same(problems('name: x', 'plain: "a${.b}"'), [`c.yaml:8:12: processors.lab.plain: \${.b} ${same}`])
  t.same(problems('name: x', 'steps: [{ note: "${.b:-c}" }]'), [
    `c.yaml:8:21: processors.lab.steps[0].note: \${.b:-c} ${same}`,
  ])
  const unset = (name: string) =>
    `the environment variable ${name} is not set; set it, or give a default: \${${name}:-default}`
  t.same(problems('name: ${app}'), [
    `c.yaml:7:11: processors.lab.name: ${unset('app')}`,
    'c.yaml:7:11: processors.lab.name: if app is a field of the event, write ${.app}',
  ])
  t.same(problems('name: ${APP_NAME}'), [`c.yaml:7:11: processors.lab.name: ${unset('APP_NAME')}`])
  t.same(problems('name: x', 'plain: ${app}'), [`c.yaml:8:12: processors.lab.plain: ${unset('app')}`])
  t.match(problems('name: "${.a b}"'), [/^c.yaml:7:11: processors.lab.name: expected "}" or ":-" .* \(column 5 of the/])
})

t.test('in a document that is taken literally, a template is what it says', async t => {
  const document = {
    sources: { in: { type: 'tail', include: ['a'] } },
    processors: { lab: { type: 'label', inputs: ['in'], name: '${.a} $${.b}' } },
    destinations: { out: { type: 'keep', inputs: ['lab'], path: 'p' } },
  }
  for (const adapt of [undefined, (text: string) => text]) {
    const { processors } = parseDocument(document, 'd', { env: {}, components: all, adapt })
    t.same(shown((processors[0]!.options as LabelOptions).name), [['.a'], ' ${.b}'])
  }
})
