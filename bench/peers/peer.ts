/** The jobs that programs are compared on, and their names on all pages. */
export const JOBS = {
  J1: 'raw lines: file → file',
  J2: 'JSON lines, throttled by key: file → file',
  J3: 'raw lines: file → HTTP',
  J4: 'raw lines: TCP → file',
  J5: 'access log, parsed and throttled by key: file → OTLP',
  J6: 'raw lines: file → Loki',
  J7: 'JSON lines: file → Elasticsearch',
  J8: 'raw lines: file → S3',
  J9: 'raw lines: file → Kafka',
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
