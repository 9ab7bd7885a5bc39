import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { components } from '../../../src/components/list.js'
import { loadConfig } from '../../../src/engine/config/load.js'
import { command } from '../../support/cli.js'
import { testFolder } from '../../support/folder.js'
import { sluice } from '../../support/sluice.js'

const CONFIG = `metrics: false
sources: { app: { type: file, include: [/nowhere/*.log], decode: json } }
destinations: { out: { type: blackhole, inputs: [app] } }
`

t.test('SLUICE_CONFIG is the configuration of commands that get none', async t => {
  const cwd = testFolder(t, { 'a.yaml': CONFIG, 'b.yaml': CONFIG.replaceAll('app', 'web') })
  const env = { SLUICE_CONFIG: 'a.yaml' }
  const call = async (...args: string[]) => await command(args, { cwd, env })
  t.match(await call('validate'), { code: 0, stdout: /^a\.yaml: ok/ })
  t.match(await call('validate', 'b.yaml'), { code: 0, stdout: /^b\.yaml: ok.*\n0 errors/ }, 'an operand comes first')
  t.match(await call('graph'), { code: 0, stdout: /app/ })
  t.match(await call('graph', '--config', 'b.yaml'), { code: 0, stdout: /web/ })
  t.match(await call('explain', '{"app":"cart"}'), { code: 0, stdout: /out/ }, 'the operand is the event')
  t.match(await command(['validate'], { cwd, env: { SLUICE_CONFIG: '' } }), { code: 2, stderr: /FILE is missing/ })
  const gone = { cwd, env: { SLUICE_CONFIG: 'gone.yaml' } }
  for (const name of ['validate', 'run', 'doctor', 'status'])
    t.match(await command([name], gone), { code: 78, stderr: /gone\.yaml:1:1: does not exist; SLUICE_CONFIG names it/ })
  t.match(await command(['validate', 'a.yaml'], gone), { code: 0 }, 'a path that is not used is not looked at')
  t.match((await call('validate', '--help')).stdout, /Default: \$SLUICE_CONFIG\./)
})

t.test('the environment selects the daemon, and no other one is taken in its place', async t => {
  const cwd = testFolder(t, { 'a.yaml': `data_dir: ./mine\n${CONFIG}`, state: { 'sluice.sock': '' } })
  const stderr = async (env: NodeJS.ProcessEnv, ...args: string[]) =>
    (await command(['status', ...args], { cwd, env })).stderr
  const socket = { SLUICE_SOCKET: '/nowhere/sluice.sock' }
  t.match(await stderr(socket), /no daemon at \/nowhere\/sluice\.sock, which SLUICE_SOCKET names/)
  t.match(await stderr({ SLUICE_CONFIG: 'a.yaml' }), /no daemon at .*\/mine\/sluice\.sock/)
  t.match(await stderr({ ...socket, SLUICE_CONFIG: 'a.yaml' }), /\/nowhere\//, 'the socket is more exact')
  t.match(await stderr(socket, '--config', 'a.yaml'), /\/mine\//, 'an option comes first')
  t.match((await command(['resend', '--dry-run'], { cwd, env: socket })).stderr, /no daemon at \/nowhere/)
  t.match(await command(['tap'], { cwd, env: { SLUICE_CONFIG: 'a.yaml' } }), { code: 2, stderr: /app {2,}source/ })
})

t.test('a configuration in the XDG folder has its state in the XDG folder', async t => {
  const dataDir = (path: string, env: Record<string, string>) =>
    loadConfig(path, { env, components, onThisMachine: true }).dataDir
  const home = testFolder(t, {
    '.config': { sluice: { 'sluice.yaml': CONFIG, 'web.yaml': CONFIG, 'set.yaml': `data_dir: /srv/x\n${CONFIG}` } },
    work: { 'sluice.yaml': CONFIG },
    xdg: { sluice: { 'sluice.yaml': CONFIG } },
  })
  const own = (name: string) => join(home, '.config/sluice', name)
  const state = join(home, '.local/state/sluice')
  const [other, xdg] = [join(process.cwd(), 'state'), join(home, 'xdg/sluice/sluice.yaml')]
  for (const [path, env, expected] of [
    [own('sluice.yaml'), { HOME: home }, state],
    [own('web.yaml'), { HOME: home }, `${state}@web`],
    [own('set.yaml'), { HOME: home }, '/srv/x'],
    [own('sluice.yaml'), { HOME: home, XDG_STATE_HOME: '/srv/state' }, '/srv/state/sluice'],
    [own('sluice.yaml'), { HOME: home, XDG_STATE_HOME: 'relative' }, state],
    [own('sluice.yaml'), { HOME: home, STATE_DIRECTORY: '/var/lib/a:/var/lib/b' }, '/var/lib/a'],
    [own('sluice.yaml'), {}, other],
    [own('sluice.yaml'), { HOME: home, XDG_CONFIG_HOME: join(home, 'xdg') }, other],
    [xdg, { HOME: home, XDG_CONFIG_HOME: join(home, 'xdg') }, state],
    [xdg, { HOME: home }, other],
    [join(home, 'work/sluice.yaml'), { HOME: home }, other],
  ] as const)
    t.equal(dataDir(path, env as never), expected, `${path} ${JSON.stringify(env)}`)
})

t.test("a user's own daemon is found without an option", async t => {
  const home = testFolder(t, { '.config': { sluice: { 'sluice.yaml': CONFIG } } })
  const env = { HOME: home, XDG_CONFIG_HOME: '', XDG_STATE_HOME: '' }
  const daemon = sluice(['run'], {
    cwd: home,
    env: { ...env, SLUICE_CONFIG: join(home, '.config/sluice/sluice.yaml') },
  })
  t.teardown(() => daemon.child.kill('SIGKILL'))
  await daemon.until(() => daemon.stderr.includes('"msg":"started"') || daemon.stderr.includes('did not find any'))
  const { stdout, stderr } = await command(['status'], { env, cwd: home })
  t.match(stdout, /^app \(file\)/m, stderr)
  t.same(readdirSync(home), ['.config', '.local'])
  daemon.child.kill('SIGTERM')
  t.equal(await daemon.exit, 0)
})

t.test('help and the manual page name each variable of the source', async t => {
  const folder = new URL('../../../src/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(name => /\.[jt]s$/.test(name))
  const texts = files.map(name => readFileSync(new URL(name, folder), 'utf8'))
  const used = texts.flatMap(text => [
    ...text.matchAll(/(?:env\.|pathIn\(')((?:SLUICE|XDG|NO)_[A-Z_]+|[A-Z]+_DIRECTORY)/g),
  ])
  const names = [...new Set(used.map(([, name]) => name!)), 'XDG_CONFIG_HOME', 'XDG_STATE_HOME']
  t.ok(names.includes('SLUICE_SOCKET') && names.includes('SLUICE_CONFIG'))
  const [{ stdout: help }, { stdout: man }] = [await command(['help', 'more']), await command(['docs', 'man'])]
  for (const name of names.filter(name => name !== 'NO_PROXY')) {
    t.match(help, new RegExp(`^ {2}.*\\b${name}\\b`, 'm'), name)
    t.match(man, new RegExp(`^\\\\fB(?:.* )?${name}\\b`, 'm'), name)
  }
})
