import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { components } from '../../src/components/list.js'
import { built, checkout } from '../support/checkout.js'
import { commandLines, docBlocks } from '../support/doc-blocks.js'
import { until as untilSeen } from '../support/until.js'
import { Tree } from './tree.js'

const execute = promisify(execFile)
/** A machine with other work takes several times the 40 s of one that has none. */
const BUILD_MS = 600_000
const DEVELOPERS =
  /\.(ts|map|md|cc|c|h|gyp|ya?ml)$|\/(test|tests|benchmarks?)\/|\.musl\.|prebuilds\/(?!linux-)|\/\.[^/]|eslint/

const INSTANCE = `sources:
  log: { type: file, include: [/var/log/dpkg.log] }
destinations:
  out: { type: blackhole, inputs: [log] }
`

const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }
const [major = 0, minor = 0] = manifest.version.split('.').map(Number)
const newer = `${major}.${minor + 1}.0`

/** Of types, in the description of the package. */
const NAMES: Readonly<Record<string, string>> = { journald: 'the journal', elasticsearch: 'Elasticsearch, OpenSearch' }

/** Builds the package from what this test was built from; the path of it. */
async function build(folder: string, ...args: string[]): Promise<string> {
  const all = [join(checkout, 'scripts/package-deb.mjs'), '--built', built, '--out', folder, ...args]
  const env = { ...process.env, SOURCE_DATE_EPOCH: '1700000000', DPKG_DEB_COMPRESSOR_LEVEL: '0' }
  return (await execute(process.execPath, all, { env, timeout: BUILD_MS })).stdout.trim()
}

/** A package `nodejs` of the version of this node, as where Node.js came from a repository. The tree has the program. */
async function nodePackage(folder: string): Promise<string> {
  const stage = join(folder, 'nodejs')
  const version = `${process.versions.node}-1nodesource1`
  const fields = { Package: 'nodejs', Version: version, Architecture: 'all', Maintainer: 'nobody', Description: 'node' }
  mkdirSync(join(stage, 'DEBIAN'), { recursive: true })
  writeFileSync(
    join(stage, 'DEBIAN/control'),
    Object.entries(fields)
      .map(([name, text]) => `${name}: ${text}\n`)
      .join(''),
  )
  await execute('dpkg-deb', ['--root-owner-group', '--build', stage, join(folder, 'nodejs.deb')])
  return join(folder, 'nodejs.deb')
}

/** The same package with another version of the configuration in it. */
async function withLimit(limit: number, deb: string, folder: string): Promise<string> {
  const stage = join(folder, `limit-${limit}`)
  await execute('dpkg-deb', ['--raw-extract', deb, stage])
  const config = join(stage, 'etc/sluice/sluice.yaml')
  writeFileSync(config, readFileSync(config, 'utf8').replace('limit: 100', `limit: ${limit}`))
  const made = join(folder, `limit-${limit}.deb`)
  await execute('dpkg-deb', ['--root-owner-group', '-Zgzip', '-z1', '--build', stage, made])
  return made
}

/** The field `e_machine` of programs. */
const MACHINES = { amd64: 62, arm64: 183 }

/** The package, and all that is compiled in it, is for that architecture. */
async function isOf(t: Test, arch: keyof typeof MACHINES, deb: string, folder: string): Promise<void> {
  t.equal((await execute('dpkg-deb', ['--field', deb, 'Architecture'])).stdout, `${arch}\n`)
  await execute('dpkg-deb', ['--extract', deb, folder])
  const lib = join(folder, 'usr/lib/sluice')
  const compiled = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter(path => /^bin\/|\.node$/.test(path))
  t.equal(compiled.length, 2, 'Node.js and the store of the service')
  for (const path of compiled) t.equal(readFileSync(join(lib, path)).readUInt16LE(18), MACHINES[arch], path)
}

async function contents(t: Test, deb: string): Promise<void> {
  const { stdout } = await execute('dpkg-deb', ['--contents', deb])
  const entries = stdout
    .trim()
    .split('\n')
    .map(line => {
      const [, mode = '', owner = '', time = '', path = ''] = /^(\S+) (\S+) +\S+ (\S+ \S+) (.*)$/.exec(line) ?? []
      return { mode, owner, time, path }
    })
  t.ok(
    entries.every(({ owner }) => owner === 'root/root'),
    'all is of root',
  )
  t.ok(
    entries.every(({ time }) => time.startsWith('2023-11-1')),
    'all is of one time',
  )
  const own = entries.filter(
    ({ mode, path }) =>
      mode.startsWith('-') &&
      path.startsWith('./usr/lib/sluice/') &&
      !path.endsWith('/config/examples/quickstart.yaml'),
  )
  t.same(
    own.filter(({ path }) => DEVELOPERS.test(path)),
    [],
    'nothing for developers',
  )
  t.equal(own.filter(({ path }) => path.endsWith('.node')).length, 1, 'the compiled code of one machine')
  const programs = entries.filter(({ mode }) => /^-.*x/.test(mode)).map(({ path }) => path)
  t.same(programs, ['./usr/lib/sluice/dist/src/cli/main.js'], 'one program')
}

/** The Debian package: built, judged, and in a booted tree installed, upgraded, removed and purged. */
export async function debianPackage(t: Test, tell: (line: string) => void): Promise<void> {
  const folder = join(tmpdir(), `sluice-deb-test-${process.pid}`)
  mkdirSync(folder)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const small = '--without-node'
  const [deb, again, next, whole, foreign, nodejs] = await Promise.all([
    build(join(folder, 'one'), small),
    build(join(folder, 'two'), small),
    build(join(folder, 'next'), small, '--version', newer),
    build(join(folder, 'whole')),
    build(join(folder, 'foreign'), '--arch', process.arch === 'arm64' ? 'amd64' : 'arm64'),
    nodePackage(folder),
  ])
  t.ok(readFileSync(deb).equals(readFileSync(again)), 'the same input gives the same bytes')
  await isOf(t, process.arch === 'arm64' ? 'amd64' : 'arm64', foreign, join(folder, 'foreign/unpacked'))
  const lintian = await execute('lintian', ['--allow-root', '--fail-on', 'error,warning', deb]).catch(error => error)
  t.equal(`${lintian.stdout}`, '', 'lintian has nothing to say')
  await contents(t, deb)

  const others = await Promise.all([200, 300].map(limit => withLimit(limit, next, folder)))
  const packages = [deb, ...others, nodejs, whole]
  const copies = packages.map(path => [path, `/root/${basename(path)}`] as const)
  const tree = await Tree.boot({ copies, alone: true })
  t.teardown(() => tree.end())
  const [first = '', second = '', third = '', node = '', withNode = ''] = packages.map(
    path => `/root/${basename(path)}`,
  )

  const told = (command: string, said: string) => {
    tell(`# ${command}`)
    for (const line of said.replaceAll(/.*\r/g, '').trimEnd().split('\n')) if (line) tell(line)
    return said
  }
  const run = async (command: string) => {
    const { code, stdout, stderr } = await tree.run('sh', ['-c', command])
    told(command, `${stdout}${stderr}${code === 0 ? '' : `(exit code ${code})`}`)
    return { code, said: `${stdout}${stderr}`.trim() }
  }
  const apt = (verb: string, what: string) =>
    run(`DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 ${verb} -y ${what}`)
  const does = async (command: string) => t.equal((await run(command)).code, 0, command)
  const says = async (command: string, wanted: string) => t.equal((await run(command)).said, wanted, command)
  const until = async (command: string, wanted: string) => {
    let said = ''
    const look = async () => {
      said = (await tree.run('sh', ['-c', command])).stdout.trim()
      return said === wanted
    }
    await untilSeen(command, look, { every: 100, show: () => said })
    t.pass(told(command, said))
  }
  /** Whether a metric of a component has come to a value. */
  const metric = (name: string, id: string, least: number, decision = '') => {
    const pattern = `/^${name}\\{component_id="${id}".*${decision}.* (\\S+)$/m`
    const page = 'fetch("http://127.0.0.1:9598/metrics").then(response => response.text())'
    const told = `console.log(Number(${pattern}.exec(text)?.[1]) >= ${least} ? "yes" : "no")`
    return `node -e '${page}.then(text => ${told}, () => console.log("none"))'`
  }

  /** Which versions of the configuration there are: their limits. */
  const configs = `grep -Eo 'limit: [0-9]+' /etc/sluice/sluice.yaml* | sed 's/limit: //'`

  const isGone = async () => {
    await says('ls -d /etc/sluice /var/lib/sluice* /var/lib/private/sluice* 2>/dev/null | wc -l', '0')
    await says('systemctl list-unit-files --no-legend "sluice*"', '')
    await says('systemctl --failed --no-legend', '')
    await says('dpkg -l sluice 2>/dev/null | grep -c ^ii', '0')
    await says(
      'find / -xdev -name "*sluice*" -not -path "/root/*" -not -path "/proc/*" -not -path "/tmp/*" -not -path "/var/log/*"',
      '',
    )
  }

  const refused = await apt('install', first)
  t.not(refused.code, 0, 'without Node.js it is not installed')
  t.match(refused.said, /Depends: nodejs \(>= 20\.19\)/)
  t.equal((await apt('install', withNode)).code, 0, 'with a Node.js of its own it is')
  await until('systemctl is-active sluice', 'active')
  await says('readlink /proc/$(systemctl show -P MainPID sluice)/exe', '/usr/lib/sluice/bin/node')
  const { said: description } = await run("dpkg-query -W -f '${Description}' sluice")
  for (const { type, kind } of components)
    if (/source|destination/.test(kind) && !['stdin', 'stdout', 'demo', 'blackhole'].includes(type))
      t.match(description.replaceAll(/\s+/g, ' '), new RegExp(NAMES[type] ?? type, 'i'), `it names ${type}`)
  t.equal((await apt('purge', 'sluice')).code, 0, 'and purged')
  await isGone()
  await does(`dpkg -i ${node}`)

  const began = performance.now()
  t.equal((await apt('install', first)).code, 0, 'installs')
  await says('systemctl is-enabled sluice', 'enabled')
  await until('systemctl is-active sluice', 'active')
  // More than the limit of the configuration that comes with it, at once.
  await does('seq 3000 | systemd-cat -t app')
  await until(metric('sluice_component_received_events_total', 'system', 3000), 'yes')
  await says(metric('sluice_throttle_events_total', 'limit_app', 1, 'discarded'), 'yes')
  tell(`from the package to metrics: ${((performance.now() - began) / 1000).toFixed(1)} s`)
  await says('sluice --version', `sluice ${manifest.version}`)
  await does('sluice status')
  await says('stat -c %a-%U /etc/sluice/access-key', '600-root')
  await does('zcat /usr/share/man/man1/sluice.1.gz | grep -q "^.TH SLUICE"')
  await does(
    'cd /usr/share; ls bash-completion/completions/sluice zsh/vendor-completions/_sluice fish/vendor_completions.d/sluice.fish',
  )
  await says('systemctl is-enabled sluice-api', 'disabled')
  await says('systemctl is-active sluice-api', 'inactive')
  await does("sed -i 's/:8080/:0/; s/:9599/:0/' /etc/sluice/service.yaml")
  await does('systemctl start sluice-api')
  await does('sluice admin init --config /etc/sluice/service.yaml --json | grep -o sta_')

  for (const name of ['enabled', 'started']) tree.write(`/etc/sluice/${name}.yaml`, INSTANCE)
  await does('systemctl enable --now sluice@enabled; systemctl start sluice@started')

  await does("sed -i 's/limit: 100/limit: 5/' /etc/sluice/sluice.yaml")
  t.equal((await apt('-o Dpkg::Options::=--force-confold install', second)).code, 0, 'upgrades')
  await says('sluice --version', `sluice ${newer}`)
  for (const unit of ['sluice', 'sluice-api']) await until(`systemctl is-active ${unit}`, 'active')
  await until("sluice status | grep -o '^Sluice [0-9.]*'", `Sluice ${newer}`)
  for (const name of ['enabled', 'started']) {
    const status = `sluice status --socket /var/lib/sluice@${name}/sluice.sock`
    await until(`${status} | grep -o '^Sluice [0-9.]*'`, `Sluice ${newer}`)
  }
  await says(configs, '/etc/sluice/sluice.yaml:5\n/etc/sluice/sluice.yaml.dpkg-dist:200')
  await does('seq 3000 | systemd-cat -t app')
  await until(metric('sluice_throttle_events_total', 'limit_app', 2950, 'discarded'), 'yes')
  await says(metric('sluice_component_received_events_total', 'system', 6000), 'no')
  await does('systemctl disable --now sluice')
  t.equal((await apt('install --reinstall', second)).code, 0, 'what was disabled and stopped')
  await says('systemctl is-enabled sluice', 'disabled')
  await says('systemctl is-active sluice', 'inactive')
  await does('systemctl enable --now sluice')

  const { said: pid } = await run('systemctl show -P MainPID sluice')
  const asked = await run(`dpkg -i ${third} </dev/null`)
  t.not(asked.code, 0, 'where nobody answers which configuration it is to be, it is not installed to the end')
  t.match(asked.said, /end of file on stdin at conffile prompt/)
  await says('systemctl show -P MainPID sluice', pid)
  await does('dpkg --force-confold --configure -a')
  await until('systemctl is-active sluice', 'active')
  t.not((await run('systemctl show -P MainPID sluice')).said, pid, 'it was restarted')
  await says(configs, '/etc/sluice/sluice.yaml:5\n/etc/sluice/sluice.yaml.dpkg-dist:300')
  await says('dpkg --audit', '')
  await does('sluice validate /etc/sluice/sluice.yaml')

  t.equal((await apt('remove', 'sluice')).code, 0, 'is removed')
  for (const unit of ['sluice', 'sluice@enabled', 'sluice@started'])
    await until(`systemctl is-active ${unit}`, 'inactive')
  await says('ls -d /usr/bin/sluice /usr/lib/sluice 2>/dev/null | wc -l', '0')
  await does('ls /etc/sluice/sluice.yaml /var/lib/sluice/')
  t.equal((await apt('install', third)).code, 0, 'comes back')
  await says('systemctl is-enabled sluice', 'enabled')
  for (const unit of ['sluice', 'sluice@enabled']) await until(`systemctl is-active ${unit}`, 'active')
  await says('grep -c "limit: 5" /etc/sluice/sluice.yaml', '1')

  t.equal((await apt('purge', 'sluice')).code, 0, 'is purged')
  await isGone()

  tell('docs/first-hour.md, from the package on')
  for (const { language, words, text } of docBlocks('docs/first-hour.md')) {
    const file = words.find(word => word.startsWith('file=/'))?.slice('file='.length)
    if (file !== undefined) tree.write(file, text)
    if (language !== 'sh' || words[0] !== 'tree') continue
    for (const line of commandLines(text))
      await does(`cd /root && ${line.replace(/\.\/dist\/sluice_\S+\.deb/, withNode)}`)
  }
  await isGone()
}
