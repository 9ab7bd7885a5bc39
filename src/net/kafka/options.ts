import { z } from 'zod'
import { once, refuse } from '../../core/options/options.js'
import { reaches } from '../../core/options/reach.js'
import { clientTlsOptions, dialOptions } from '../dial-options.js'
import { auth, checkAuth, USES } from '../key.js'
import { isLoopback } from '../urls.js'

const MOST_BROKERS = 100

/** Parses a list such as `[kafka-1:9092]`, or the same as a text with commas, to URLs. */
const brokers = once(() => {
  const schema = z
    .union([z.string(), z.array(z.string())], { error: 'must be a list, as in [kafka-1:9092, kafka-2:9092]' })
    .transform((input, context): readonly string[] => {
      const texts = typeof input === 'string' ? input.split(',') : input
      if (texts.length === 0 || texts.length > MOST_BROKERS) refuse(context, `must have 1 to ${MOST_BROKERS} brokers`)
      return texts.map((text, i) => {
        const [, host, port = '9092'] = /^(\[[\da-fA-F:.]+\]|[\w.-]+)(?::(\d{1,5}))?$/.exec(text.trim()) ?? []
        const url = `kafka://${host}:${port}`
        if (host !== undefined && URL.canParse(url)) return url
        const message = 'must be HOST:PORT, as in kafka-1.example.com:9092'
        const path = typeof input === 'string' ? [] : [i]
        context.addIssue({ code: 'custom', message, path, params: { constant: true, show: true } })
        return ''
      })
    })
  return reaches('urls', schema)
})

/** For each mechanism: its name in the protocol, and the options that the mechanism uses. */
export const MECHANISMS = {
  none: { name: undefined, uses: USES.none },
  plain: { name: 'PLAIN', uses: USES.password },
  scram_sha_256: { name: 'SCRAM-SHA-256', uses: USES.password },
  scram_sha_512: { name: 'SCRAM-SHA-512', uses: USES.password },
  oauthbearer: { name: 'OAUTHBEARER', uses: USES.key },
} as const

const { key, key_file, credential, exec, username, password, password_file } = auth.shape
const sasl = z
  .strictObject({
    type: z
      .enum(['none', 'plain', 'scram_sha_256', 'scram_sha_512', 'oauthbearer'])
      .prefault('none')
      .describe(
        'The SASL mechanism. plain, scram_sha_256, scram_sha_512: a user and a password. oauthbearer: a token. none: no authentication, or authentication by the certificate in `tls`.',
      ),
    username: username.describe('The user.'),
    password: password.describe('The password itself. Prefer an environment variable, as in ${KAFKA_PASSWORD}.'),
    password_file: password_file.describe('File that holds the password, read again when it changes.'),
    key: key.describe('With `oauthbearer`: the token itself.'),
    key_file: key_file.describe('With `oauthbearer`: file that holds the token, read again when it changes.'),
    credential: credential.describe(
      'Name of a systemd credential (LoadCredential=) that holds the password or the token.',
    ),
    exec: exec.describe(
      'Program, with its arguments, that prints the password or the token. It runs without a shell, for at most 10 seconds. After a rejection it runs again, at most every 10 seconds.',
    ),
  })
  .superRefine((auth, context) => checkAuth(auth, context, MECHANISMS[auth.type].uses, 'plain or scram_sha_512'))

export const clusterOptions = {
  brokers: brokers().describe(
    'Bootstrap brokers: a list of HOST:PORT, or a text with commas between them. One that answers is enough.',
  ),
  auth: sasl.prefault({}).describe('How connections are authenticated (SASL).'),
  connect_timeout: dialOptions.connect_timeout,
  proxy: dialOptions.proxy.describe(
    'A proxy between this machine and the brokers, used with CONNECT. environment: none if NO_PROXY lists the host; otherwise HTTPS_PROXY or HTTP_PROXY, or else ALL_PROXY.',
  ),
  tls: clientTlsOptions
    .optional()
    .describe(
      'Connects with TLS; `tls: {}` is enough if public authorities issued the certificates of the brokers. Certificates are always verified. Replaced files are used without a restart. Without this option, connections are not encrypted.',
    ),
}

export type KafkaClusterOptions = z.output<z.ZodObject<typeof clusterOptions>>

/** Whether anyone between this machine and the brokers can read the password or token. */
export const isSentPlainly = ({ auth, brokers, tls }: KafkaClusterOptions): boolean =>
  tls === undefined && /^(plain|oauth)/.test(auth.type) && !brokers.every(url => isLoopback(new URL(url).hostname))
