import { appendFileSync, chownSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { built, checkout } from '../support/checkout.js'
import { Containers, type Engine, whyNoContainers } from '../support/containers.js'
import { testFolder } from '../support/folder.js'
import { longTest } from '../support/long-test.js'
import { startReceiver } from '../support/receiver.js'
import { until } from '../support/until.js'

/** Of `USER` in the Containerfile. */
const USER = 65_532
const MOST_BYTES = 90_000_000
/** The field `e_machine` of programs. */
const AARCH64 = 183
const [own, foreign] = process.arch === 'arm64' ? ['arm64', 'amd64'] : ['amd64', 'arm64']
const manifest = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }

// A machine with other work takes several times the minute of one that has none.
t.setTimeout(1_200_000)

/** A folder with images that a release has built. */
const { SLUICE_ARTEFACTS: artefacts } = process.env

/** Builds the image as `npm run image` does, from what this test was built from; its name, and the archive of it. */
async function build(containers: Containers, arch: string, out: string): Promise<readonly [string, string]> {
  if (artefacts) {
    const saved = join(artefacts, `sluice_${manifest.version}_${arch}.image.tar`)
    await containers.do('load', '--input', saved)
    return [`localhost/sluice:${manifest.version}-${arch}`, saved]
  }
  const args = ['--with', containers.engine, '--arch', arch, '--built', built, '--out', out]
  const { code, stdout, stderr } = await containers.run(
    process.execPath,
    join(checkout, 'scripts/package-image.mjs'),
    ...args,
  )
  if (code !== 0) throw new Error(stderr)
  const [image = '', archive = ''] = stdout.trim().split(' ')
  return [image, archive]
}

/** Ships the lines of a mounted folder; is killed and started again, and stopped. */
async function ships(t: Test, containers: Containers, image: string, folder: string): Promise<void> {
  const receiver = await startReceiver()
  t.teardown(() => receiver.close())
  for (const name of ['log', 'state']) mkdirSync(join(folder, name), { recursive: true })
  chownSync(join(folder, 'state'), USER, USER)
  const config = `metrics: false
sources: { app: { type: file, include: [/var/log/app/*.log] } }
destinations: { out: { type: http, inputs: [app], url: ${receiver.url()}, batch: { max_wait: 10ms } } }
`
  writeFileSync(join(folder, 'sluice.yaml'), config)
  let written = 0
  const write = (name: string) => {
    const lines = Array.from({ length: 1000 }, () => `line ${written++}\n`)
    appendFileSync(join(folder, 'log', name), lines.join(''))
  }
  const arrived = () => {
    const lines = new Set(receiver.lines().map(line => /line \d+/.exec(line)?.[0]))
    return Array.from({ length: written }, (_, i) => `line ${i}`).filter(line => !lines.has(line)).length === 0
  }
  const all = (when: string) => until(`all lines ${when}`, arrived, { show: () => receiver.lines().length })

  write('a.log')
  const mounts = ['log:/var/log/app:ro', 'sluice.yaml:/etc/sluice/sluice.yaml:ro', 'state:/var/lib/sluice']
  const limits = [
    '--read-only',
    '--cap-drop',
    'all',
    '--security-opt',
    'no-new-privileges',
    '--network',
    'host',
    '--uts',
    'host',
  ]
  limits.push('--user', `${USER}:4`, '--stop-timeout', '45')
  const volumes = mounts.flatMap(mount => ['--volume', join(folder, mount)])
  await containers.do('run', '--detach', '--name', 'sluice', ...limits, ...volumes, image)
  await all('after the start')
  const [, ...check] = JSON.parse(
    await containers.do('inspect', '--format', '{{json .Config.Healthcheck.Test}}', 'sluice'),
  ) as string[]
  await containers.do('exec', 'sluice', ...check)
  t.match(await containers.do('exec', 'sluice', '/usr/bin/sluice', 'status'), /Nothing is wrong/)

  for (let i = 0; i < 2; i++) {
    write('a.log')
    await containers.do('kill', '--signal', 'KILL', 'sluice')
    await until('it is killed', async () => (await state(containers, 'Running')) === 'false')
    write(`b${i}.log`)
    await containers.do('start', 'sluice')
    write('a.log')
    await all('after a kill')
  }
  await containers.do('stop', 'sluice')
  t.equal(await state(containers, 'ExitCode'), '0', 'it stops as process 1')
  const before = receiver.lines().length
  write('a.log')
  await containers.do('start', 'sluice')
  await all('after a stop')
  t.equal(receiver.lines().length, before + 1000, 'a stop repeats nothing')
  await containers.do('rm', '--force', 'sluice')
}

const state = (containers: Containers, field: string) =>
  containers.do('inspect', '--format', `{{.State.${field}}}`, 'sluice')

longTest('the image: built by docker and by podman, and run by both', async t => {
  const why = whyNoContainers()
  if (why) return process.env.CI && process.getuid?.() === 0 ? t.fail(why) : t.pass('containers', { skip: why })
  const folder = testFolder(t)
  const start = async (engine: Engine) => {
    const containers = await Containers.start(engine, join(folder, engine))
    t.teardown(() => containers.end())
    return containers
  }

  const docker = await start('docker')
  const [image, archive] = await build(docker, own, join(folder, 'out'))
  t.equal(image, `localhost/sluice:${manifest.version}-${own}`)
  t.ok(statSync(archive).size < MOST_BYTES, `${statSync(archive).size} bytes`)
  const labels = JSON.parse(await docker.do('inspect', '--format', '{{json .Config.Labels}}', image)) as object
  t.match(labels, { 'org.opencontainers.image.version': manifest.version, 'org.opencontainers.image.licenses': 'MIT' })
  await ships(t, docker, image, join(folder, 'by-docker'))

  const podman = await start('podman')
  await podman.do('load', '--input', archive)
  const without = await podman.command('run', '--rm', '--read-only', image)
  t.equal(without.code, 78, 'without a configuration')
  t.match(without.stderr, '/etc/sluice/sluice.yaml')
  await ships(t, podman, image, join(folder, 'by-podman'))

  const [other] = await build(podman, foreign!, join(folder, 'out'))
  t.equal(await podman.do('inspect', '--format', '{{.Architecture}}', other), foreign)
  const id = await podman.do('create', other)
  await podman.do('cp', `${id}:/usr/lib/sluice/bin/node`, join(folder, 'node'))
  t.equal(readFileSync(join(folder, 'node')).readUInt16LE(18) === AARCH64, foreign === 'arm64', 'its Node.js')
})
