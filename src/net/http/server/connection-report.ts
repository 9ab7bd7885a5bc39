import { LogLimit } from '../../../lib/log-limit.js'
import { systemClock } from '../../../lib/time.js'
import type { CloseReason, ConnectionEvents, RefuseReason } from './connections.js'

const REFUSED: Readonly<Record<RefuseReason, string>> = {
  total: 'refused a connection: max_connections are open, and none of them can make room',
  address: 'refused a connection: its address has max_connections_per_address open, and none of them can make room',
  descriptors:
    'refused a connection: connections take a third of the files that this process may open, and none of them can make room; raise its limit (LimitNOFILE, ulimit -n)',
}
const CLOSED: Readonly<Record<CloseReason, string>> = {
  unused: 'closed a connection without a complete request or message to make room for a new one',
  idle: 'closed an idle connection to make room for a new one',
  slow_sender: 'closed a connection with a very slow request to make room for a new one',
  handshake: 'closed a connection: its TLS handshake timed out',
  slow_reader: 'closed a connection: its client does not read what is sent to it',
  pipelined: 'closed a connection: its client sent too many requests without waiting for responses',
  left_open: 'closed a connection that its client left open after the last response',
}

const REFUSED_HELP =
  'Refused connections by the limit that was reached: total, address, or descriptors (of the process).'
const CLOSED_HELP =
  'Connections that were closed from this side: unused, idle and slow_sender made room for new ones; handshake, slow_reader and left_open took too long; pipelined: too many requests without waiting for answers.'

interface Log {
  warn(fields: object, message: string): void
}
interface Count {
  value: number
}
/** Creates one counter, either of a component or a plain one. */
type MakeCount = (name: string, help: string, labels: { reason: string }) => Count

/** Counts connections that were refused or closed, by reason, and logs them at a limited rate. */
export class ConnectionReport implements ConnectionEvents {
  readonly #log: Log
  readonly #counts = new Map<string, Count>()
  readonly #limit = new LogLimit(systemClock)

  /** The metrics are `PREFIX_refused_connections_total` and `PREFIX_closed_connections_total`. */
  constructor(prefix: string, make: MakeCount, log: Log) {
    this.#log = log
    const add = (texts: object, name: string, help: string) => {
      for (const [reason, text] of Object.entries(texts)) this.#counts.set(text, make(name, help, { reason }))
    }
    add(REFUSED, `${prefix}_refused_connections_total`, REFUSED_HELP)
    add(CLOSED, `${prefix}_closed_connections_total`, CLOSED_HELP)
  }

  refused(reason: RefuseReason, peer: string | undefined): void {
    this.#happened(REFUSED[reason], peer)
  }

  closed(reason: CloseReason, peer: string | undefined): void {
    this.#happened(CLOSED[reason], peer)
  }

  #happened(text: string, peer: string | undefined): void {
    this.#counts.get(text)!.value++
    // Number of connections since the last message.
    const connections = this.#limit.count(text)
    if (connections > 0) this.#log.warn({ peer, connections }, text)
  }
}
