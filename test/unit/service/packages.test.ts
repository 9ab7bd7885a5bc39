import { join } from 'node:path'
import t from 'tap'
import { installCommand } from '../../../src/service/packages.js'
import { testFolder } from '../../support/folder.js'
import { sluice } from '../../support/sluice.js'

t.test('without the packages of the service, validate, serve and admin say how to install them', async t => {
  const hide = (hidden: string) => `export const resolve = (name, context, next) => {
    const text = "Cannot find package '" + name + "' imported from here"
    if ('${hidden}'.split(' ').includes(name)) throw Object.assign(new Error(text), { code: 'ERR_MODULE_NOT_FOUND' })
    return next(name, context)
  }`
  const moduleOf = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  const register = (hidden: string) =>
    `import { register } from 'node:module'; register(${JSON.stringify(moduleOf(hide(hidden)))})`
  const folder = testFolder(t, {
    'one.yaml': 'metrics: false\nservice: { data_dir: ./service }\n',
    'nodes.yaml':
      "metrics: false\nservice: { store: { type: postgresql, url: 'postgresql://sluice@127.0.0.1/sluice', password_file: /nowhere } }\n",
    'hide.mjs': register('fastify pg @photostructure/sqlite'),
  })
  const env = { NODE_OPTIONS: `--import=${join(folder, 'hide.mjs')}` }
  const sqlite = process.versions.node.startsWith('20.') ? ' and @photostructure/sqlite' : ''
  for (const [args, packages] of [
    [['validate', 'one.yaml'], `fastify${sqlite}`],
    [['serve', '--config', 'one.yaml'], `fastify${sqlite}`],
    [['admin', 'init', '--config', 'one.yaml'], `fastify${sqlite}`],
    [['validate', 'nodes.yaml'], 'fastify and pg'],
    [['serve', '--config', 'nodes.yaml'], 'fastify and pg'],
  ] as const) {
    const run = sluice([...args], { cwd: folder, env })
    t.equal(await run.exit, 78, args.join(' '))
    t.match(run.stderr, new RegExp(`service: needs ${packages}, which (is|are) not installed: run "npm install `))
  }
})

t.test('the command that installs packages is for the place where sluice is installed', async t => {
  const folder = testFolder(t, { 'a b': { lib: { 'package.json': '{}' } } })
  const own = 'node_modules/@sluice-logs/sluice'
  const names = ['fastify', 'pg']
  const commands = [
    ['/opt/node/lib', '--global --prefix /opt/node fastify@5 pg@8'],
    ['/srv/app', '--prefix /srv/app fastify@5 pg@8'],
    [join(folder, 'a b/lib'), `--prefix '${join(folder, 'a b/lib')}' fastify@5 pg@8`],
  ] as const
  for (const [top, wanted] of commands) t.equal(installCommand(names, join(top, own)), `npm install ${wanted}`)
  t.equal(installCommand(names, '/home/user/sluice'), 'npm install --prefix /home/user/sluice')
})
