import t from 'tap'
import { digest, encodeUri, queryText, sign } from '../../../../src/net/aws/sign.js'

/** The examples of "Signature Calculations for the Authorization Header" in the reference of Amazon S3. */
const KEYS = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }
const AT = Date.UTC(2013, 4, 24)
const host = 'examplebucket.s3.amazonaws.com'
const scope = { region: 'us-east-1', service: 's3' }
const none: Buffer[] = []

const EXAMPLES = [
  {
    title: 'GET of a part of an object',
    request: { method: 'GET', path: '/test.txt', query: {}, headers: { range: 'bytes=0-9' }, body: none },
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    title: 'PUT of an object with a storage class and a name that has to be encoded',
    request: {
      method: 'PUT',
      path: `/${encodeUri('test$file.text')}`,
      query: {},
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      body: [Buffer.from('Welcome to '), Buffer.from('Amazon S3.')],
    },
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  {
    title: 'a parameter without a value',
    request: { method: 'GET', path: '/', query: { lifecycle: '' }, headers: {}, body: none },
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  {
    title: 'a list of objects',
    request: { method: 'GET', path: '/', query: { prefix: 'J', 'max-keys': '2' }, headers: {}, body: none },
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
]

for (const { title, request, signature } of EXAMPLES)
  t.test(title, async t => {
    const headers = sign({ ...request, host }, KEYS, scope, AT)
    const [, signed] = /Signature=(\w+)$/.exec(headers.authorization!)!
    t.equal(signed, signature)
    t.match(headers, {
      'x-amz-date': '20130524T000000Z',
      'x-amz-content-sha256': digest('sha256', request.body).digest('hex'),
    })
  })

t.test('get-vanilla of the test suite of Signature Version 4', async t => {
  const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
  const request = { method: 'GET', host: 'example.amazonaws.com', path: '/', query: {}, headers: {}, body: none }
  const at = Date.UTC(2015, 7, 30, 12, 36)
  t.equal(
    sign(request, keys, { region: 'us-east-1', service: 'service' }, at).authorization,
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  )
})

t.test('a session token is signed, the query is sorted and encoded', async t => {
  const request = { method: 'GET', host, path: '/', query: {}, headers: {}, body: none }
  const headers = sign(request, { ...KEYS, sessionToken: 'token' }, scope, AT)
  t.match(headers, { 'x-amz-security-token': 'token', authorization: /;x-amz-security-token, Signature/ })
  t.equal(queryText({ uploadId: "a/b+c'*", partNumber: '1' }), 'partNumber=1&uploadId=a%2Fb%2Bc%27%2A')
})
