import type { ReportedProblem } from './status-document.js'

/**
 * How grave a problem is, gravest first. `undelivered`: nothing reaches a receiver. `unsafe`: a restart loses events.
 * `stopped`: a component does not work. `reload`: the daemon does not run its present configuration. `bug`: Sluice is
 * at fault. `blocked`: events wait for room on the disk. `unread`, `undecoded`: input does not arrive, or not as it
 * should. `orphaned`: data of removed components. `repeated`: a restart repeats events. `discarded`: events were lost.
 * `limits`: a limit does not do what it should. `uncounted`: events pass without one. `rejected`: events wait in a
 * dead-letter queue. `service`, `connections`: these do not work, or soon will not. `notice`: costs no events.
 */
export const GRAVITIES = [
  'undelivered',
  'unsafe',
  'stopped',
  'reload',
  'bug',
  'blocked',
  'unread',
  'undecoded',
  'orphaned',
  'repeated',
  'discarded',
  'limits',
  'uncounted',
  'rejected',
  'service',
  'connections',
  'notice',
] as const

/** After this time without another lost event, a loss is over: its problem becomes a notice. */
export const OVER_MS = 600_000

export interface GradedProblem extends ReportedProblem {
  readonly gravity: (typeof GRAVITIES)[number]
}

/** A value of a fact, and what the text of a problem may need beside it. */
export interface Seen {
  /** The component; empty for the daemon. */
  readonly id: string
  readonly kind: string
  /** Events that the component has received. */
  readonly received: number
  readonly labels: Readonly<Record<string, string>>
  /** Wall-clock time in milliseconds. */
  readonly wall: number
  /** The path of the daemon's configuration, if it is a file, and the data_dir. Missing while the daemon starts. */
  readonly about?:
    | { readonly config?: string | undefined; readonly config_hash?: string; readonly data_dir: string }
    | undefined
}

/** The end of an advice about data that cannot be written. */
export const CHECK_DISK = 'Is the disk of data_dir full, or not writable? The log says why'

export interface FactSample {
  readonly labels: Record<string, string>
  readonly value: number
}

/** Numbers of a component that the page shows each second. */
export interface LiveNumbers {
  readonly in_flight: number
  readonly allowed: number
  readonly retries: number
  readonly oldest_ms: number
  /** How long the oldest attempt has waited for an answer; 0 if that is not long. */
  readonly unanswered_ms: number
  readonly buffered_bytes: number
  readonly dead_letters: number
  readonly buckets: number
  readonly file_rules: number
}

/** A number that a component or the daemon reports: a gauge on /metrics, and where else it is shown. */
export interface Fact {
  /** The name on /metrics. */
  readonly name: string
  readonly help: string
  /** Labels of a single number. */
  readonly labels?: Record<string, string> | undefined
  /** Called at each scrape. Several samples differ in their labels. */
  readonly read: () => number | Iterable<FactSample>
  /** The state of the component in a few words, from the sum of the samples; `value` is undefined without samples. */
  readonly shown?: ((value: number | undefined) => string | undefined | false) | undefined
  readonly live?: ((value: number) => Partial<LiveNumbers>) | undefined
  /** The label that names what the bytes in each sample are a backlog of. */
  readonly backlog?: string | undefined
  /** The problem that a value means, if any. Called for each sample. */
  readonly problem?: ((value: number, seen: Seen) => GradedProblem | false | undefined) | undefined
}

export function samplesOf({ labels = {}, read }: Pick<Fact, 'labels' | 'read'>): Iterable<FactSample> {
  const found = read()
  return typeof found === 'number' ? [{ labels, value: found }] : found
}

/** Where a number is shown beside /metrics. */
export type Shown = Pick<Fact, 'shown' | 'live' | 'backlog' | 'problem'>

/** The problem of a component while a value is above 0. `what`: the text behind the id of the component. */
export function above0(
  gravity: GradedProblem['gravity'],
  what: string | ((value: number, seen: Seen) => string),
  todo: string,
): NonNullable<Fact['problem']> {
  const text = typeof what === 'string' ? () => what : what
  return (value, seen) => value > 0 && { gravity, what: `${seen.id}: ${text(value, seen)}`, todo }
}
