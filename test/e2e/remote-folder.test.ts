import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../support/cli.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { remoteFolder } from '../support/remote-folder.js'
import { sluice } from '../support/sluice.js'

t.test('a file server that goes away stops neither the daemon nor its other sources', async t => {
  const folder = testFolder(t, { server: { 'a.log': 'far 1\n' }, 'near.log': 'near 1\n' })
  const remote = remoteFolder(t, join(folder, 'server'))
  if (!remote) {
    const reason = 'this machine mounts no file system for this user'
    // Nothing that CI could install helps there: what is left are the tests of the source, which need no mount.
    return process.env.CI ? t.pass(`left out: ${reason}`) : t.pass('needs /dev/fuse', { skip: reason })
  }
  const config = `
sources:
  far: { type: file, include: [${remote.path}/*.log], scan_interval: 200ms }
  near: { type: file, include: [${folder}/near.log] }
destinations:
  out: { type: file, inputs: [far, near], path: ${folder}/out.log }
`
  const daemon = await startDaemon(t, folder, config)
  const lines = () => readFileSync(join(folder, 'out.log'), 'utf8').split('\n').slice(0, -1)
  const logged = (text: string) => daemon.until(() => daemon.stderr.includes(text))
  await daemon.until(() => daemon.stderr.includes('"started"'))
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_component_sent_events_total', { component_id: 'out' }) === 2)

  remote.hang()
  await logged('SLUICE_FILE_SYSTEM_SILENT')
  appendFileSync(join(folder, 'near.log'), 'near 2\n')
  appendFileSync(join(folder, 'server/a.log'), 'far 2\n')
  await daemon.until(() => lines().includes('near 2'))
  t.equal((await daemon.scrape()).sum('sluice_file_systems_silent', { component_id: 'far' }), 1)
  const status = await command(['status', '--config', daemon.configPath])
  t.equal(status.code, 1)
  t.match(status.stdout, /^! far: 1 file system does not answer$/m)
  t.match(
    daemon.logs().find(({ code }) => code === 'SLUICE_FILE_SYSTEM_SILENT'),
    {
      component: 'far',
      folder: remote.path,
    },
  )
  // All that was read of the configuration at the start is read again.
  const text = readFileSync(daemon.configPath, 'utf8')
  writeFileSync(
    daemon.configPath,
    `${text.replace('200ms', '201ms')}  more: { type: file, inputs: [near], path: ${remote.path}/more.log }\n`,
  )
  daemon.child.kill('SIGHUP')
  await daemon.scrapedUntil(scrape => scrape.sum('sluice_config_reloads_total', { result: 'done' }) > 0)
  appendFileSync(join(folder, 'near.log'), 'near 3\n')
  await daemon.until(() => lines().includes('near 3'))
  t.notOk(lines().includes('far 2'))

  remote.answer()
  await logged('file system answers again')
  await daemon.until(() => lines().includes('far 2'))
  t.same(lines().sort(), ['far 1', 'far 2', 'near 1', 'near 2', 'near 3'])

  // It goes away right behind its answer, in the middle of a sweep.
  const silences = () => daemon.logs().filter(({ code }) => code === 'SLUICE_FILE_SYSTEM_SILENT').length
  const before = silences()
  remote.hang('calls')
  appendFileSync(join(folder, 'server/a.log'), 'far 3\n')
  await daemon.until(() => silences() > before)
  appendFileSync(join(folder, 'near.log'), 'near 4\n')
  await daemon.until(() => lines().includes('near 4'))
  t.notOk(lines().includes('far 3'))
  const other = join(folder, 'other.yaml')
  writeFileSync(
    other,
    `
sources: { in: { type: stdin } }
destinations:
  out:
    type: http
    inputs: [in]
    url: https://127.0.0.1:1/
    auth: { type: token, key_file: ${remote.path}/key }
    tls: { ca_file: ${remote.path}/ca.pem }
`,
  )
  const checked = sluice(['validate', other], { cwd: folder })
  await checked.exit
  t.match(checked.stdout, /^0 errors,/m)
  const silent = `the file system at ${remote.path} does not answer`
  t.match(checked.stderr, `auth.key_file: warning: ${remote.path}/key cannot be read now: ${silent}`)
  t.match(checked.stderr, `tls.ca_file: warning: ${remote.path}/ca.pem cannot be read: ${silent}`)
  remote.answer()
  await daemon.until(() => lines().includes('far 3'))
  t.equal(lines().length, 7, 'each line once')
})
