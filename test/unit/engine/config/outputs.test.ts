import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { z } from 'zod'
import { components } from '../../../../src/components/list.js'
import { defineProcessor } from '../../../../src/core/component.js'
import type { Plan } from '../../../../src/core/processor.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { testFolder } from '../../../support/folder.js'
import { madeUp } from '../../../support/made-up.js'
import { problemsOf } from '../../../support/problems.js'
import { components as all } from './fake-components.js'

const SOURCES = 'sources:\n  in: { type: stdin }\ndestinations:\n'

/** What is wrong with destinations that write to these files, a line each. */
function problemsAt(paths: readonly string[], onThisMachine = true, more = ''): string[] {
  const destinations = paths.map((path, n) => `  d${n}: { type: file, inputs: [in], path: ${JSON.stringify(path)} }\n`)
  const text = more + SOURCES + (destinations.join('') || '  out: { type: blackhole, inputs: [in] }\n')
  return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components, onThisMachine }))
}

t.test('two destinations on one file are refused, whatever their paths look like', async t => {
  const folder = testFolder(t, { 'a.log': '', real: {} })
  const at = (name: string) => join(folder, name)
  linkSync(at('a.log'), at('hard.log'))
  symlinkSync('real', at('linked'))
  symlinkSync('real/later.log', at('dangling.log'))
  t.same(problemsAt(['out.log', './x/../out.log'], false), [
    'c.yaml:5:41: destinations.d1.path: the destination d0 writes to the same file as out.log at c.yaml:4:41; two destinations need two files',
  ])
  t.match(problemsAt(['out.log', 'out.log'], false)[0], /writes to this file at c\.yaml:4:41/)
  const same = [
    ['a.log', 'hard.log'],
    ['linked/new.log', 'real/new.log'],
    ['dangling.log', 'real/later.log'],
    ['linked/a/b.log', 'real/./a//b.log'],
  ] as const
  for (const [one, other] of same) {
    t.match(problemsAt([at(one), at(other)]), [/destinations\.d1\.path: the destination d0 writes to the same file as/])
    t.same(problemsAt([at(one), at(other)], false), [], 'for another machine nothing is looked up here')
  }
  t.same(problemsAt([at('a.log'), at('real/a.log'), at('linked/b.log')]), [], 'different files')
})

t.test('what exists must be a regular file', async t => {
  const folder = testFolder(t)
  execFileSync('mkfifo', [join(folder, 'fifo')])
  mkdirSync(join(folder, 'folder'))
  writeFileSync(join(folder, 'file'), '')
  t.match(problemsAt([join(folder, 'fifo')]), [
    /^c\.yaml:4:\d+: destinations\.d0\.path: .*cannot be written: it is a FIFO/,
  ])
  t.match(problemsAt([join(folder, 'folder')]), [/it is a folder; name a file in it/])
  t.match(problemsAt(['/proc/no/such.log']), [/\/proc belongs to the kernel \(proc\), and files cannot be kept there/])
  t.match(problemsAt(['/dev/null']), [/it is a device, .*blackhole/])
  t.match(problemsAt([join(folder, 'file/new/x')]), [/cannot be written: .*file is not a folder/])
  t.same(problemsAt([join(folder, 'file'), join(folder, 'new/file')]), [])
})

t.test('data_dir is a folder that can keep files', async t => {
  const path = join(testFolder(t, { file: '' }), 'file')
  t.match(problemsAt([], true, `data_dir: ${path}\n`), [
    /^c\.yaml:1:11: data_dir: .*cannot be used: it is not a folder/,
  ])
  t.match(problemsAt([], true, `data_dir: ${path}/state\n`), [/data_dir: .*cannot be used: .*file is not a folder/])
  t.match(problemsAt([], true, 'data_dir: /proc/sluice\n'), [/^c\.yaml:1:11: data_dir: .*belongs to the kernel/])
  t.same(problemsAt([], true, `data_dir: ${path}-new/deep\n`), [])
})

t.test('a source that reads what comes of its own events', async t => {
  const folder = testFolder(t, { logs: {}, 'in.log': '' })
  symlinkSync('logs', join(folder, 'linked'))
  const at = (name: string) => join(folder, name)
  const check = (include: string, path: string, more = '', inputs = '[limit.discarded]') => {
    const text = `sources:
  in: { type: file, include: [${at(include)}]${more} }
  other: { type: stdin }
processors: { limit: { type: throttle, inputs: [in], limit: 1, window: 1s } }
destinations:
  out: { type: file, inputs: ${inputs}, path: ${at(path)} }
  rest: { type: blackhole, inputs: [in, other, limit] }
`
    return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components, onThisMachine: true }), { warns: true })
  }
  const refused =
    /^c\.yaml:6:\d+: destinations\.out\.path: the source in would read .*, so every event would be .*the include at c\.yaml:2:\d+/
  t.match(check('logs/*.log', 'logs/out.log'), [refused])
  t.match(check('**/*.log', 'logs/../logs/out.log'), [refused])
  t.match(check('linked/*.log', 'logs/out.log'), [refused], 'over a link in the pattern')
  t.match(check('logs/*.log', 'linked/out.log'), [refused], 'over a link in the path')
  t.match(check('logs/*.log', 'logs/out.log', '', '[other, in]'), [refused])
  t.same(check('logs/*.log', 'logs/out.log', '', '[other]'), [], 'it may read what comes of other sources')
  t.same(check('logs/*.log', 'logs/out.log', ", exclude: ['out.log*']"), [])
  t.same(check('logs/*.log', 'out.log'), [])
  t.same(check('in.log', 'out.log'), [])
  t.match(check('logs/*', 'logs/out.log', ', exclude: [out.log]'), [
    /^c\.yaml:6:\d+: destinations\.out\.path: once this file is rotated, the source in would read it again as .*out\.log\.1: add out\.log\* to/,
  ])
})

t.test(
  'the outputs and reasons of a processor fit into the column of decisions, and have names of their own',
  async t => {
    const names = (count: number) => Array.from({ length: count }, (_, i) => `n${i}`)
    const problemsWith = (plan: Plan) => {
      const route = defineProcessor({
        type: 'route',
        ...madeUp('Routes.'),
        options: z.strictObject({ routes: z.number() }),
        plan: () => plan,
        create: () => ({ process() {} }),
      })
      const text = `sources: { in: { type: stdin } }
processors:
  by_level: { type: route, inputs: [in], routes: 1 }
destinations:
  out: { type: blackhole, inputs: [by_level${plan.outputs ? `.${plan.outputs[0]}` : ''}] }
`
      return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components: [...components, route] }), {
        warns: true,
      })
    }
    const most = problemsWith({ outputs: names(127), reasons: names(124) })
    t.same(
      most.filter(problem => !problem.includes('unrouted')),
      [],
    )
    t.same(problemsWith({ outputs: names(128), option: 'routes' }), [
      'c.yaml:3:42: processors.by_level.routes: makes 128 outputs, and a processor can have at most 127; divide them among several processors',
    ])
    t.match(problemsWith({ reasons: names(125) }), [
      /^c\.yaml:3:3: processors\.by_level: makes 125 discard reasons, .* at most 124/,
    ])
    t.match(problemsWith({ outputs: ['a', 'b', 'a'] }), [/makes two outputs named a; rename one of them/])
    t.match(problemsWith({ outputs: ['discarded'] }), [/makes an output named discarded/])
  },
)

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
    /^c\.yaml:1:12: sources\.in: one of its events would be copied \d{6} times \(at most 1000 are allowed\), .*: f1, f2, f3, .*\. Remove inputs/,
  ])
  t.match(told(diamond(100), 'f99'), [/copied more than 10\^12 times/], 'the number does not overflow')
  const wide = Array.from({ length: 400 }, (_, i) => `f${i}: { type: pass, inputs: [in] }`)
  t.same(told(wide, wide.map((_, i) => `f${i}`).join(', ')), [], 'many routes side by side are fine')
})
