import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { performIn, scenario } from '../chaos/case.js'
import type { Setup, Step } from '../chaos/scenario.js'
import { HOST, ownPort } from '../support/address.js'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { startReceiver } from '../support/receiver.js'

/**
 * What broke other shippers, by public reports: V vectordotdev/vector, FB fluent/fluent-bit, B elastic/beats, OT
 * open-telemetry/opentelemetry-collector-contrib. Each is done to the real daemon with a real receiver; after each run
 * every line must have arrived, whole, in order and once, where nothing unclear happened to it.
 */

t.jobs = 2

const A = 0
const B = 1
const C = 2
const LINK = 3

const append = (slot: number, lines: number, more: { bytes?: number; tear?: number } = {}): Step => ({
  do: 'append',
  slot,
  lines,
  bytes: 60,
  tear: 0,
  writes: 1,
  ...more,
})
const rotate = (slot: number, create = true): Step => ({
  do: 'rotate',
  slot,
  names: 'numbers',
  create,
  keep: false,
  depth: 5,
  wait: 'none',
})
const keepRotated = (slot: number): Step => ({ ...rotate(slot), keep: true }) as Step
const copyTruncate = (slot: number, lines: number): Step => ({
  do: 'copytruncate',
  slot,
  names: 'numbers',
  depth: 5,
  wait: 'taken',
  lines,
})
const remake = (slot: number, lines: number): Step => ({
  do: 'delete',
  slot,
  recreate: true,
  keep: false,
  lines,
  wait: 'none',
})
const late = (lines: number): Step => ({ do: 'late', lines })
const pause = (ms: number): Step => ({ do: 'pause', ms })
const SAVED: Step = { do: 'saved' }
const TAKEN: Step = { do: 'taken' }
const KILL: Step = { do: 'kill' }
const TERM: Step = { do: 'term', wait: true }
const START: Step = { do: 'start', wait: true }
const GONE: Step = { do: 'receiver', fault: { fault: 'gone' } }
const HEAL: Step = { do: 'heal' }
const refuse = (status: 401 | 403): Step => ({ do: 'receiver', fault: { fault: 'key', status } })

interface Report {
  /** The reports, and what is done. */
  readonly title: string
  readonly setup?: Partial<Setup>
  readonly steps: readonly Step[]
  /** How many lines must come. */
  readonly arrived: number
  /** Lines that may come again, after a kill or an unclear answer. */
  readonly repeated?: boolean
}

const REPORTS: readonly Report[] = [
  {
    title:
      'V#23076 FB#8025: the inode of a deleted file is given to a new one, longer than the old, while nothing runs',
    steps: [START, append(A, 5), SAVED, TERM, remake(A, 50), START, TAKEN, KILL, remake(A, 30), START, TAKEN],
    arrived: 85,
  },
  {
    title: 'V#23076 FB#8025: the same again and again while it runs, with the same first line',
    setup: { header: true, rotateWaitMs: 200, scanMs: 20 },
    steps: [START, ...Array.from({ length: 8 }, (_, i): Step[] => [remake(A, 3 + i), TAKEN, pause(60)]).flat()],
    arrived: 8 * 3 + 28 + 8,
  },
  {
    title: 'V#22954 FB#1330: rotated while nothing runs, with lines that were not read',
    steps: [START, append(A, 10), SAVED, TERM, append(A, 10), rotate(A), append(A, 5), rotate(B), START, TAKEN],
    arrived: 25,
  },
  {
    title: 'V#22954 FB#1330: the same after a kill, where the rotated name is in the pattern',
    setup: { glob: 'wide' },
    steps: [START, append(A, 10), SAVED, append(A, 9), KILL, append(A, 10), rotate(A), append(A, 5), START, TAKEN],
    arrived: 34,
    repeated: true,
  },
  {
    title: 'V#20512: names go round, all of them in the pattern',
    setup: { glob: 'wide' },
    steps: [
      ...[START, append(A, 5), append(B, 6), append(C, 7), TAKEN],
      ...[1, 2, 3].flatMap((n): Step[] => [{ do: 'swap', slots: [A, B, C] }, append(A, n), append(B, n), append(C, n)]),
      ...[TAKEN, rotate(A), rotate(A), append(A, 4), rotate(A), append(A, 2), TAKEN],
      ...[TERM, { do: 'swap', slots: [A, B] } as Step, append(A, 1), append(B, 1), START, TAKEN],
    ],
    arrived: 18 + 18 + 6 + 2,
  },
  {
    title:
      'B#45300 B#39731 B#38070: copied and truncated while it runs, down to nothing, to less and to more than before',
    steps: [
      ...[START, append(A, 20), copyTruncate(A, 0), append(A, 5), copyTruncate(A, 1), copyTruncate(A, 40)],
      ...[append(A, 3), copyTruncate(A, 60), TAKEN],
    ],
    arrived: 20 + 5 + 1 + 40 + 3 + 60,
  },
  {
    title: 'B#45300 B#39731 B#38070: copied and truncated while nothing runs, and longer than before at the start',
    steps: [
      ...[START, append(A, 10), append(B, 10), append(C, 10), SAVED, TERM],
      ...[copyTruncate(A, 50), copyTruncate(B, 2), copyTruncate(C, 0), START, TAKEN],
    ],
    arrived: 82,
  },
  {
    title: 'V#5833 V#643 OT#10481: files that begin with the same line, and empty ones that fill later',
    setup: { header: true, glob: 'wide' },
    steps: [
      ...[START, { do: 'empty', slot: C } as Step, append(A, 0), append(B, 0), append(A, 3), append(B, 3), SAVED, TERM],
      ...[rotate(A), append(A, 2), { do: 'empty', slot: C } as Step, START, append(C, 4), TAKEN],
    ],
    // Of them four that are the same.
    arrived: 12 + 4,
  },
  {
    title: 'V#18341 OT#4849: a last line without its end goes out after its time, and its rest when it comes',
    setup: { format: 'text', partialMs: 40 },
    steps: [
      START,
      append(A, 3, { tear: 0.4 }),
      pause(250),
      TAKEN,
      append(A, 2),
      TAKEN,
      append(B, 0, { tear: 0.9 }),
      pause(250),
    ],
    arrived: 7,
  },
  {
    title: 'OT#32170: and not before that, however the file is looked at, rotated or the daemon started again',
    setup: { scanMs: 20 },
    steps: [
      ...[START, append(A, 2, { tear: 0.3 }), TAKEN, pause(250), keepRotated(A), pause(60), TERM, START, pause(60)],
      ...[late(1), append(A, 1, { tear: 0.7 }), TAKEN, KILL, START, pause(250), append(A, 1), TAKEN],
    ],
    arrived: 2 + 1 + 1 + 1 + 1 + 1,
    repeated: true,
  },
  {
    title: 'FB#11265: a line that is unfinished at the end of the daemon is read whole by the next one',
    steps: [START, append(A, 5, { tear: 0.5 }), TAKEN, TERM, append(A, 1), START, TAKEN],
    arrived: 7,
  },
  {
    title: 'FB#3488: lines that are far too long, between others, with restarts in the middle of them',
    setup: { format: 'text', lineBytes: 1024, batchEvents: 7 },
    steps: [
      ...[append(A, 2), append(A, 2, { bytes: 100_000 }), append(A, 2), START, TAKEN],
      ...[append(A, 3, { bytes: 100_000, tear: 0.5 }), pause(20), KILL, START, append(A, 1), TAKEN, TERM, START],
    ],
    arrived: 2 + 2 + 2 + 3 + 1 + 1,
    repeated: true,
  },
  {
    title: 'FB#2846 OT#45120 V#15939: the output is down, and no position moves on over what was not delivered',
    steps: [
      ...[START, append(A, 5), SAVED, GONE, append(A, 50), rotate(A), append(A, 50), pause(1500), KILL],
      ...[START, pause(1500), TERM, START, pause(250), HEAL, TAKEN],
    ],
    arrived: 105,
  },
  {
    title:
      'FB#2846 OT#45120 V#15939: the same with a receiver that says it is busy, or takes everything and says nothing',
    setup: { inFlight: 4, batchEvents: 7, timeoutMs: 400 },
    steps: [
      ...[
        START,
        { do: 'receiver', fault: { fault: 'status', status: 503 } } as Step,
        append(A, 50),
        pause(1200),
        KILL,
        START,
      ],
      ...[
        { do: 'receiver', fault: { fault: 'hang', when: 'after', stored: false } } as Step,
        append(A, 50),
        pause(1200),
      ],
      ...[TERM, START, HEAL, TAKEN],
    ],
    arrived: 100,
    // A receiver on a busy machine may answer too late.
    repeated: true,
  },
  {
    title: 'V#10870: 401 and 403 are not final: with another key everything goes on, in the next run too',
    steps: [
      ...[START, append(A, 5), TAKEN, refuse(401), append(A, 50), pause(1200), rotate(A), append(A, 5), HEAL, TAKEN],
      ...[refuse(403), append(A, 5), pause(250), TERM, append(A, 5), START, pause(250), HEAL, TAKEN],
    ],
    arrived: 70,
  },
  {
    title: 'FB#11130: what is being retried when the daemon is told to end is not thrown away',
    setup: { inFlight: 4, batchEvents: 7 },
    steps: [
      ...[START, { do: 'receiver', fault: { fault: 'status', status: 500 } } as Step, append(A, 100), append(B, 100)],
      ...[pause(250), TERM, START, pause(60), TERM, HEAL, START, TAKEN],
    ],
    arrived: 200,
  },
  {
    title: 'V#20753: the checkpoint is empty after a kill: what is there is read again, and nothing is left out',
    steps: [
      ...[START, append(A, 10), append(LINK, 5), SAVED, KILL, append(A, 5)],
      ...[{ do: 'damage', which: 'both', how: 'empty', at: 0 } as Step, START, TAKEN, SAVED, append(A, 5), KILL],
      ...[{ do: 'damage', which: 'newest', how: 'cut', at: 0.5 } as Step, START, TAKEN],
    ],
    arrived: 25,
    repeated: true,
  },
]

for (const { title, setup, steps, arrived, repeated } of REPORTS) {
  t.test(title, async t => {
    const { counts } = await performIn(t, scenario(title, setup ?? {}, steps))
    // One more is written at the end of each run, and a torn line is finished there.
    t.equal(counts.arrived - 1, arrived, 'every line')
    if (!repeated) t.equal(counts.repeated, 0, 'once')
    t.same(counts.lost, {}, 'none of them was lost by nature')
  })
}

t.test(
  'V#22064: one destination is dead: with a buffer of its own it stops nobody, without one only its sources',
  async t => {
    const folder = testFolder(t, { 'shared.log': '', 'own.log': '', 'other.log': '' })
    const url = `http://${HOST}:${await ownPort()}/`
    const receiver = await startReceiver()
    t.teardown(() => receiver.close())
    const config = `
sources:
  shared: { type: file, include: [shared.log] }
  own: { type: file, include: [own.log] }
  other: { type: file, include: [other.log] }
destinations:
  dead_buffered: { type: http, inputs: [shared], url: "${url}", buffer: { type: disk }, retry: { max: 50ms } }
  dead: { type: http, inputs: [own], url: "${url}", retry: { max: 50ms } }
  alive: { type: http, inputs: [shared, other], url: "${receiver.url()}", encoding: raw, batch: { max_wait: 5ms } }
`
    const daemon = await startDaemon(t, folder, config)
    let written = 0
    const write = (name: string, lines: number) => {
      const text = Array.from({ length: lines }, () => `${name} ${String(written++).padStart(990, ' ')}\n`).join('')
      appendFileSync(join(folder, `${name}.log`), text)
    }
    // More than a source may have under way.
    for (let i = 0; i < 40; i++) {
      write('shared', 1000)
      write('own', 1000)
      write('other', 100)
    }
    await daemon.scrapedUntil(scrape => scrape.events('alive').sent === 44_000)
    t.equal(receiver.lines().length, 44_000)
    const scrape = await daemon.scrapedUntil(
      scrape => scrape.sum('sluice_buffer_events', { component_id: 'dead_buffered' }) === 40_000,
    )
    t.equal(scrape.events('dead_buffered').sent + scrape.events('dead').sent, 0)
    scrape.conserves(t)
  },
)
