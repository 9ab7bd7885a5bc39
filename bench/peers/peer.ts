/** The jobs that programs are compared on. */
export const JOBS = {
  J1: 'file to file, raw',
  J2: 'file through a throttle by key to file',
  J3: 'file to HTTP on loopback',
  J4: 'TCP to file',
  J5: 'access log, parsed and throttled by client, to OTLP',
  J6: 'file to Loki',
  J7: 'JSON file to Elasticsearch',
  J8: 'file to S3',
  J9: 'file to Kafka',
} as const

export type JobId = keyof typeof JOBS

/** A program that is run on the jobs. */
export interface Peer {
  readonly id: string
  readonly title: string
  readonly version: string
  readonly tasks: Readonly<Partial<Record<JobId, Task>>>
  /** Starts as soon as it is called, and runs in the foreground until it is ended. */
  command(run: Run): Command
}

/** How a program does one job. */
export interface Task {
  /** The file in `conf` that is filled in for it; none for a program that needs no configuration. */
  readonly config?: string
  /** What comes out. `none` for the loops that write nothing: they write the number of bytes they read. */
  readonly output: 'raw' | 'json' | 'otlp' | 'loki' | 'none'
  /** J4: lines may be written in another order than they were sent in. */
  readonly anyOrder?: boolean
  /** J3, J7: lines of a body for each event. */
  readonly linesPerEvent?: number
  /** J3: the body of the answers, for a program that reads it. */
  readonly reply?: string
  /** What is not equal to what Sluice does. */
  readonly difference?: string
}

/** Where one run takes place. */
export interface Run {
  readonly job: JobId
  readonly task: Task
  /** An empty folder. */
  readonly folder: string
  /** The filled in configuration. */
  readonly config: string
  readonly input: string
  readonly out: string
  /** The port of the receiver; J4: the port to listen on. */
  readonly port: number
}

export interface Command {
  readonly file: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** A program that could not be had, and why. */
export interface Missing {
  readonly id: string
  readonly reason: string
}
