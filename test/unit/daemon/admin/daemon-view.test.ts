import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { liveBetween } from '../../../../src/cli/inspect/graph.js'
import { backlogLines, oldestLines } from '../../../../src/cli/inspect/screen-parts.js'
import { statusLines } from '../../../../src/cli/inspect/status.js'
import { redrawn, screen } from '../../../../src/cli/inspect/top.js'
import { type DaemonView, rateOf, statusAt, table, terminalOf } from '../../../../src/daemon/admin/daemon-view.js'
import {
  beginning,
  cutAt,
  displayWidth,
  ending,
  padStart,
  wrap,
  wrapIndented,
} from '../../../../src/daemon/process/wrap.js'
import { problemsOf } from '../../../../src/daemon/status/problems.js'
import { Metrics } from '../../../../src/engine/run/measure/metrics.js'
import { printable } from '../../../../src/lib/printable.js'
import { clockTime, short } from '../../../../src/lib/units.js'
import { seriesIn } from '../../../support/series.js'

const LONG = 'a_component_with_a_name_that_is_much_longer_than_there_is_room_for'

function view(at: number, n: number): DaemonView {
  const numbers = (received: number, sent: number, discarded: number) => ({
    received,
    received_bytes: received * 100,
    sent,
    discarded,
    ...(discarded > 0 && { discarded_for: { throttled: discarded } }),
    in_flight: received - sent - discarded,
  })
  const reason = `401 from POST http://127.0.0.1/: \x1b[2J${'the key has expired; '.repeat(30)}`
  return {
    at,
    wall: 0,
    ready: false,
    destinations: [{ id: 'out', state: 'holding', reason }],
    sources: [],
    processors: [],
    waiting: [],
    waiting_for: [{ id: 'in', for: [LONG], since: '2026-01-01T00:00:00.000Z' }],
    backlog: [],
    problems: [
      {
        what: `out is holding: ${reason}`,
        todo: 'No events are lost. Delivery resumes by itself when the cause is corrected.',
      },
    ],
    notices: [],
    bottleneck: { id: 'out', share: 0.967 },
    components: [
      { id: 'in', kind: 'source', type: 'file', state: '1 file, 123MB unread', ...numbers(1000 * n, 1000 * n, 0) },
      {
        id: LONG,
        kind: 'processor',
        type: 'throttle',
        state: '3 keys',
        blocked_inputs: ['in'],
        ...numbers(1000 * n, 100 * n, 900 * n),
      },
      { id: 'out', kind: 'destination', type: 'http', state: 'holding, 100 buffered', ...numbers(100 * n, 0, 0) },
    ],
  } as unknown as DaemonView
}

t.test('a screen of 80 columns and 24 lines, whatever the names and the problems', async t => {
  const keys = ['a', 'b\x1b[31m', null, `${'k'.repeat(300)}`, 'e', 'f'].map(key => ({ key, passed: 10, discarded: 90 }))
  const text = screen(view(0, 1), view(2, 3), 80, [{ id: LONG, seconds: 2, exact: false, keys }])
  const lines = text.trimEnd().split('\n')
  t.ok(lines.length <= 23, `${lines.length} lines`)
  t.ok(lines.every(line => line.length <= 80))
  t.notMatch(text, '\x1b', 'nothing of what came from outside moves the cursor')
  t.match(text, /^in +1\.00k +100k +1\.00k +0 +0 {2}1 file, 123MB unread$/m)
  t.match(text, /^a_comp…m_for .* 3 keys$/m)
  t.match(text, /^out .* holding, 100 buffered$/m)
  t.match(text, /^The bottleneck is out: it was busy 97 % of the time lately\.$/m)
  t.match(text, /busiest keys \(a sample\)|…\s+passed\/s/)
  t.match(text, /^\(no key\) +5 +45$/m)
  t.match(text, /^b\\u\{1b\}\[31m +5 +45$/m)
  t.notMatch(text, /^f /m, 'the busiest five')
  t.match(text, /\n! out is holding: 401.*\n[\s\S]*see sluice status\n$/)
})

t.test('at 80 columns status cuts no word of a state, and its counts add up', async t => {
  const state = 'failing, 100 buffered, waits for the slow receiver behind the firewall, 3 files, 123MB unread'
  const { components: _, ...rest } = view(0, 1)
  const sums = {
    id: 'sums',
    kind: 'processor',
    type: 'aggregate',
    state,
    emitted: 5,
    consumed: 7,
    ...{ received: 10, sent: 6, discarded: 2, in_flight: 0 },
  }
  const shown = { ...rest, components: [sums] } as unknown as DaemonView
  const lines = statusLines(shown, { width: 80, height: 24, color: false })
  t.ok(lines.every(line => line.length <= 80))
  const first = lines.findIndex(line => /^sum.* failing,/.test(line))
  const [, numbersOf, begun] = /^sum.*?((?: +\d+){6}) {2}(\S.*)$/.exec(lines[first]!)!
  const [into, out, discarded, emitted, consumed, flying] = numbersOf!.trim().split(/ +/).map(Number)
  t.match(lines.join('\n'), /^comp\S* +in +out +discarded +emitted +consumed +in flight$/m)
  t.equal(into! + emitted!, out! + discarded! + consumed! + flying!)
  const following = lines.slice(first + 1)
  const more = following.slice(
    0,
    following.findIndex(line => !line.startsWith('   ')),
  )
  t.equal([begun, ...more].map(line => line!.trim()).join(' '), state, 'whole words, on several lines')
})

t.test('characters that take two columns of a terminal', async t => {
  const wide = '漢'.repeat(19)
  t.same(
    table(
      [
        ['key', 'in all'],
        [wide, '5'],
        ['👍👍👍👍👍👍', '12'],
        ['e\u0301', '1'],
      ],
      30,
    ),
    [
      `key${' '.repeat(19)}  in all`,
      `${'漢'.repeat(5)}…${'漢'.repeat(5)}        5`,
      `👍👍👍👍👍👍${' '.repeat(10)}      12`,
      `e\u0301${' '.repeat(21)}       1`,
    ],
  )
  const cut = table([[`${'😀'.repeat(30)}`, '1']], 20)[0]!
  t.ok(cut.isWellFormed(), 'no character is halved')
  t.ok([...cut].reduce((sum, char) => sum + (char === '😀' ? 2 : 1), 0) <= 20)
})

t.test(
  'status on 80 columns: what is wrong with each, the same advice once, and the files furthest behind',
  async t => {
    const usual = view(0, 1)
    const failing = ['up', 'out', LONG].map(id => ({
      id,
      state: 'retrying',
      reason: '503 from POST https://logs.example.com/: busy',
      since: new Date(-60_000).toISOString(),
      failures: 3,
    }))
    const backlog = [5, 700, 30, 2000, 1, 60].map((bytes, n) => {
      return { component: 'in', name: `/var/log/${n}.log`, bytes }
    })
    const since = new Date(usual.wall - 60_000).toISOString()
    const seen = { ...usual, backlog, destinations: failing as unknown as DaemonView['destinations'] }
    const { problems } = problemsOf({ ...seen, sources: [], processors: [], metrics: new Metrics(pino()) })
    const shown = { ...seen, problems, reloading_since: since }
    const lines = statusLines(shown, { width: 80, height: 24, color: false })
    t.same(
      lines.filter(line => line.length > 80),
      [],
    )
    const text = lines.join('\n')
    t.match(text, `\nReloading since ${clockTime(since, usual.wall)}.\n`)
    t.equal(text.match(/^! /gm)!.length, 3)
    t.equal(text.match(/No events are lost/g)!.length, 1)
    t.equal(text.match(/3 failed attempts/g)!.length, 3)
    const [, listed] = text.split('files furthest behind')
    t.same(
      listed!.match(/\d\.log \(in\)/g),
      [3, 1, 5, 2, 0].map(n => `${n}.log (in)`),
      'the first five of those that have more to read',
    )
  },
)

t.test('what flows between two moments', async t => {
  const live = liveBetween(view(0, 1), view(2, 3))
  t.same(live.component(LONG), {
    numbers: '1.00k/s in, 100/s out, 900/s discarded',
    state: '3 keys',
    held: true,
    blocked: ['in'],
  })
  t.match(live.component('in'), { held: false, blocked: [] })
  t.match(live.component('out'), { numbers: '100/s in, 0/s out, 300 in flight', held: true })
  t.equal(live.component('gone'), undefined)
  t.same([live.flow(LONG, undefined), live.flow(LONG, 'discarded')], ['100/s', '900/s'])
  t.equal(
    rateOf(view(2, 3), view(4, 1), 'in', one => one.received),
    0,
    'a new start',
  )
})

t.test('numbers in at most five places', async t => {
  t.same([999, 9_994_000, 9_999_602, 99_960_000, 999_900].map(short), ['999', '9.99M', '10.0M', '100M', '1.00M'])
})

t.test('what a terminal is told', async t => {
  const look = (stdout: object, env: object = {}) => terminalOf({ stdout, env } as Parameters<typeof terminalOf>[0])
  const terminal = { isTTY: true, columns: 100, rows: 30 }
  t.same(look(terminal), { width: 100, height: 30, color: true })
  t.same(look(terminal, { NO_COLOR: '1' }), { width: 100, height: 30, color: false })
  t.same(look(terminal, { TERM: 'dumb' }), { width: 100, height: undefined, color: false })
  t.same(look({}), { width: 80, height: undefined, color: false })
  t.equal(printable('a\x07\u202eb\tc – ü'), 'a\\u{7}\\u{202e}b\\u{9}c – ü')
  t.same(wrap('one two three', 8, '  '), ['one two', '  three'])
  t.same(wrap('one twothreefourfive', 8, '  '), ['one', '  twothreefourfive'])
  t.same(wrap('漢字 漢字 漢字', 10, ''), ['漢字 漢字', '漢字'])
  t.same(wrapIndented('漢字漢字漢字', 9), ['漢字漢字', '    漢字'])
})

t.test('no cut goes through a character, and every character has its columns', async t => {
  const flag = '🇩🇪'
  const accented = 'e\u0301'
  const heart = '❤\ufe0f'
  t.same([flag, accented, heart, '漢', '😀', '한'].map(displayWidth), [2, 1, 2, 2, 2, 2])
  t.equal(beginning(`${flag}${flag}`, 3), flag)
  t.equal(ending(`${flag}${flag}`, 3), flag)
  t.equal(ending(`a${accented}`, 1), accented)
  t.equal(padStart(flag, 4), `  ${flag}`)
  t.equal(cutAt(`a😀`, 2), 'a')
  t.equal(cutAt(`${flag}${flag}`, 5), flag)
  t.equal(cutAt('abc', 5), 'abc')
  t.same(wrapIndented(flag.repeat(5), 8), [flag.repeat(4), `    ${flag}`])
  // Of such a character, no terminal knows how wide it is: it is cut where it must be.
  const widest = `क${'ा'.repeat(30)}`
  const parts = wrapIndented(widest, 8)
  t.ok(parts.length > 1)
  t.equal(parts.map((part, i) => (i === 0 ? part : part.slice(4))).join(''), widest)
})

t.test('a table is as wide as it may be, and a screen that is drawn again has no longer lines', async t => {
  const rows = [
    ['host', 'version'],
    ['漢'.repeat(19), '한국어'],
  ]
  t.same(table(rows, 24).map(displayWidth), [24, 24])
  const drawn = redrawn(`! ${'漢'.repeat(30)}\n  ${'/x'.repeat(40)}\n`, 21, 10, false)
  const lines = drawn.split('\n').map(line => displayWidth(line))
  t.ok(Math.max(...lines) <= 21, drawn)
})

t.test('keys are shown with their buckets, and where discarded events go', async t => {
  const discarded_since = '2026-11-28T09:12:05Z'
  const bucket = { limit: 100, used: 40, discarded_last_hour: 1234, discarded_since, is_exact: true }
  const keys = [
    { key: 'a', passed: 10, discarded: 90, bucket },
    { key: null, passed: 10, discarded: 90, bucket: { discarded_last_hour: 7, discarded_since, is_exact: false } },
  ]
  const about = { id: 'lim', seconds: 2, exact: true, keys }
  const text = screen(view(0, 1), view(2, 3), 80, [{ ...about, discarded_to: ['held_back', 'again'] }])
  t.match(text, /^lim: busiest keys +passed\/s +discard\/s +window +discard\/h$/m)
  t.match(text, /^a +5 +45 +40\/100 +1\.23k$/m)
  t.match(text, /^\(no key\) +5 +45 +~7$/m)
  t.match(text, /^discarded events go to held_back, again$/m)
  const shown = (readers: string[] | null) => screen(view(0, 1), view(2, 3), 80, [{ ...about, discarded_to: readers }])
  t.match(shown([]), /^discarded events are only counted/m)
  t.match(shown(null), /^mode: shadow: these events pass/m)
})

t.test('the age of the oldest event of each destination, also while nothing fails', async t => {
  const lines = (ages: Readonly<Record<string, number>>) => {
    const destinations = Object.entries(ages).map(([id, seconds]) => {
      return { id, state: 'ready', reason: undefined, oldest_event: new Date(-seconds * 1000).toISOString() }
    })
    return oldestLines({ wall: 0, destinations: [...destinations, { id: 'c', state: 'ready', reason: undefined }] }, 80)
  }
  t.same(lines({ a: 0.9 }), [])
  t.same(lines({ a: 2, b: 125.4 }), ['', 'Oldest event to deliver: b 2m 5s, a 2s'])
})

t.test('buffers and spools that hold events, the fullest first', async t => {
  const stored = (kind: 'buffer' | 'spool', id: string, used_bytes: number, max_bytes: number, events = 7) => ({
    id,
    state: 'ready',
    reason: undefined,
    oldest_event: new Date(-65_000).toISOString(),
    [kind]: { events, used_bytes, max_bytes, open: 2, closed: 1 },
  })
  const destinations = [
    stored('buffer', 'a', 100, 1000),
    stored('buffer', 'b', 90, 100),
    stored('buffer', 'none', 90, 100, 0),
    stored('spool', 's', 3000, 2000),
  ]
  const lines = backlogLines({ ...view(0, 1), destinations }, 80, 5).map(line => line.replace(/ +/g, ' '))
  t.same(lines, [
    '',
    'disk buffers events used room left',
    'b 7 90B 10B',
    'a 7 100B 900B',
    '',
    'spools events open objects closed oldest used room left',
    's 7 2 1 1m 5s 3.00kB 0B',
  ])
})

t.test('a daemon with a page shows exact numbers of the last minute of each key', async t => {
  const keys = [
    { key: 'a', passed: 10, discarded: 90 },
    { key: null, passed: 1, discarded: 0 },
  ]
  const since = new Date(2026, 10, 28, 9, 12, 5).toISOString()
  const counted = new Map([['a', { last_minute: { passed: 1234, discarded: 5_678_901 }, since }]])
  const now = { ...view(2, 3), wall: Date.parse(since) }
  const about = { id: 'limit_apps', seconds: 2, exact: true }
  const text = screen(view(0, 1), now, 80, [{ ...about, keys, counted }])
  t.match(text, /^limit_apps: keys +passed\/s +discard\/s +passed\/min +discard\/min$/m)
  t.match(text, /^a +5 +45 +1,234 +5,678,901$/m)
  t.match(text, /^\(no key\) +0\.5 +0$/m, 'a key that was not counted yet')
  const bucket = { limit: 100, used: 40, discarded_last_hour: 1234, discarded_since: since, is_exact: true }
  const more = screen(view(0, 1), now, 80, [{ ...about, keys: keys.map(key => ({ ...key, bucket })), counted }])
  t.match(more, /^limit_apps: keys +passed\/s +discard\/s +passed\/min +discard\/min +window +since$/m)
  t.match(more, /^a +5 +45 +1,234 +5,678,901 +40\/100 +09:12:05$/m)
  t.match(more, /^\(no key\) +0\.5 +0 +40\/100$/m)
})

t.test('keys with line ends of any kind are read', async t => {
  const series = seriesIn('a_total{key="x\r\u2028\\n\\"y"} 3\n')
  t.same(series.all('a_total'), [{ labels: { key: 'x\r\u2028\n"y' }, value: 3 }])
})

t.test('a daemon that hangs accepts connections and does not answer', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'view-'))
  const socket = join(folder, 's.sock')
  const server = createServer(() => {})
  await new Promise<void>(resolve => server.listen(socket, resolve))
  t.teardown(() => {
    server.close()
    rmSync(folder, { recursive: true })
  })
  await t.rejects(statusAt(socket, 50), { message: `the daemon at ${socket} does not answer` })
})
