import { z } from 'zod'
import { byteSize, listenAddress, refuse, refuseAt, secret } from '../../core/options/options.js'
import { credentialName, filePath } from '../../core/options/reach.js'
import { isLocal } from '../../net/listen-options.js'

const PLACES = ['token', 'token_file', 'credential'] as const
/** Shorter tokens can be guessed. */
const SHORTEST_TOKEN = 16

/** Returns why a token cannot be used, without revealing the token. Undefined if the token can be used. */
export const tokenProblem = (token: string): string | undefined =>
  token.length < SHORTEST_TOKEN
    ? `the token has fewer than ${SHORTEST_TOKEN} characters; make one with: openssl rand -hex 32`
    : undefined

const options = z
  .strictObject({
    listen: listenAddress()
      .prefault('127.0.0.1:9599')
      .describe('HOST:PORT, or systemd:NAME. Addresses other than loopback require a token.'),
    token: secret()
      .optional()
      .describe('The token itself. Prefer an environment variable, as in ${SLUICE_PAGE_TOKEN}.'),
    token_file: filePath()
      .optional()
      .describe(
        'File that holds the token, which has at least 16 characters. It must not be readable by everyone (use mode 0600). It is read again when it changes.',
      ),
    credential: credentialName()
      .optional()
      .describe('Name of a systemd credential (LoadCredential=) that holds the token.'),
    memory: byteSize(1024 * 1024, 4 * 1024 * 1024 * 1024)
      .prefault('64MB')
      .describe('Memory for the data of the page. At most a quarter of it is for the numbers of the last hour.'),
  })
  .superRefine((page, context) => {
    const given = PLACES.filter(name => page[name] !== undefined)
    if (given.length > 1) refuse(context, `needs one of ${PLACES.join(', ')}; ${given.join(' and ')} given`)
    if (given.length === 0 && !isLocal(page.listen)) {
      const message =
        'may be reached from other machines, so the page needs a token; set token_file, or listen at 127.0.0.1'
      refuseAt(context, ['listen'], message)
    }
    const problem = page.token && tokenProblem(page.token.reveal())
    if (problem) refuseAt(context, ['token'], problem)
  })
export type StatusPageOptions = z.output<typeof options>

export const statusPage = z
  .union([z.literal(false), options], { error: 'must be false, or a mapping such as {listen: 127.0.0.1:9599}' })
  .default(false)
  .describe(
    'Serves the page of the daemon, which shows where events go, what is wrong, and which events are discarded by limits. On a loopback address, only texts of events require the token. Without this option, the daemon keeps no data for the page.',
  )
