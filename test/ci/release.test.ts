import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { checkout } from '../support/checkout.js'

t.test('nothing is released while package.json has placeholders, which are nowhere else', async t => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(checkout, 'scripts/release.mjs')], {
    encoding: 'utf8',
  })
  t.equal(status, 1)
  for (const name of ['author', 'homepage', 'repository', 'bugs'])
    t.match(stdout, `must not be published: package.json has a placeholder in ${name}\n`)
  t.match(stderr, 'release: nothing was built')
  for (const folder of ['.github', 'scripts', 'systemd'])
    for (const entry of readdirSync(join(checkout, folder), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      if (entry.isFile()) t.notMatch(readFileSync(path, 'utf8'), /@[\w-]+\.invalid/, path)
    }
})

t.test('an unknown kind is refused', async t => {
  const args = [join(checkout, 'scripts/release.mjs'), '--dry-run', '--only', 'rpm']
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.equal(status, 1)
  t.equal(stderr, 'release: --only is one of npm, deb, image, not rpm\n')
})
