import t from 'tap'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { RequestBodies } from '../../../../src/net/http/client/request-bodies.js'
import { events } from '../../../support/destination.js'

t.test('memory of a body is used again once nothing reads it', async t => {
  let released = 0
  const encode = () => ({ parts: [Buffer.from('body')], bytes: 4, release: () => void released++ })
  const after = async (
    compression: 'none' | 'gzip',
    use: (bodies: RequestBodies, request: EventBatch[]) => unknown,
  ) => {
    released = 0
    await use(new RequestBodies(encode, compression), events(1))
    return released
  }
  const once = await after('none', async (bodies, request) => {
    await bodies.of(request)
    t.equal(released, 0, 'not while it is being sent')
    bodies.delivered(request)
  })
  t.equal(once, 1)
  const again = await after('none', async (bodies, request) => {
    await bodies.of(request)
    await bodies.of(request)
    bodies.delivered(request)
  })
  t.equal(again, 0, 'an earlier attempt may still read it')
  const compressed = await after('gzip', async (bodies, request) => {
    await bodies.of(request)
    t.equal(released, 1)
    await bodies.of(request)
    bodies.delivered(request)
  })
  t.equal(compressed, 1)
  t.equal(await after('none', (bodies, request) => bodies.sizeOf(request, 3)), 1, 'it is not sent')
})
