import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { ComponentContext } from '../../../../src/core/component.js'
import type { Reach } from '../../../../src/core/options/reach.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { systemClock } from '../../../../src/lib/time.js'
import { awsAuth } from '../../../../src/net/aws/auth-options.js'
import { AwsCredentials } from '../../../../src/net/aws/credentials.js'
import { receiver } from '../../../support/destination.js'
import { testFolder } from '../../../support/folder.js'
import type { Received } from '../../../support/receiver.js'

const signal = new AbortController().signal
const DIAL = { connect_timeout: 5000, tls: {}, proxy: undefined }
/** So much before they expire, credentials are fetched again. */
const EARLY_MS = 5 * 60_000

function credentials(t: Test, given: object, env: Record<string, string>, more: Partial<ComponentContext> = {}) {
  let logs = ''
  const log = pino({ base: null, level: 'trace' }, { write: line => void (logs += line) })
  const metrics = new ComponentCounters('out', 'destination', 's3')
  const context = { id: 'out', log, clock: systemClock, metrics, field: undefined as never, ...more }
  const made = new AwsCredentials(awsAuth.parse(given), DIAL, 'eu-central-1', context, env)
  t.teardown(() => made.stop())
  return { made, logs: () => logs }
}

const keys = (id: string, inMs?: number) => ({
  AccessKeyId: id,
  SecretAccessKey: `secret-of-${id}`,
  Token: `token-of-${id}`,
  ...(inMs !== undefined && { Expiration: new Date(Date.now() + inMs).toISOString() }),
})

t.test('a secret in a file is read again when it changes', async t => {
  const folder = testFolder(t, { secret: 'first-secret\n' })
  const file = join(folder, 'secret')
  const { made, logs } = credentials(t, { access_key_id: 'AKID', secret_access_key_file: file }, {})
  t.match(await made.current(signal), { accessKeyId: 'AKID', secretAccessKey: 'first-secret' })
  writeFileSync(file, 'another-secret')
  t.equal(await made.changed(), true)
  t.match(await made.current(signal), { secretAccessKey: 'another-secret' })
  t.notMatch(logs(), /first-secret|another-secret/)
})

t.test('a profile of the shared file', async t => {
  const folder = testFolder(t, {
    credentials:
      '# mine\n[default]\naws_access_key_id=A\naws_secret_access_key = a=b\n[other]\naws_access_key_id = B\n',
  })
  const file = join(folder, 'credentials')
  const { made } = credentials(t, {}, { AWS_SHARED_CREDENTIALS_FILE: file })
  t.match(await made.current(signal), { accessKeyId: 'A', secretAccessKey: 'a=b', sessionToken: undefined })
  const other = credentials(t, { credentials_file: file, profile: 'other' }, {}).made
  await t.rejects(other.current(signal), {
    failure: 'hold',
    message: /no credentials from .*: it lacks an access key ID/,
  })
  writeFileSync(file, '[other]\naws_access_key_id = B\naws_secret_access_key = b\naws_session_token = t\n')
  t.equal(await other.changed(), true)
  t.match(await other.current(signal), { accessKeyId: 'B', sessionToken: 't' })
  const missing = credentials(t, {}, { AWS_PROFILE: 'none', AWS_SHARED_CREDENTIALS_FILE: file }).made
  await t.rejects(missing.current(signal), /the profile "none" does not exist/)
})

t.test('the file of the user who runs it, where nothing else is named', async t => {
  const folder = testFolder(t, { '.aws': {} })
  const env = { HOME: folder, AWS_EC2_METADATA_DISABLED: 'true' }
  const { made } = credentials(t, {}, env)
  await t.rejects(made.current(signal), /EC2.*set "auth", AWS_ACCESS_KEY_ID or AWS_PROFILE/)
  writeFileSync(join(folder, '.aws/credentials'), '[other]\naws_access_key_id=A\naws_secret_access_key=a\n')
  await t.rejects(made.current(signal), /EC2/, 'which has no default profile')
  writeFileSync(join(folder, '.aws/credentials'), '[default]\r\naws_access_key_id=A\r\naws_secret_access_key=a\r\n')
  t.match(await made.current(signal), { accessKeyId: 'A', secretAccessKey: 'a' })
  const own = credentials(t, {}, { ...env, AWS_ACCESS_KEY_ID: 'B', AWS_SECRET_ACCESS_KEY: 'b' }).made
  t.match(await own.current(signal), { accessKeyId: 'B' })
})

t.test('the environment, which the configuration of somebody else does not get', async t => {
  const env = { AWS_ACCESS_KEY_ID: 'A', AWS_SECRET_ACCESS_KEY: 'a', AWS_SESSION_TOKEN: 't' }
  t.match(await credentials(t, {}, env).made.current(signal), { accessKeyId: 'A', sessionToken: 't' })
  const { made } = credentials(t, {}, env, { reach: {} as Reach })
  await t.rejects(made.current(signal), {
    failure: 'hold',
    message: /set "auth"; credentials of this host are not used/,
  })
})

t.test('the metadata service of EC2, version 2: fetched again before they expire', async t => {
  const at = await receiver(t)
  let ahead = 0
  const clock = { ...systemClock, now: () => performance.now() + ahead, wall: () => Date.now() + ahead }
  let [role, now] = ['my-role', keys('first', 3_600_000)]
  const metadata = ({ method, path, headers }: Received) => {
    if (method === 'PUT' && path === '/latest/api/token')
      return headers['x-aws-ec2-metadata-token-ttl-seconds'] ? { body: 'session' } : 400
    if (headers['x-aws-ec2-metadata-token'] !== 'session') return 401
    if (path.endsWith('/security-credentials/')) return { body: role }
    return path.endsWith(`/${role}`) ? { body: JSON.stringify({ Code: 'Success', ...now }, null, 2) } : 404
  }
  at.otherwise = metadata
  const env = { AWS_EC2_METADATA_SERVICE_ENDPOINT: at.url('/'), HOME: '/nowhere' }
  const { made, logs } = credentials(t, {}, env, { clock })
  const first = { accessKeyId: 'first', sessionToken: 'token-of-first' }
  t.match(await made.current(signal), first)
  ahead = 3_600_000 - EARLY_MS - 5000
  t.match(await made.current(signal), first)
  t.equal(at.requests.length, 3, 'they are kept')

  at.otherwise = 500
  ahead += 10_000
  t.match(await made.current(signal), first, 'they are valid for some minutes')
  t.match(logs(), /500 from PUT .*token.*cannot read the credentials again; keeping the current ones/)
  const asked = at.requests.length
  await made.current(signal)
  t.equal(at.requests.length, asked, 'not within ten seconds, as long as they are valid')
  ahead += EARLY_MS
  await t.rejects(made.current(signal), {
    failure: 'hold',
    reason: 'no_key',
    message: /^no credentials from the metadata service of EC2: 500 from PUT/,
  })

  at.otherwise = metadata
  ;[role, now] = ['another-role', keys('second', ahead + 3_600_000)]
  t.match(await made.current(signal), { accessKeyId: 'second', sessionToken: 'token-of-second' })
  t.notMatch(logs(), /secret-of|token-of/)
  for (const body of [
    '{"AccessKeyId":"secret-of-third"',
    'null',
    '[]',
    '{"AccessKeyId":{},"SecretAccessKey":"secret-of-third"}',
    '{"AccessKeyId":"A","SecretAccessKey":["secret-of-third"]}',
  ]) {
    at.otherwise = { body }
    const broken = credentials(t, {}, env)
    await t.rejects(
      broken.made.current(signal),
      {
        failure: 'hold',
        message: /^no credentials from the metadata service of EC2: the answer is not JSON with cred/,
      },
      body,
    )
  }
  at.otherwise = { body: JSON.stringify({ ...keys('fourth'), Token: 'line\n end' }) }
  const split = credentials(t, {}, env)
  await t.rejects(split.made.current(signal), { failure: 'hold', message: /session token has more than one line/ })
})

t.test('the endpoint of a container, with a token from a file', async t => {
  const folder = testFolder(t, { token: 'bearer-of-pod\n' })
  const at = await receiver(t, { authorization: 'bearer-of-pod' })
  at.otherwise = { body: JSON.stringify(keys('pod')) }
  const env = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: at.url('/v1/credentials'),
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(folder, 'token'),
  }
  t.match(await credentials(t, {}, env).made.current(signal), { accessKeyId: 'pod' })
  for (const url of ['http://192.0.2.1/', 'http://127.0.0.1.example.test/', 'http://localhost.example.test/']) {
    const far = credentials(t, {}, { AWS_CONTAINER_CREDENTIALS_FULL_URI: url }).made
    await t.rejects(far.current(signal), /must be https, or an address of this machine/, url)
  }
})

t.test('a web identity is exchanged for credentials', async t => {
  const folder = testFolder(t, { token: 'identity-token' })
  const at = await receiver(t)
  const { AccessKeyId, SecretAccessKey, Token } = keys('role')
  at.otherwise = {
    body: `<AssumeRoleWithWebIdentityResponse><Credentials><SessionToken>${Token}</SessionToken><SecretAccessKey>${SecretAccessKey}</SecretAccessKey><Expiration>2099-01-01T00:00:00Z</Expiration><AccessKeyId>${AccessKeyId}</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResponse>`,
  }
  const env = {
    AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'token'),
    AWS_ROLE_ARN: 'arn:aws:iam::1:role/logs',
    AWS_ENDPOINT_URL_STS: at.url('/'),
  }
  const { made } = credentials(t, {}, env)
  t.match(await made.current(signal), { accessKeyId: 'role', secretAccessKey: 'secret-of-role' })
  const sent = new URLSearchParams(at.requests[0]!.body)
  t.equal(sent.get('WebIdentityToken'), 'identity-token')
  t.equal(sent.get('RoleArn'), 'arn:aws:iam::1:role/logs')
  at.otherwise = 403
  const refused = credentials(t, {}, env).made
  await t.rejects(refused.current(signal), /no credentials from AssumeRoleWithWebIdentity: 403 from POST http/)
})

t.test('options that do not fit each other', async t => {
  const problem = (given: object) => awsAuth.safeParse(given).error?.issues[0]?.message
  t.match(problem({ access_key_id: 'A' }), /needs secret_access_key/)
  t.match(problem({ secret_access_key: 'a' }), /they need access_key_id/)
  t.match(problem({ access_key_id: 'A', secret_access_key: 'a', profile: 'p' }), /use either/)
  t.match(problem({ access_key_id: 'A', secret_access_key: 'a', secret_access_key_file: 'f' }), /use one of them/)
  t.match(problem({ session_token: 't' }), /needs access_key_id/)
  t.equal(problem({}), undefined)
})
