import fs, { appendFileSync, copyFileSync, renameSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import '../../../../src/core/codecs/list.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { SentOffsets } from '../../../../src/core/event/sent-offsets.js'
import { testFolder } from '../../../support/folder.js'
import { arrived, MemoryCheckpoints, Receiver, type Tailing, tail } from '../../../support/tailing.js'
import { turns, until } from '../../../support/until.js'

/** Saving takes longer than reading. */
class SlowCheckpoints extends MemoryCheckpoints {
  override async flush(): Promise<void> {
    await turns()
    await super.flush()
  }
}

/** Computes the ids of all events that come, as a destination does. */
class Ids extends Receiver {
  override readonly usesIds = true
  readonly seen: { text: string; id: string }[] = []
  /** Readings that were not saved when the first of their events came. */
  readonly unsaved: string[] = []
  readonly #checkpoints: MemoryCheckpoints

  constructor(checkpoints: MemoryCheckpoints) {
    super()
    this.#checkpoints = checkpoints
  }

  override send(batch: EventBatch): Promise<void> {
    const from = batch.readFrom!
    if (!JSON.stringify(this.#checkpoints.document ?? '').includes(from.reading)) this.unsaved.push(from.reading)
    batch.sentOffsets = new SentOffsets(batch.starts[0]!, from)
    for (let i = 0; i < batch.length; i++) this.seen.push({ text: batch.line(i).toString(), id: eventId(batch, i) })
    return super.send(batch)
  }

  ids(from = 0): string[] {
    return this.seen.slice(from).map(({ id }) => id)
  }
}

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join('')

/** Runs with the same saved positions until so many lines have come, and is killed. */
async function run(
  path: string,
  checkpoints: MemoryCheckpoints,
  lines: number,
  more: (run: Tailing) => unknown = () => {},
  appended = '',
) {
  const out = new Ids(checkpoints)
  out.hold = true
  const running = await tail({ include: [path] }, checkpoints, out)
  await arrived(running, appended === '' ? lines : 1)
  if (appended !== '') appendFileSync(path, appended)
  await arrived(running, lines)
  await more(running)
  await running.kill()
  return out
}

t.test('an event has the same id when it is read again after a kill', async t => {
  const path = join(testFolder(t, { 'app.log': numbered(0, 50) }), 'app.log')
  const checkpoints = new SlowCheckpoints()
  const first = await run(path, checkpoints, 50)
  appendFileSync(path, numbered(50, 60))
  const second = await run(path, checkpoints, 60)
  t.same(second.ids().slice(0, 50), first.ids())
  t.equal(new Set(second.ids()).size, 60)
  t.same([...first.unsaved, ...second.unsaved], [], 'what the ids are made of was saved before')
})

/** As if all files had come into being at once, as far as the file system tells: its clock stands still between two ticks. */
function bornAtOnce(t: Test): void {
  const calls = fs as unknown as Record<'statSync' | 'fstatSync', (...args: unknown[]) => { birthtimeNs?: bigint }>
  const { statSync, fstatSync } = calls
  const birthtimeNs = BigInt(Date.now() - 1000) * 1_000_000n
  const at =
    (look: typeof statSync) =>
    (...args: unknown[]) => {
      const stat = look(...args)
      return stat?.birthtimeNs === undefined ? stat : Object.assign(stat, { birthtimeNs })
    }
  Object.assign(calls, { statSync: at(statSync), fstatSync: at(fstatSync) })
  t.teardown(() => Object.assign(calls, { statSync, fstatSync }))
}

for (const [born, prepare] of [
  ['', () => {}],
  [', made at the same moment,', bornAtOnce],
] as const)
  t.test(`equal lines at the same place of a file that was copied and truncated${born} are other events`, async t => {
    prepare(t)
    const folder = testFolder(t, { 'app.log': 'the same\n' })
    const path = join(folder, 'app.log')
    const checkpoints = new SlowCheckpoints()
    const first = await run(path, checkpoints, 1, async running => {
      copyFileSync(path, `${path}.1`)
      truncateSync(path)
      await until('the truncation to be seen', () => running.value('sluice_file_truncations_total') === 1)
      appendFileSync(path, 'the same\n')
      await arrived(running, 2)
    })
    t.equal(new Set(first.ids()).size, 2)
    t.same(first.unsaved, [])
    const second = await run(path, checkpoints, 2)
    t.same(second.ids().sort(), first.ids().sort(), 'after a kill, each has its own again')
  })

t.test('equal lines at the same place of a file with the same inode are other events', async t => {
  const folder = testFolder(t, { 'app.log': 'the same\n' })
  const path = join(folder, 'app.log')
  const checkpoints = new SlowCheckpoints()
  const first = await run(path, checkpoints, 1)
  unlinkSync(path)
  writeFileSync(path, 'the same\n')
  const second = await run(path, checkpoints, 1)
  t.not(second.ids().at(-1), first.ids()[0])
})

t.test('a renamed file is the same, and goes on', async t => {
  const folder = testFolder(t, { 'app.log': numbered(0, 3) })
  const path = join(folder, 'app.log')
  const checkpoints = new SlowCheckpoints()
  const first = await run(join(folder, 'app.log*'), checkpoints, 3)
  renameSync(path, `${path}.1`)
  const second = await run(join(folder, 'app.log*'), checkpoints, 3)
  t.same(second.ids(), first.ids())
})

const part = (tag: string, text: string, stream = 'stdout') =>
  `2026-01-02T03:04:05.000000000Z ${stream} ${tag} ${text}\n`
const MARK = '\ufeff'
const APPENDED = 'f\n'

const places: [title: string, content: string, options: object, events: number][] = [
  ['lines that are joined', 'a\n b\nc\n d\ne\n', { multiline: { start: '^\\S' } }, 2],
  [
    'parts of two streams',
    part('P', 'a') + part('F', 'b', 'stderr') + part('F', 'c') + part('F', 'd'),
    { decode: 'cri' },
    3,
  ],
  ['parts that are joined', part('P', 'a') + part('F', 'b') + part('F', 'c'), { decode: 'cri' }, 2],
  ['lines behind a byte order mark', `${MARK}a\nb\n`, {}, 2],
]
for (const [title, content, more, events] of places)
  t.test(`${title} have the id of their place`, async t => {
    const path = join(testFolder(t, { 'app.log': content }), 'app.log')
    const checkpoints = new SlowCheckpoints()
    const ids: string[][] = []
    for (let n = 0; n < 2; n++) {
      const out = new Ids(checkpoints)
      out.hold = true
      const running = await tail({ include: [path], ...more }, checkpoints, out)
      await until('the events', () => out.seen.length >= events)
      await running.kill()
      ids.push(out.ids().slice(0, events))
      // It is read in one go then.
      appendFileSync(path, APPENDED)
    }
    t.same(ids[1], ids[0])
    t.equal(new Set(ids[0]).size, events)
  })

t.test('an event behind what was read before is not at the place of another', async t => {
  const path = join(testFolder(t, { 'app.log': 'a\n' }), 'app.log')
  const checkpoints = new SlowCheckpoints()
  const out = await run(path, checkpoints, 2, async () => {}, 'a\n')
  t.equal(new Set(out.ids()).size, 2)
})

t.test('records that are no lines have no place in the file', async t => {
  const path = join(testFolder(t), 'app.log')
  writeFileSync(path, Buffer.from('81a1610181a16102', 'hex'))
  const out = new Receiver()
  out.hold = true
  const running = await tail({ include: [path], decode: 'msgpack' }, undefined, out)
  await arrived(running, 2)
  await running.kill()
  t.same(new Set(out.held.map(({ readFrom }) => readFrom)), new Set([undefined]))
})
