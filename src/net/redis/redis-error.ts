import { DeliveryError, errorText } from '../../core/errors.js'
import { hideSecrets } from '../../lib/formats/escapes.js'
import { printable } from '../../lib/printable.js'
import { RedisRefusal } from './connector.js'

/** Maximum characters of a reply that a message quotes. */
const LONGEST_TEXT = 500

export interface RedisProblem {
  /** The value of the metric label. */
  readonly kind: 'timeout' | 'connection' | 'denied' | 'refused'
  /** What is wrong and what to do. */
  readonly text: string
}

export class RedisTimeout extends Error {
  constructor(ms: number) {
    super(`no reply within ${ms} ms; check the server's load and the network, or raise "timeout"`)
  }
}

/** Reply texts for problems that only an operator can fix, with advice. */
const DENIED: readonly [RegExp, string][] = [
  [/^WRONGPASS|invalid password/, 'the user name or the password is wrong; correct "username" and the password'],
  [
    /^NOAUTH|^ERR AUTH|called without any password/,
    'the password setting does not match the server: set a password if the server has one, otherwise remove it',
  ],
  [
    /unknown command \W?AUTH\b/i,
    'the server does not know the command AUTH; remove the password, or enable the command',
  ],
]
const NO_PERMISSION = /NOPERM|no permissions? to (run|access)|can't run this command/i

/** Replies caused by the wrong server or unsuitable settings, with advice. */
const REFUSED: readonly [RegExp, string][] = [
  [/^MOVED|^CROSSSLOT/, 'the server belongs to a Redis Cluster; set "cluster: true"'],
  [/cluster support disabled/, 'the server does not belong to a Redis Cluster; remove "cluster"'],
  [/^READONLY/, 'the server is a replica; name its primary in "url", or use "sentinel"'],
  [/^OOM/, 'the server has no memory left; raise its maxmemory'],
]

/** The end of a message about an unknown command. It contains the arguments, which may contain a password. */
const ARGUMENTS = /,? with args beginning with:.*/s

/**
 * Describes an error without secrets: hides the arguments of a command, and the password where the server repeats it.
 * `permissions`: the rules of ACL SETUSER that the user needs.
 */
export function redisProblem(error: unknown, passwords: readonly string[] = [], permissions = ''): RedisProblem {
  if (error instanceof RedisTimeout) return { kind: 'timeout', text: error.message }
  const text = textOf(error, passwords)
  for (const [pattern, advice] of DENIED) if (pattern.test(text)) return { kind: 'denied', text: advice }
  if (NO_PERMISSION.test(text))
    return { kind: 'denied', text: `the user lacks a permission; it needs "${permissions}" (ACL SETUSER)` }
  for (const [pattern, advice] of REFUSED) if (pattern.test(text)) return { kind: 'refused', text: advice }
  if (error instanceof RedisRefusal || error instanceof DeliveryError) return { kind: 'refused', text }
  return { kind: 'connection', text }
}

/** The error's text on one line. It is shortened, since a server may send any text. */
function textOf(error: unknown, passwords: readonly string[]): string {
  // An error for several addresses has no message of its own.
  const isSeveral = error instanceof AggregateError && error.message === ''
  const text = isSeveral ? error.errors.map(errorText).join('; ') : errorText(error)
  return printable(hideSecrets(text.replace(ARGUMENTS, ''), passwords).slice(0, LONGEST_TEXT))
}
