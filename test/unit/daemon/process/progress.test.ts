import t from 'tap'
import type { Io } from '../../../../src/daemon/process/command-line.js'
import { Progress } from '../../../../src/daemon/process/progress.js'

function terminal(isTTY: boolean, columns = 100) {
  const written: string[] = []
  let now = 0
  const stderr = { isTTY, columns, write: (text: string) => written.push(text) } as unknown as Io['stderr']
  return {
    written,
    progress: (total: number | undefined) => new Progress(stderr, total, () => now),
    wait: (ms: number) => {
      now += ms
    },
  }
}

t.test('a bar, bytes, the rate and the time left, drawn a few times per second and removed at the end', async t => {
  const { written, progress, wait } = terminal(true)
  const bar = progress(4_000_000)
  bar.add(500_000)
  t.same(written, [], 'not at once')
  wait(1000)
  bar.add(500_000)
  bar.add(1)
  t.same(written, ['\r\x1b[K[#####               ]  25 %  1.0 MB of 4.0 MB  1.0 MB/s  3s left'])
  wait(1000)
  bar.add(4_000_000)
  t.match(written[1], '[####################] 100 %', 'a file that grows')
  bar.end()
  t.equal(written[2], '\r\x1b[K')
})

t.test(
  'without a size only bytes and the rate; nothing wider than the terminal; nothing where there is none',
  async t => {
    const unknown = terminal(true, 12)
    const bar = unknown.progress(undefined)
    unknown.wait(500)
    bar.add(2_000_000)
    t.same(unknown.written, ['\r\x1b[K2.0 MB  4.0'])
    const none = terminal(false)
    const silent = none.progress(100)
    none.wait(500)
    silent.add(50)
    silent.end()
    t.same(none.written, [])
  },
)
