import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { showStored } from '../../../../src/engine/flow/almost-full.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { undecodedCounter } from '../../../../src/engine/flow/source-output.js'
import { problemsIn } from '../../../support/facts.js'

t.test('a source that cannot read half of its lines as it should is a problem', async t => {
  const seen = (lines: number, undecoded: number) =>
    problemsIn('in', metrics => {
      undecodedCounter(metrics, codecOf('json')!)!.value = undecoded
      metrics.received.events = lines
    }).map(({ what }) => what)
  t.same([...seen(0, 0), ...seen(9, 4)], [])
  t.same(seen(900, 600), ['in: 600 of its 900 lines could not be read as json'])
  t.same(seen(1, 1), ['in: 1 of its 1 line could not be read as json'])
})

t.test('a buffer or spool that is almost full is a problem', async t => {
  const seen = (kind: 'buffer' | 'spool', bytes: number, most: number) =>
    problemsIn('up', metrics => {
      showStored(
        metrics,
        kind,
        () => bytes,
        most,
        () => 7,
      )
      t.same([metrics.shown(), metrics.live], [['7 buffered'], { buffered_bytes: bytes }])
    })
  t.match(seen('buffer', 80, 100), [
    { what: 'up: its buffer is 80 % full (80B of 100B)', todo: /discards events, with when_full: drop_newest/ },
  ])
  t.match(seen('spool', 99, 100), [{ what: /^up: its spool is 99 % full/, todo: /its sources wait\. Raise spool/ }])
  t.same([...seen('buffer', 79, 100), ...seen('buffer', 5, 0)], [])
})

t.test('a number is shown in the state, to the page, and as a backlog; a successor replaces what it shows', async t => {
  const counters = new ComponentCounters('in', 'source', 'x')
  let samples = [1, 2].map(value => ({ labels: { file: `${value}.log` }, value }))
  counters.fact({
    name: 'unread',
    help: 'Unread bytes.',
    read: () => samples,
    shown: (bytes = 0) => bytes > 0 && `${bytes}B unread`,
    live: in_flight => ({ in_flight }),
    backlog: 'file',
  })
  for (const retries of [10, 20]) counters.counter('of', 'Retries.', {}, { live: () => ({ retries }) }).value++
  t.same(counters.shown(), ['3B unread'])
  t.same(counters.live, { in_flight: 3, retries: 20 })
  t.same(counters.backlog(), [
    { component: 'in', name: '1.log', bytes: 1 },
    { component: 'in', name: '2.log', bytes: 2 },
  ])
  samples = []
  t.same([counters.shown(), counters.live, counters.backlog()], [[], { retries: 20 }, []])
  samples = [{ labels: { file: 'a' }, value: 5 }]
  counters.retire()
  t.same([counters.shown(), counters.live, counters.backlog()], [[], { retries: 20 }, []])
})
