import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testFolder } from '../../support/folder.js'
import { sluice } from '../../support/sluice.js'

t.test('without a package that npm may leave out, validate and run say what to install', async t => {
  const hide = (hidden: string) => `export const resolve = (name, context, next) => {
    const text = "Cannot find package '" + name + "' imported from here"
    if (new RegExp('^(${hidden})').test(name)) throw Object.assign(new Error(text), { code: 'ERR_MODULE_NOT_FOUND' })
    return next(name, context)
  }`
  const moduleOf = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  const register = (hidden: string) =>
    `import { register } from 'node:module'; register(${JSON.stringify(moduleOf(hide(hidden)))})`
  const text = `data_dir: data
sources: { in: { type: stdin } }
destinations:
  kafka: { type: kafka, inputs: [in], brokers: [localhost], topic: logs }
  loki: { type: loki, inputs: [in], url: http://127.0.0.1:1, labels: { a: b }, compression: snappy }
service: { store: { type: postgresql, url: 'postgresql://sluice@127.0.0.1/sluice', password_file: /nowhere } }
`
  const folder = testFolder(t, {
    'sluice.yaml': text,
    'hide.mjs': register('@platformatic/|pg$'),
    'part.mjs': register('ajv'),
  })
  const env = { NODE_OPTIONS: `--import=${join(folder, 'hide.mjs')}` }
  const problems = [
    /sluice\.yaml:4:\d+: destinations\.kafka\.type: needs the package .*: run "npm install @platformatic\/kafka@1/,
    /sluice\.yaml:5:\d+: destinations\.loki\.compression: needs the package .*: run "npm install @platformatic\/wasm-utils@/,
    /sluice\.yaml:6:\d+: service\.store\.type: needs the package .*: run "npm install pg@8/,
    /sluice\.yaml:6:\d+: service\.store\.password_file: warning: \/nowhere does not exist here/,
  ]
  const validate = sluice(['validate', 'sluice.yaml'], { cwd: folder, env })
  t.equal(await validate.exit, 78)
  for (const problem of problems) t.match(validate.stderr, problem)
  for (const [i, name] of ['kafka', 'loki'].entries()) {
    const other = name === 'kafka' ? 'loki' : 'kafka'
    writeFileSync(join(folder, 'one.yaml'), text.replace(new RegExp(`  ${other}: .*\n`), ''))
    const run = sluice(['run', 'one.yaml'], { cwd: folder, env })
    t.equal(await run.exit, 78)
    t.match(run.stderr, new RegExp(problems[i]!.source.replace(/^.*?: /, '')))
    if (name !== 'kafka') continue
    const part = sluice(['run', 'one.yaml'], {
      cwd: folder,
      env: { NODE_OPTIONS: `--import=${join(folder, 'part.mjs')}` },
    })
    t.equal(await part.exit, 78)
    t.match(part.stderr, /type: cannot load @platformatic\/kafka: Cannot find package 'ajv/)
  }
})
