import t from 'tap'
import { compressionOf, RequestBody } from '../../../../src/net/http/client/request-body.js'

t.test('memory of a body is used again once nothing reads it', async t => {
  let released = 0
  const encoded = { parts: [Buffer.from('body')], bytes: 4, release: () => void released++ }
  const after = async (compression: 'none' | 'gzip', use: (body: RequestBody) => unknown) => {
    released = 0
    await use(new RequestBody(encoded, compressionOf(compression)))
    return released
  }
  const once = await after('none', async body => {
    await body.take()
    t.equal(released, 0, 'not while it is being sent')
    body.delivered()
  })
  t.equal(once, 1)
  const again = await after('none', async body => {
    await body.take()
    await body.take()
    body.delivered()
  })
  t.equal(again, 0, 'an earlier attempt may still read it')
  const compressed = await after('gzip', async body => {
    const first = await body.take()
    t.equal(released, 1)
    t.equal(await body.take(), first, 'it is compressed once')
    body.delivered()
  })
  t.equal(compressed, 1)
  t.equal(await after('none', body => body.release()), 1, 'it is not sent')
})
