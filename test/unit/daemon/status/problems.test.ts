import { join } from 'node:path'
import t from 'tap'
import { type Observed, problemsOf } from '../../../../src/daemon/status/problems.js'
import { testFolder } from '../../../support/folder.js'
import { seriesIn } from '../../../support/series.js'

function view(
  destinations: readonly object[],
  series: readonly string[],
  components: Observed['components'] = [],
): Observed {
  return {
    wall: 0,
    series: seriesIn(series.join('\n')),
    components,
    destinations: destinations as Observed['destinations'],
    sources: [],
    processors: [],
  }
}

const discarded = (id: string, reason: string, value: number) =>
  `sluice_component_discarded_events_total{component_id="${id}",component_kind="destination",reason="${reason}"} ${value}`

t.test('what a destination rejects is lost, or a matter of its dead letters', async t => {
  const kept = 'sluice_dead_letter_events_total{component_id="kept",reason="status_400"} 3'
  const series = [discarded('kept', 'status_400', 3), discarded('dropped', 'status_400', 2), kept]
  const problems = problemsOf(
    view([], [...series, discarded('kept', 'given_back', 9), 'sluice_dead_letters{component_id="kept"} 0']),
  )
  t.match(problems, [
    {
      what: 'dropped has discarded 2 events since the daemon started: status_400',
      todo: /are lost.*on_reject is discard/,
    },
  ])
  t.equal(problems.length, 1, 'not what was kept and sent again, nor what a reload gave back')
})

t.test('what a processor discards on purpose is no problem, and what it could not process is one', async t => {
  const by = (id: string, reason: string) =>
    `sluice_component_discarded_events_total{component_id="${id}",component_kind="processor",reason="${reason}"} 4`
  const wanted = ['throttled', 'filtered', 'sampled', 'duplicate', 'dropped', 'empty', 'of_a_plugin']
  t.same(
    problemsOf(
      view(
        [],
        wanted.map(reason => by('p', reason)),
      ),
    ),
    [],
  )
  t.match(problemsOf(view([], [by('p', 'processing_failed'), by('r', 'unrouted'), by('t', 'late')])), [
    { what: /^p has discarded 4 events .*: processing_failed$/, todo: /on_error is discard/ },
    { what: /^r has discarded 4 events .*: unrouted$/, todo: /no component reads the output/ },
    { what: /^t has discarded 4 events .*: late$/, todo: /allowed_lateness/ },
  ])
})

t.test('a processor that passes on most events because it could not process them', async t => {
  const seen = (failed: number, ...more: string[]) =>
    problemsOf(
      view(
        [],
        [
          `sluice_component_errors_total{component_id="p",component_kind="processor",kind="processing"} ${failed}`,
          'sluice_component_received_events_total{component_id="p",component_kind="processor"} 6000',
          ...more,
        ],
      ),
    )
  t.match(seen(3000), [{ what: 'p could not process 3.00k of its 6.00k events', todo: /\.processing_error/ }])
  t.same(seen(2999), [], 'a few lines that are different')
  const discards = 'component_kind="processor",reason="processing_failed"} 4000'
  const [problem, other] = seen(4000, `sluice_component_discarded_events_total{component_id="p",${discards}`)
  t.match(problem, { what: /^p has discarded/ })
  t.equal(other, undefined, 'which is said of what is discarded')
})

t.test('dead letters: how many, how old, and commands that work', async t => {
  const folder = testFolder(t, { "it's.yaml": 'data_dir: /elsewhere' })
  const config = join(folder, "it's.yaml")
  const series = [
    'sluice_dead_letters{component_id="up"} 12',
    'sluice_dead_letters_age_seconds{component_id="up"} 7380',
  ]
  const [problem] = problemsOf({ ...view([], series), about: { config, data_dir: '/var/lib/x' } })
  const command = `sluice resend --config '${config.replace("'", "'\\''")}' --destination up /var/lib/x/dead-letter/up.ndjson`
  t.match(problem, {
    what: 'up: 12 events in the dead-letter queue, the oldest for 2h 3m',
    todo: /^The destination rejected them\. /,
    commands: [`${command} --dry-run`, command],
  })
  const [unprocessed] = problemsOf(
    view([], ['sluice_dead_letters{component_id="p"} 1'], [{ id: 'p', kind: 'processor', type: 'parse' }]),
  )
  const [blocked, ...others] = problemsOf(view([], ['sluice_dead_letters_unwritable{component_id="p"} 1']))
  t.match(blocked, { what: 'p: its dead-letter queue cannot be written', todo: /SLUICE_DEAD_LETTER/ })
  t.same(others, [])
  t.match(unprocessed, { what: /^p: 1 event/, todo: /^They could not be processed\. / })
})

t.test('an outage: since when, how often, and when it is tried again', async t => {
  const wall = Date.parse('2026-11-21T14:03:20Z')
  const at = (seconds: number) => new Date(wall + seconds * 1000).toISOString()
  const destination = {
    id: 'up',
    state: 'retrying',
    reason: '503',
    since: at(-125),
    failures: 12,
    last_failure: at(-8),
  }
  const detail = (more: object) => problemsOf({ ...view([{ ...destination, ...more }], []), wall })[0]!.detail
  const clock = (seconds: number) => new Date(wall + seconds * 1000).toTimeString().slice(0, 8)
  t.equal(
    detail({ next_attempt: at(8), oldest_event: at(-130) }),
    `Since ${clock(-125)} (2m 5s), 12 failed attempts, the last at ${clock(-8)}, the next in 8s. The oldest waiting event is 2m 10s old.`,
  )
  t.equal(
    detail({ failures: 1, next_attempt: at(0) }),
    `Since ${clock(-125)} (2m 5s), 1 failed attempt, the next one now.`,
  )
  t.match(detail({ since: at(-3 * 86_400) }), /^Since 2026-11-1\d \d\d:\d\d:\d\d \(72h/)

  const after = (sent: number) => {
    const series = [`sluice_component_sent_events_total{component_id="up"} ${sent}`]
    return problemsOf(view([{ ...destination, state: 'failing' }], series))[0]!.detail
  }
  t.match(after(0), /12 failed attempts.* It has delivered nothing since the daemon started\.$/)
  t.notMatch(after(1), /delivered nothing/)
})

t.test('nobody is told that no events are lost while some of them are dropped', async t => {
  const waits = [{ id: 'up', state: 'holding', reason: '401' }] as Observed['destinations']
  const [held] = problemsOf(view(waits, []))
  t.match(held, { what: 'up is holding: 401', todo: /^No events are lost/ })
  for (const state of ['holding', 'retrying']) {
    const some = [{ id: 'up', state, reason: 'no' }] as Observed['destinations']
    const [first, second] = problemsOf(view(some, [discarded('up', 'buffer_full', 5)]))
    t.match(first, { what: `up is ${state}: no`, todo: /did not fit were discarded/ })
    t.match(second, { what: /^up has discarded 5 events .*: buffer_full$/, todo: /^They are lost/ })
  }
})

t.test('a limits file that cannot be used is a problem while earlier rules are in use', async t => {
  const valid = (id: string, value: number) => `sluice_throttle_limits_file_valid{component_id="${id}"} ${value}`
  const read = 'sluice_throttle_limits_file_read_timestamp_seconds{component_id="bad"} 86400'
  t.match(problemsOf(view([], [valid('good', 1), valid('bad', 0), read])), [
    {
      what: 'bad: its limits file cannot be used; the rules that were read last stay in use',
      detail: /^They were read at .*\d\d:\d\d:\d\d\.$/,
      todo: /names the line/,
    },
  ])
})

t.test('buckets that cannot be saved are a problem', async t => {
  const unsaved = (id: string, value: number) => `sluice_throttle_state_unsaved{component_id="${id}"} ${value}`
  const found = problemsOf(view([], [unsaved('good', 0), unsaved('bad', 1)]))
  t.match(found, [{ what: 'bad: its buckets cannot be saved', todo: /data_dir full/ }])
  t.equal(found.length, 1)
})

t.test('a source that cannot read half of its lines as it should is a problem', async t => {
  const source = (id: string, lines: number, undecoded: number) => {
    const labels = `component_id="${id}",component_kind="source"`
    return [
      `sluice_component_received_events_total{${labels}} ${lines}`,
      `sluice_not_json_lines_total{component_id="${id}"} ${undecoded}`,
    ]
  }
  const all = [...source('new', 0, 0), ...source('good', 9, 4), ...source('bad', 900, 600), ...source('none', 1, 1)]
  const found = problemsOf(view([], all))
  t.same(
    found.map(({ what }) => what),
    ['bad: 600 of its 900 lines could not be read as json', 'none: 1 of its 1 line could not be read as json'],
  )
})

t.test('a quota that counts in a later period is a problem', async t => {
  const ahead = (id: string, value: number) =>
    `sluice_throttle_quota_ahead_timestamp_seconds{component_id="${id}"} ${value}`
  const found = problemsOf(view([], [ahead('good', 0), ahead('lim', 86_400 * 400)]))
  const what =
    /^lim: its events count in the quota of a later period until 1971-02-0\d \d\d:\d\d:\d\d, because the clock was set back$/
  t.match(found, [{ what, todo: /systemctl restart sluice/ }])
  t.equal(found.length, 1)
})

t.test('a source that is held back because too many of its events wait is a problem', async t => {
  const full = (id: string, value: number) => `sluice_component_waiting_full_sources{component_id="${id}"} ${value}`
  const found = problemsOf(view([], [full('good', 0), full('lim', 1)]))
  t.match(found, [{ what: /^lim has paused 1 source: /, todo: /max_delay or the wait of over_limit/ }])
  t.equal(found.length, 1)
})

t.test('events without a limit are a problem while all keys are in use', async t => {
  const throttle = (id: string, buckets: number, passed: number, mode = '') => [
    `sluice_throttle_events_total{component_id="${id}",decision="fail_open"${mode}} ${passed}`,
    `sluice_throttle_buckets{component_id="${id}"${mode}} ${buckets}`,
    `sluice_throttle_max_buckets{component_id="${id}"${mode}} 100`,
  ]
  const series = [
    ...throttle('full', 100, 7),
    ...throttle('again', 99, 7),
    ...throttle('fine', 100, 0),
    ...throttle('tried', 100, 7, ',mode="shadow"'),
    ...throttle('shared', 100, 7),
    'sluice_throttle_backend_up{component_id="shared"} 1',
  ]
  t.match(problemsOf(view([], series)), [
    { what: 'full has passed 7 events without a limit since the daemon started', todo: /Raise max_keys/ },
  ])
  t.equal(problemsOf(view([], series)).length, 1)
})

t.test('what throttles discard besides what is beyond their limits is told with what to do', async t => {
  for (const [reason, todo] of [
    [
      'throttled_backlog',
      /over the limit\. .*raise the limit, .*`on_backlog: pace`\. If it is `pace` already, .*max_delay\. If it is `credit`, without `scope: cluster`, raise max_credit/,
    ],
    ['max_keys', /Raise max_keys/],
    ['late', /allowed_lateness/],
    ['no_backend', /on_backend_failure/],
  ] as const)
    t.match(problemsOf(view([], [discarded('lim', reason, 5)])), [
      { what: new RegExp(`5 events .*: ${reason}$`), todo },
    ])
})

t.test('certificates that expire, and refused clients', async t => {
  const at = (days: number) => days * 86_400
  const expiry = (id: string, days: number) =>
    `sluice_tls_certificate_expiry_timestamp_seconds{component_id="${id}",option="cert_file",file="/${id}.pem"} ${at(days)}`
  const refused = (reason: string, total: number, age: number) => [
    `sluice_tls_refused_connections_total{component_id="in",reason="${reason}"} ${total}`,
    `sluice_tls_last_refusal_age_seconds{component_id="in",reason="${reason}"} ${age}`,
  ]
  const series = [expiry('good', 20), expiry('soon', 13), expiry('late', 9)]
  const clients = [...refused('no_certificate', 3, 70), ...refused('closed', 9, 1), ...refused('version', 2, 4000)]
  const problems = problemsOf({ ...view([], [...series, ...clients]), wall: at(10) * 1000 })
  t.match(problems, [
    {
      what: 'soon: the certificate in tls.cert_file (/soon.pem) expires on 1970-01-14',
      todo: /^Renew the certificate/,
    },
    { what: 'late: the certificate in tls.cert_file (/late.pem) expired on 1970-01-10' },
    { what: 'in refused 3 TLS connections (no_certificate), the last one 1m 10s ago', todo: /SLUICE_TLS_REFUSED/ },
  ])
  t.equal(problems.length, 3)
})

t.test('a file system that does not answer is reported, rather than that there are no files', async t => {
  const silent = 'sluice_file_systems_silent{component_id="in"}'
  const watched = 'sluice_files_watched{component_id="in"} 0'
  const [problem, ...more] = problemsOf(view([], [`${silent} 1`, watched]))
  t.match(problem, { what: 'in: 1 file system does not answer', todo: /SLUICE_FILE_SYSTEM_SILENT/ })
  t.same(more, [])
  t.match(problemsOf(view([], [`${silent} 0`, watched])), [{ what: /did not find any file to read/ }])
})

t.test('deleted files that are not delivered: events are safe only while the daemon runs', async t => {
  const up = { id: 'up', type: 'http', state: 'retrying' as const, reason: 'away' }
  const deleted = (bytes: number) => view([up], [`sluice_file_deleted_undelivered_bytes{component_id="in"} ${bytes}`])
  t.match(problemsOf(deleted(0)), [{ todo: /^No events are lost\. / }])
  t.match(problemsOf(deleted(12_000)), [
    { todo: /^No events are lost while the daemon runs\. / },
    { what: /^in: 12\.0kB of deleted files are not delivered/, todo: /^A restart loses them/ },
  ])
})

t.test(
  'a source that cannot read again: without a disk buffer, events are safe only while the daemon runs',
  async t => {
    const up = { id: 'up', type: 'http', state: 'holding' as const, reason: '401' }
    const from = (type: string) => [{ id: 'in', kind: 'source', type }]
    const isSafe = (type: string, series: string[] = []) =>
      /^No events are lost\. /.test(problemsOf(view([up], series, from(type)))[0]!.todo)
    t.same(
      ['file', 'journald', 'tcp', 'stdin'].map(type => isSafe(type)),
      [true, true, false, false],
    )
    t.ok(isSafe('tcp', ['sluice_buffer_max_bytes{component_id="up"} 1000000000']))
    t.notOk(isSafe('tcp', ['sluice_buffer_max_bytes{component_id="other"} 1000000000']))
  },
)

t.test('bytes of files that nobody can read any more', async t => {
  const lost = (bytes: number) => view([], [`sluice_file_lost_bytes_total{component_id="in"} ${bytes}`])
  t.match(problemsOf(lost(12_000)), [{ what: 'in has lost 12.0kB of its files since the daemon started' }])
  t.same(problemsOf(lost(0)), [])
  const files = ['a', 'b', 'c', 'd', 'e'].flatMap((name, i) => [
    `sluice_file_lost_bytes{component_id="in",file="/${name}.log"} ${(i + 1) * 1000}`,
    `sluice_file_lost_timestamp_seconds{component_id="in",file="/${name}.log"} ${i}`,
  ])
  const [problem] = problemsOf(view([], ['sluice_file_lost_bytes_total{component_id="in"} 15000', ...files]))
  t.match(
    problem!.detail,
    /^5.00kB of \/e.log \(last at 00:00:04\), 4.00kB of \/d.log .*, 3.00kB of \/c.log .* and 2 other files\.$/,
  )
})

t.test('what was delivered and cannot be noted', async t => {
  const series = (value: number) => [
    `sluice_checkpoint_age_seconds{component_id="old"} ${value * 90}`,
    `sluice_checkpoint_age_seconds{component_id="app"} ${value * 5}`,
    `sluice_checkpoint_unsaved{component_id="app"} ${value}`,
    `sluice_buffer_progress_unsaved{component_id="up",component_kind="destination"} ${value}`,
  ]
  t.match(problemsOf(view([], series(1))), [
    { what: 'old: its positions have not been saved for 90 s' },
    { what: 'app: its positions cannot be saved', detail: 'They have not been saved for 5 s.' },
    {
      what: 'up: its buffer cannot save which events were delivered',
      todo: /would get these events again.*SLUICE_BUFFER_LEDGER_NOT_WRITTEN/,
    },
  ])
  t.same(problemsOf(view([], series(0))), [])
})

t.test('of a file that cannot be read it is said what helps, also if its records cannot be delimited', async t => {
  const named = (cause: string) => [
    'sluice_files_unreadable{component_id="app"} 3',
    `sluice_file_unreadable{component_id="app",file="/var/log/a.log",cause="${cause}"} 1`,
    'sluice_file_unreadable{component_id="app",file="/var/log/b.log",cause="EIO"} 1',
  ]
  const advice = {
    EACCES: /^Let the user .*permission r/,
    'UTF-16': /^Write .*iconv -f UTF-16/,
    'UTF-32': /^Write .*iconv -f UTF-32/,
    'byte 4: x': /^Set decode .* include/,
  }
  for (const [cause, todo] of Object.entries(advice))
    t.match(problemsOf(view([], named(cause))), [
      {
        what: 'app: 3 files cannot be read',
        detail: `/var/log/a.log (${cause}), /var/log/b.log (EIO) and 1 other file.`,
        todo,
      },
    ])
})
