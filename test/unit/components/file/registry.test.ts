import t from 'tap'
import { Registry } from '../../../../src/components/file/known/registry.js'
import type { Tailer } from '../../../../src/components/file/reading/tailer.js'

class Files extends Registry {
  override lookedAtName = () => 0
  override isName = () => false
  override displace(): void {}
  protected override rotated(): void {}

  begin(path: string): Tailer {
    const names = { path, found: path, target: `${path}.target` }
    const file = { key: path, ...names, origin: { path }, isNew: true, join() {}, setNames() {} } as unknown as Tailer
    this.add(file, true)
    this.setName(path, file)
    this.setTarget(path, file.target, file)
    return file
  }

  truncated(former: Tailer): Tailer {
    const tailer = { ...former } as Tailer
    this.replace(former, tailer)
    return tailer
  }

  vacated(path: string): void {
    this.vacate(path)
  }

  lastAt(path: string): Tailer | undefined {
    return this.last(path)
  }
}

t.test('a truncated file gives all its names to its new content', async t => {
  const files = new Files()
  const former = files.begin('/logs/app.log')
  const [named, vacant] = [files.truncated(former), files.begin('/logs/other.log')]
  t.equal(files.named('/logs/app.log'), named)
  t.equal(files.at('/logs/app.log.target'), named)
  files.vacated('/logs/other.log')
  t.equal(files.lastAt('/logs/other.log'), vacant)
  t.equal(files.truncated(vacant), files.lastAt('/logs/other.log'))
  t.equal(files.named('/logs/other.log'), undefined)
})

/** CPU time for the truncation of all of so many files, in microseconds. */
function costOf(count: number): number {
  const files = new Files()
  const all = Array.from({ length: count }, (_, i) => files.begin(`/logs/${i}.log`))
  const before = process.cpuUsage()
  for (const file of all) files.truncated(file)
  const { user, system } = process.cpuUsage(before)
  return user + system
}

t.test('a truncation costs the same, however many files there are', async t => {
  const least = (count: number) => Math.min(...Array.from({ length: 3 }, () => costOf(count)))
  least(500)
  const [few, many] = [least(2000), least(16_000)]
  // If each truncation walked the names of all files, this would be 64 times as much; collecting garbage makes it up to 29.
  t.ok(many < 40 * Math.max(few, 2000), `${few} µs for 2,000 files, ${many} µs for 16,000`)
})
