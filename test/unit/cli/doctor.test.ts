import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { forUser } from '../../../src/cli/doctor/access.js'
import { makeCertificates } from '../../support/certificates.js'
import { sluiceMain } from '../../support/checkout.js'
import { command } from '../../support/cli.js'
import { KEY, receiver } from '../../support/destination.js'
import { testFolder } from '../../support/folder.js'
import { needs } from '../../support/needs.js'

const NOBODY = 65_534
const isRoot = process.getuid?.() === 0

/** A systemctl that knows one unit. It reads drop-ins of the folder, and obeys the commands that doctor prints. */
const SYSTEMCTL = `#!/bin/sh
cd "$(dirname "$0")/.."
case $1 in
  show | cat) [ "$2" = sluice ] || exit 0; [ $1 = cat ] && cat options 2>/dev/null || cat unit; cat units/sluice.service.d/*.conf 2>/dev/null; true ;;
  daemon-reload) sed -i s/NeedDaemonReload=yes/NeedDaemonReload=no/ unit ;;
  restart) sed -i 's/ActiveState=.*/ActiveState=active/' unit ;;
  enable) sed -i s/=disabled/=enabled/ unit ;;
esac
`
const TIMEDATECTL = `#!/bin/sh
cd "$(dirname "$0")/.."
[ "$1" = show ] && cat synchronized || echo yes > synchronized
`
const UNIT = {
  Id: 'sluice.service',
  LoadState: 'loaded',
  ActiveState: 'active',
  Result: 'success',
  UnitFileState: 'enabled',
  MainPID: '0',
  NeedDaemonReload: 'no',
  User: 'nobody',
  DynamicUser: 'no',
  ProtectSystem: 'no',
  ProtectHome: 'no',
  PrivateTmp: 'no',
  MemoryDenyWriteExecute: 'no',
  LimitNOFILE: '65536',
  MemoryMax: 'infinity',
  TriggeredBy: '',
  Type: 'notify',
  NotifyAccess: 'all',
}

interface Finding {
  readonly area: string
  readonly what: string
  readonly commands?: readonly string[]
}

/** A machine with a unit, a user, a configuration, and programs that only this test uses. */
class Machine {
  readonly folder: string
  readonly #env: NodeJS.ProcessEnv

  constructor(t: Test, unit: Partial<typeof UNIT> & Record<string, string> = {}) {
    this.folder = testFolder(t, {
      bin: { systemctl: SYSTEMCTL, timedatectl: TIMEDATECTL },
      synchronized: 'yes\n',
      logs: { 'a.log': '{"app":"a"}\n' },
      state: {},
    })
    for (const name of ['systemctl', 'timedatectl']) chmodSync(join(this.folder, 'bin', name), 0o755)
    this.own('state', 0o700)
    const all = { ...UNIT, ExecStart: `{ argv[]=env sluice run --config ${this.path('sluice.yaml')} ; }`, ...unit }
    this.write(
      'unit',
      Object.entries(all)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    )
    this.#env = { PATH: `${join(this.folder, 'bin')}${delimiter}${process.env.PATH}` }
  }

  path(name: string): string {
    return join(this.folder, name)
  }

  write(name: string, text: string, mode = 0o644): string {
    writeFileSync(this.path(name), text)
    chmodSync(this.path(name), mode)
    return this.path(name)
  }

  /** Gives a file to the user of the daemon. */
  own(name: string, mode: number): void {
    chownSync(this.path(name), NOBODY, NOBODY)
    chmodSync(this.path(name), mode)
  }

  config(document: object): void {
    this.write('sluice.yaml', JSON.stringify({ metrics: false, data_dir: this.path('state'), ...document }))
  }

  async findings(): Promise<Finding[]> {
    const { stdout, stderr, code } = await command(['doctor', '--json', this.path('sluice.yaml')], { env: this.#env })
    if (stdout === '') throw new Error(stderr)
    const { findings } = JSON.parse(stdout) as { findings: Finding[] }
    if ((code === 0) !== (findings.length === 0)) throw new Error(`exit code ${code}`)
    return findings
  }

  /** Runs commands as printed, except that units are in the folder. */
  run(commands: readonly string[]): void {
    for (const line of commands) {
      const here = line.replaceAll('/etc/systemd/system', this.path('units'))
      execFileSync('sh', ['-c', here], { env: { ...process.env, ...this.#env }, stdio: 'pipe' })
    }
  }
}

/** Asserts that each fault is found once, and nothing else. Returns the commands of each. */
function same(t: Test, found: readonly Finding[], expected: Record<string, RegExp>): void {
  const left = [...found]
  for (const [area, what] of Object.entries(expected)) {
    const at = left.findIndex(
      one => one.area === area.split(' ')[0] && what.test(`${one.what}\n${one.commands?.join('\n')}`),
    )
    t.ok(at >= 0, `${area}: ${what}`)
    if (at >= 0) left.splice(at, 1)
  }
  t.same(left, [], 'and nothing else')
}

const look = ['-e', `require('node:fs').accessSync(${JSON.stringify(import.meta.filename)})`]
const mayRun = isRoot && spawnSync(process.execPath, look, { uid: NOBODY, gid: NOBODY }).status === 0
const onMachine = { skip: mayRun ? false : 'needs root, and a node and a checkout that other users may read' }
const file = (include: string) => ({ type: 'file', include: [include], decode: 'json' })

t.test('nothing is found where nothing is wrong', onMachine, async t => {
  const machine = new Machine(t)
  machine.config({
    sources: { a: file(machine.path('logs/*.log')) },
    destinations: { out: { type: 'blackhole', inputs: ['a'] } },
  })
  t.same(await machine.findings(), [])
  const { stdout, code } = await command(['doctor', machine.path('sluice.yaml')])
  t.equal(code, 0)
  t.match(stdout, /: 0 findings\nNothing is wrong with: configuration, paths, /)
})

t.test('faults of permissions, of the unit and of the machine, and the commands that mend them', onMachine, async t => {
  const unit = {
    ActiveState: 'failed',
    Result: 'oom-kill',
    UnitFileState: 'disabled',
    NeedDaemonReload: 'yes',
    LimitNOFILE: '99',
  }
  const limits = {
    MemoryMax: '100000000',
    NotifyAccess: 'main',
    MemoryDenyWriteExecute: 'yes',
    ProtectSystem: 'strict',
  }
  const machine = new Machine(t, { ...unit, ...limits })
  const make = (name: string) => mkdirSync(machine.path(name), { recursive: true })
  for (const name of ['closed', 'out', 'state/dead-letter']) make(name)
  machine.write('synchronized', 'no\n')
  machine.write('logs/private.log', '{}\n', 0o600)
  machine.write('logs/adm.txt', '{}\n', 0o640)
  chownSync(machine.path('logs/adm.txt'), 0, 4)
  machine.write('closed/x.log', '{}\n')
  chmodSync(machine.path('closed'), 0o700)
  machine.write('key', KEY, 0o600)
  const to = await receiver(t)
  const sources = {
    private: file(machine.path('logs/private.log')),
    group: file(machine.path('logs/adm.txt')),
    closed: file(machine.path('closed/*.log')),
    late: file(machine.path('logs/late.log')),
  }
  const inputs = Object.keys(sources)
  machine.config({
    sources,
    destinations: {
      up: {
        type: 'http',
        inputs,
        buffer: { type: 'memory' },
        url: to.url(),
        auth: { type: 'bearer', key_file: machine.path('key') },
      },
      copy: { type: 'file', inputs, path: machine.path('out/copy.log') },
      big: { type: 'http', inputs, url: to.url(), buffer: { type: 'disk', max_bytes: '1000000GB' } },
    },
  })
  const found = await machine.findings()
  same(t, found, {
    'paths 1': /private\.log \(EACCES\).*chmod g\+r/s,
    'paths 2': /adm\.txt \(EACCES\).*SupplementaryGroups=adm/s,
    'paths 3': /closed.*chmod g\+rx/s,
    'paths 4': /key cannot be read by nobody.*chown nobody/s,
    'paths 5': /cannot write .*copy\.log.*chmod g\+wx/s,
    configuration: /late\.log matches no file now/,
    'unit 1': /sluice\.service is failed \(oom-kill\)/,
    'unit 2': /does not start with the machine/,
    'unit 3': /systemd has not read it/,
    'unit 4': /MemoryDenyWriteExecute/,
    'unit 5': /NotifyAccess= /,
    'unit 6': /out, which is therefore read-only/,
    memory: /MemoryMax= .* is 100/,
    descriptors: /LimitNOFILE= .* is 99/,
    clock: /not synchronized/,
    disk: /disk buffers may hold/,
  })
  machine.run(found.flatMap(({ commands = [] }) => commands.filter(line => !/^(sluice|journalctl|df) /.test(line))))
  machine.write('logs/late.log', '{}\n')
  same(t, await machine.findings(), { disk: /disk buffers may hold/ })
})

t.test('faults of servers, certificates and folders, and what is left in data_dir', onMachine, async t => {
  const openssl = needs(t, 'openssl')
  if (!openssl) return
  const machine = new Machine(t, { ProtectHome: 'yes', PrivateTmp: 'yes', Environment: 'PLACE=nowhere "OTHER=a b"' })
  mkdirSync(machine.path('tls'))
  const certificates = makeCertificates(openssl, machine.path('tls'), ['server'])
  const [secured, gone, secure] = [
    await receiver(t, { authorization: `Bearer ${KEY}` }),
    await receiver(t),
    await receiver(t, {
      tls: {
        cert: Buffer.concat([certificates.pem('server.pem'), certificates.pem('ca.pem')]),
        key: certificates.pem('server.key'),
      },
    }),
  ]
  const away = gone.url()
  await gone.close()
  machine.write('wrong', 'wrong-key-9876', 0o600)
  machine.own('wrong', 0o644)
  mkdirSync(machine.path('state/dead-letter'))
  mkdirSync(machine.path('state/checkpoints'))
  machine.write('state/checkpoints/old.json', '{"x":1}')
  machine.write(
    'state/dead-letter/away.ndjson',
    '{"time":"2031-02-03T00:00:00.000Z","reason":"status_400","event":{"n":1}}\n',
  )
  const inputs = ['a']
  const buffer = { type: 'memory' }
  const keyed = { type: 'bearer', key_file: machine.path('wrong') }
  machine.config({
    sources: { a: file(machine.path('logs/*.log')), b: file('/var/tmp/no-such/*.log'), c: file('/home/no-such/*.log') },
    destinations: {
      refused: { type: 'http', inputs, buffer, url: secured.url(), validate: secured.url('/v3/pipeline'), auth: keyed },
      away: { type: 'http', inputs, buffer, url: away },
      unnamed: { type: 'http', inputs, buffer, url: 'http://${PLACE}.invalid/', compression: 'none' },
      untrusted: { type: 'http', inputs, buffer, url: secure.url() },
      soon: { type: 'http', inputs, buffer, url: secure.url(), tls: { ca_file: certificates.path('ca.pem') } },
      written: {
        type: 'http',
        inputs: ['a', 'b', 'c'],
        buffer,
        url: secured.url(),
        auth: { type: 'bearer', key: KEY },
      },
    },
  })
  const found = await machine.findings()
  same(t, found, {
    'servers 1': /refused: 401.*validate --online/s,
    'servers 2': /away: .*ECONNREFUSED.*validate --online/s,
    'servers 3': /unnamed: .*ENOTFOUND|unnamed: .*EAI_AGAIN/s,
    'servers 4': /untrusted: .*certificate/s,
    'certificates 1': /certificate of soon: Test CA .* ends in 1 day/,
    'certificates 2': /certificate of \S+ of .*, which soon sends to, ends in 1 day/,
    'certificates 3': /certificate of Test CA of .*, which soon sends to, ends in 1 day/,
    'leftovers 1': /old is not configured/,
    'leftovers 2': /away: the receiver rejected 1 event.*sluice resend/s,
    'paths 2': /refused: every user of this machine can read .*chgrp nogroup .*chmod 640 \S+wrong/s,
    'paths 1': /written\.auth\.key is written here.*chgrp nogroup .*chmod 640/s,
    'unit 1': /home.*ProtectHome=read-only/s,
    'unit 2': /PrivateTmp= .* hides.*PrivateTmp=no/s,
    'configuration 1': /\/var\/tmp.*matches no file/,
    'configuration 2': /\/home.*matches no file/,
  })
  t.notMatch(JSON.stringify(found), /c0ffee|wrong-key/)
  machine.run(found.flatMap(({ commands = [] }) => commands.filter(line => /^(ch|mkdir|printf|systemctl)/.test(line))))
  const after = (await machine.findings()).map(({ area }) => area)
  t.notOk(after.includes('unit') || after.includes('paths'), 'the daemon can still read its configuration')
})

t.test('faults of data_dir', onMachine, async t => {
  const machine = new Machine(t)
  const config = (more: object) =>
    machine.config({
      sources: { a: file(machine.path('logs/*.log')) },
      destinations: { out: { type: 'blackhole', inputs: ['a'] } },
      ...more,
    })
  const mended = async (expected: RegExp) => {
    const found = await machine.findings()
    same(t, found, { paths: expected })
    machine.run(found[0]?.commands ?? [])
    t.same(await machine.findings(), [], String(expected))
  }
  config({})
  chownSync(machine.path('state'), 0, 0)
  await mended(/data_dir: .*EACCES.*chown -R nobody: /s)
  machine.own('state', 0o777)
  await mended(/every user of this machine can write.*chmod 700 /s)
  config({ data_dir: machine.path('new') })
  await mended(/cannot write .*new.*chmod g\+wx/s)
  const memory = '/dev/shm/sluice-doctor-test'
  config({ data_dir: memory })
  if (existsSync('/dev/shm')) same(t, await machine.findings(), { disk: /in memory \(tmpfs\)/ })
})

t.test('a configuration that is wrong, or that the daemon cannot read', onMachine, async t => {
  const machine = new Machine(t)
  machine.config({
    sources: { a: { ...file('/x'), inclde: 1 } },
    destinations: { out: { type: 'blackhole', inputs: ['${NAME}'] } },
  })
  same(t, await machine.findings(), {
    'configuration 1': /inclde.*sluice validate/s,
    'configuration 2': /variable NAME is not set.*sluice validate/s,
    'configuration 3': /nobody reads its events/,
  })
  machine.config({
    sources: { a: file(machine.path('logs/*.log')) },
    destinations: { out: { type: 'blackhole', inputs: ['a'] } },
  })
  chmodSync(machine.path('sluice.yaml'), 0o600)
  const found = await machine.findings()
  same(t, found, { paths: /sluice\.yaml.*EACCES.*chmod g\+r/s })
  machine.run(found[0]?.commands ?? [])
  t.same(await machine.findings(), [])
})

t.test('a running daemon says by itself who it is, and what its environment has', onMachine, async t => {
  const machine = new Machine(t, { User: 'no-such-user', DynamicUser: 'yes' })
  const [spy, users] = [machine.path('spy.cjs'), machine.write('users', '', 0o666)]
  machine.write('spy.cjs', `require('node:fs').appendFileSync('${users}', process.getuid() + ' ')`)
  const child = spawn('sleep', ['1000'], {
    uid: NOBODY,
    gid: NOBODY,
    env: { PATH: process.env.PATH, LOGS: 'logs/*.log', NODE_OPTIONS: `--require=${spy}` },
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'spawn')
  machine.write('unit', readFileSync(machine.path('unit'), 'utf8').replace('MainPID=0', `MainPID=${child.pid}`))
  machine.config({
    sources: { a: file(`${machine.folder}/\${LOGS}`) },
    destinations: { out: { type: 'blackhole', inputs: ['a'] } },
  })
  t.same(await machine.findings(), [])
  const seen = new Set(readFileSync(users, 'utf8').trim().split(' '))
  t.same([...seen], [String(NOBODY)], 'the environment of the daemon acts on no process of root')
  renameSync(machine.path('logs/a.log'), machine.path('target'))
  symlinkSync(machine.path('target'), machine.path('logs/a.log'))
  chmodSync(machine.path('target'), 0o600)
  // The command names the file that it changes.
  same(t, await machine.findings(), { paths: /a\.log \(EACCES\).*chgrp nogroup \S*target/s })
})

t.test('credentials that systemd cannot load', onMachine, async t => {
  const machine = new Machine(t)
  const lines = ['gone', 'empty', 'full'].map(name => `LoadCredential=${name}:${machine.path(name)}\n`)
  machine.write('unit', `${readFileSync(machine.path('unit'), 'utf8')}LoadCredential=[unprintable]\n`)
  machine.write('options', `[Service]\n${lines.join('')}LoadCredential=other:/specified/%i\n`)
  // The Debian package makes an empty file, which a configuration need not use.
  machine.write('empty', '')
  machine.write('full', 'key\n')
  machine.config({
    sources: { a: file(machine.path('logs/*.log')) },
    destinations: { out: { type: 'blackhole', inputs: ['a'] } },
  })
  same(t, await machine.findings(), { unit: /LoadCredential= .*gone, which does not exist\ninstall / })
})

t.test('advice on a file system that is read-only, and to a user whose groups change', async t => {
  // Other users may enter it, wherever the checkout is.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-doctor-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'a.log'), '', { mode: 0o600 })
  const user = { name: 'sluice', uid: 65_519, groups: [65_519] }
  const unit = { Id: 'sluice.service', DynamicUser: 'yes', SupplementaryGroups: '' }
  const advice = (code: string, of?: typeof unit) => {
    const access = { path: join(folder, 'a.log'), bits: 4 }
    return forUser({ area: 'paths', what: `this user cannot use it (${code})`, todo: '', access }, user, of)
  }
  t.match(advice('EROFS'), { todo: /another path/, commands: [/^mount -o remount,rw "\$\(stat -c %m \S+a\.log\)"$/] })
  t.match(advice('EROFS', unit), { commands: [/^mkdir/, /ReadWritePaths=/] })
  const { commands = [] } = advice('EACCES', unit)
  const path = join(folder, 'a.log')
  const secret = { area: 'paths', what: 'this user cannot use it', todo: '', access: { path, bits: 4, isSecret: true } }
  const passed = { ...unit, LoadCredential: `other:/key access-key:${path}` }
  t.match(forUser(secret, user, unit).commands?.join(), `LoadCredential=key:${path}`)
  t.match(forUser(secret, user, passed), {
    todo: 'The unit passes the key: use "credential: access-key":',
    commands: ['systemctl restart sluice.service'],
  })
  t.match(
    commands.join('\n'),
    /^groupadd -fr sluice-logs\nchgrp sluice-logs .*SupplementaryGroups=sluice-logs.*chmod g\+r/s,
  )
})

t.test('the kernel reports no changes of files', onMachine, async t => {
  const unshare = needs(t, 'unshare')
  if (!unshare) return
  const machine = new Machine(t)
  machine.config({
    sources: { a: file(machine.path('logs/*.log')) },
    destinations: { out: { type: 'blackhole', inputs: ['a'] } },
  })
  const script = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
  const doctor = [process.execPath, sluiceMain, 'doctor', machine.path('sluice.yaml')]
  const { stdout, stderr } = spawnSync(unshare, ['--user', '--map-root-user', 'sh', '-c', script, '-', ...doctor], {
    encoding: 'utf8',
  })
  if (/unshare|Operation not permitted|Read-only/.test(stderr)) return t.pass(`cannot be tried here: ${stderr}`)
  t.match(
    stdout,
    /! the kernel does not report changes of files \(EMFILE\).*sysctl -w fs\.inotify\.max_user_instances=1024\n/s,
  )
})
