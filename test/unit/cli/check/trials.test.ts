import t from 'tap'
import { TimeSlots } from '../../../../src/cli/check/simulate/slots.js'
import { Trials } from '../../../../src/cli/check/simulate/trials.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { throttleStage } from '../../../support/throttle-stage.js'

t.test('of events over the limit of the default bucket, as many of each key pass as in the daemon', async t => {
  const config = {
    limit: 1,
    window: '1s',
    key_field: '.app',
    max_keys: 1,
    on_max_keys: 'default_bucket',
    over_limit: { pass_one_in: 2 },
  }
  const events = ['a', 'b', 'b', 'b', 'c', undefined, 'a', 'c', 'a', undefined, 'b', 'c'].map((app, n) => ({ app, n }))
  const origin = originOf('json')
  const context = {
    field: (path: ConstructorParameters<typeof FieldReader>[0]) => new FieldReader(path, origin.wanted),
  }
  const trials = new Trials([throttle.options.parse(config)], context, new TimeSlots(), { wantsDecisions: true })
  const [batch] = batchesOf(events.map(event => `${JSON.stringify(event)}\n`).join(''), origin)
  trials.enter(batch!)
  for (let i = 0; i < events.length; i++) trials.visit(batch!, i, 0, -1, i)
  const decided = trials
    .takeDecisions()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { n: number; decision: string; bucket: string | null })
  const { through } = await throttleStage(config)
  const { passed } = await through(events)
  t.same(
    decided.filter(({ decision }) => decision === 'pass').map(({ n }) => n),
    passed.map(line => JSON.parse(line).n),
  )
  t.same(
    decided.map(({ decision, bucket }) => `${bucket ?? ''}${decision === 'pass' ? '+' : '-'}`),
    // Room is for the count of b alone: all others share one.
    'a+ + - + - + a- + a- + - -'.split(' '),
  )
})
