import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { built } from './checkout.js'

/** A component of the invented daemon. */
export interface Invented {
  readonly id: string
  readonly kind: 'source' | 'processor' | 'destination'
  readonly type: string
  readonly inputs?: readonly string[]
  /** Of a source: events per second. */
  readonly rate?: number
  /** Shares of its events, by reason. */
  readonly discards?: Readonly<Record<string, number>>
  /** What it delivers of its events; 1 by default. */
  readonly delivers?: number
}

/** What a test makes the daemon answer. The tests change it while the page is open. */
export interface World {
  readonly components: readonly Invented[]
  /** Members of the status document in the place of those without problems. */
  status?: Record<string, unknown>
  /** Members of each second in the place of the usual ones. */
  readonly second?: Record<string, unknown>
  /** Answers by path; a function takes the parameters. */
  readonly answers?: Readonly<Record<string, unknown>>
  /** Event texts need this token. */
  readonly token?: string
  readonly keys?: readonly (string | null)[]
}

interface Counted {
  received: number
  sent: number
  discarded: number
  inFlight: number
  readonly reasons: Record<string, number>
}

const CSP = `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';
  form-action 'self'; base-uri 'none'; frame-ancestors 'none'`.replace(/\s+/g, ' ')

const HTML = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sluice</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="page.css"><script type="module" src="page.js"></script></head>
<body><div id="page"><p class="books">received 0</p></div></body></html>`

/** Counted before the page is opened. */
const SECONDS_BEFORE = 400

const TYPES: Record<string, string> = { js: 'text/javascript', css: 'text/css' }

/** A daemon that is invented: it serves the bundle of the page, and answers like a daemon that runs. */
export class FakePage {
  world: World
  readonly posted: string[] = []
  readonly asked: string[] = []
  readonly #server: Server
  readonly #listeners = new Set<ServerResponse>()
  readonly #counted = new Map<string, Counted>()
  readonly #started: number
  /** What its first second began at. */
  readonly #base = Date.now() - SECONDS_BEFORE * 1000
  #tick = 0
  #timer: NodeJS.Timeout | undefined

  constructor(world: World, started = Date.now() - 1_050_000_000) {
    this.world = world
    this.#started = started
    this.#server = createServer((request, response) => this.#answer(request, response))
    for (let i = 0; i < SECONDS_BEFORE; i++) this.#count()
  }

  async listen(host: string, port = 0): Promise<string> {
    await new Promise<void>(resolve => this.#server.listen(port, host, resolve))
    this.#timer = setInterval(() => this.tick(), 1000)
    return `http://${host}:${(this.#server.address() as AddressInfo).port}/`
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    const closed = new Promise(resolve => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  /** How many read its numbers. */
  get listeners(): number {
    return this.#listeners.size
  }

  /** A second passes. */
  tick(): void {
    this.#count()
    this.#send('second', this.second())
  }

  /** The status has changed. */
  changed(): void {
    const { series: _, ...status } = this.status()
    this.#send('status', status)
  }

  #send(event: string, data: unknown): void {
    for (const one of this.#listeners) one.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  #count(): void {
    this.#tick++
    const passed = new Map<string, number>()
    for (const [
      i,
      { id, kind, inputs = [], rate = 0, discards = {}, delivers = 1 },
    ] of this.world.components.entries()) {
      const counted = this.#countedOf(id)
      const wave = 1 + 0.25 * Math.sin(this.#tick / 9 + i)
      const read =
        kind === 'source' ? Math.round(rate * wave) : inputs.reduce((sum, input) => sum + (passed.get(input) ?? 0), 0)
      counted.received += read
      let rest = read
      for (const [reason, share] of Object.entries(discards)) {
        const events = Math.round(read * share)
        counted.reasons[reason] = (counted.reasons[reason] ?? 0) + events
        counted.discarded += events
        rest -= events
      }
      passed.set(`${id}.discarded`, read - rest)
      const sent = kind === 'destination' ? Math.floor((rest + counted.inFlight) * delivers) : rest
      counted.inFlight += rest - sent
      counted.sent += sent
      passed.set(id, sent)
    }
  }

  #countedOf(id: string): Counted {
    const counted = this.#counted.get(id) ?? { received: 0, sent: 0, discarded: 0, inFlight: 0, reasons: {} }
    this.#counted.set(id, counted)
    return counted
  }

  second() {
    const { components } = this.world
    const all = components.map(({ id }) => [id, this.#countedOf(id)] as const)
    const readsDiscarded = ({ inputs = [] }: Invented) => inputs.some(input => input.endsWith('.discarded'))
    const ends = components.filter(one => one.kind === 'destination' && !readsDiscarded(one))
    const of = (kind: string) => components.filter(one => one.kind === kind).map(({ id }) => this.#countedOf(id))
    const received = of('source').reduce((sum, one) => sum + one.received, 0)
    const discarded = Object.fromEntries(
      all.filter(([, one]) => one.discarded > 0).map(([id, { reasons }]) => [id, { ...reasons }]),
    )
    const undelivered = Math.max(0, ...ends.map(({ id }) => this.#countedOf(id).inFlight))
    const gone = all.reduce((sum, [, one]) => sum + one.discarded, 0)
    const delivered = Object.fromEntries(
      components.filter(one => one.kind === 'destination').map(({ id }) => [id, this.#countedOf(id).sent]),
    )
    return {
      at: this.#base + this.#tick * 1000,
      books: {
        received,
        passed: received - gone - undelivered,
        discarded,
        delivered,
        undelivered,
        in_flight: undelivered,
        lost: {},
        kept: {},
      },
      components: Object.fromEntries(
        all.map(([id, one], i) => [id, [one.received, one.sent, one.discarded, one.inFlight, (i * 137) % 600]]),
      ),
      destinations: Object.fromEntries(
        components
          .filter(one => one.kind === 'destination')
          .map(({ id, delivers = 1 }, i) => [
            id,
            {
              in_flight: i + 1,
              allowed: 8,
              retries: 0,
              oldest_ms: delivers < 1 ? 125_000 : 80,
              unanswered_ms: 0,
              buffered_bytes: 0,
              dead_letters: delivers < 1 ? 12 : 0,
            },
          ]),
      ),
      ...this.world.second,
    }
  }

  status() {
    const { components, status } = this.world
    return {
      version: 1,
      at: new Date().toISOString(),
      started_at: new Date(this.#started).toISOString(),
      version_of_sluice: '0.1.0',
      host: 'web-17',
      config: '/etc/sluice/sluice.yaml',
      ready: true,
      problems: [],
      notices: [],
      destinations: components.filter(one => one.kind === 'destination').map(({ id }) => ({ id, state: 'ready' })),
      sources: [],
      processors: [],
      waiting: [],
      waiting_for: [],
      components: components.map(({ id, kind, type, inputs = [] }) => {
        const { received, sent, discarded, inFlight } = this.#countedOf(id)
        return { id, kind, type, inputs, state: '', received, sent, discarded, in_flight: inFlight }
      }),
      books: this.second().books,
      backlog: [],
      series: {},
      status_page: {
        memory: 64e6,
        used: 12e6,
        history_seconds: 3600,
        history_step_ms: 1000,
        token: this.world.token !== undefined,
      },
      ...status,
    }
  }

  #history(length: number, seed: number, rate: number): number[] {
    return Array.from({ length }, (_, i) => {
      const t = (i / length) * 60
      return Math.max(
        0,
        rate * (1 + 0.3 * Math.sin(t / 7 + seed) + 0.15 * Math.sin(t * 1.7 + seed) + (t > 40 && t < 47 ? 0.8 : 0)),
      )
    })
  }

  #rateOf(id: string): number {
    return this.#countedOf(id).received / this.#tick
  }

  #own(path: string, params: URLSearchParams): unknown {
    const now = Date.now()
    if (path === 'status') return this.status()
    if (path === 'history') {
      const id = params.get('component')
      const length = id === null ? 60 : 720
      const values = (one: Invented, seed: number) => {
        const { received, discarded, inFlight } = this.#countedOf(one.id)
        const all = this.#history(length, seed, this.#rateOf(one.id))
        const share = received > 0 ? discarded / received : 0
        return {
          received: all,
          sent: all.map(value => value * (1 - share)),
          discarded: all.map(value => value * share),
          in_flight: all.map(value => Math.round(value * 0.05 + inFlight)),
        }
      }
      const from = now - 3_600_000
      const { components } = this.world
      if (id === null)
        return {
          from,
          step_ms: 60_000,
          components: Object.fromEntries(components.map((one, i) => [one.id, values(one, i)])),
        }
      const at = components.findIndex(one => one.id === id)
      return {
        from,
        step_ms: 5000,
        names: ['received', 'sent', 'discarded', 'in_flight'],
        values: values(components[at]!, at),
      }
    }
    const [, kind, id = ''] = /^(components|throttles)\/(.*)$/.exec(path) ?? []
    if (kind === 'components') return this.#component(decodeURIComponent(id))
    if (kind === 'throttles') return this.#throttle(decodeURIComponent(id), params)
    if (path === 'what-if') return this.#whatIf(params)
    if (path === 'find') return found(params.get('q') ?? '', this.world)
    if (path === 'evidence') return evidence(params, this.world)
    if (path === 'dead-letters') return deadLetters(params.get('component') ?? '')
    return undefined
  }

  #component(id: string) {
    const one = this.world.components.find(component => component.id === id)
    if (!one) return undefined
    const { received, sent, discarded, inFlight } = this.#countedOf(id)
    const labels = { component_id: id, component_kind: one.kind, component_type: one.type }
    const series = Object.entries({ received_events: received, sent_events: sent, discarded_events: discarded }).map(
      ([name, value]) => ({
        name: `sluice_component_${name}_total`,
        help: 'Events.',
        labels,
        value,
      }),
    )
    return {
      id,
      kind: one.kind,
      type: one.type,
      summary: 'Passes at most `limit` events of each key.',
      config: `${id}:\n  type: ${one.type}\n  inputs: [${one.inputs ?? ''}]\n  limit: 100\n  window: 1s\n  key_field: .app\n`,
      file: '/etc/sluice/sluice.yaml',
      line: 12,
      series: [...series, { name: 'sluice_component_in_flight_events', labels, value: inFlight }],
      docs: 'docs/throttling.md',
    }
  }

  #keys() {
    return this.world.keys ?? ['search', 'checkout', 'cart', 'mail', 'web', null]
  }

  #throttle(id: string, params = new URLSearchParams()) {
    const total = this.#rateOf(id)
    const all = this.#keys()
    const searched = all.slice(0, 1000)
    const found = searched.filter(
      key => (!params.has('key') || key === params.get('key')) && `${key}`.includes(params.get('q') ?? ''),
    )
    const keys = found.slice(0, 100).map(key => {
      const i = all.indexOf(key)
      const offered = (total / 2.2) * 0.35 ** Math.min(i, 8)
      const limit = 100
      const passed = Math.min(offered, limit)
      return {
        key,
        passed,
        discarded: offered - passed,
        last_minute: { passed: Math.round(passed * 60), discarded: Math.round((offered - passed) * 60) },
        ten_minutes: { passed: Math.round(passed * 600), discarded: Math.round((offered - passed) * 600) },
        used: Math.round(passed),
        limit,
        window_ms: 1000,
        pressure: offered / limit,
        since: offered > limit ? new Date(Date.now() - 60_000 * (i + 1)).toISOString() : null,
        history: {
          passed: this.#history(60, i, passed).map(value => Math.min(limit, value)),
          discarded: this.#history(60, i, offered).map(value => Math.max(0, value - limit)),
        },
      }
    })
    return {
      id,
      key_field: ['.app'],
      limits: [{ limit: 100, unit: 'events', window_ms: 1000, mode: 'aligned' }],
      rules: 1,
      buckets: all.length,
      max_keys: 200_000,
      keys,
      searched: searched.length,
      found: found.length,
      counted: {
        from: new Date(Date.now() - 600_000).toISOString(),
        step_ms: 100,
        exact: true,
        keys: keys.length,
        most_keys: 1000,
        of: '',
      },
    }
  }

  #whatIf(params: URLSearchParams) {
    const limit = Number(params.get('limit') ?? 100)
    const [, amount = '1', unit = 's'] = /^(\d+)(ms|s|m)$/.exec(params.get('window') ?? '1s') ?? []
    const perSecond = (limit * 1000) / (Number(amount) * { ms: 1, s: 1000, m: 60_000 }[unit as 'ms'])
    const id = params.get('component') ?? ''
    const { keys } = this.#throttle(id)
    const step_ms = 2000
    const curves = keys
      .slice(0, 10)
      .map((one, i) => this.#history(300, i, one.passed + one.discarded).map(value => value * 2))
    const sum = (most: number) =>
      Array.from({ length: 300 }, (_, i) => curves.reduce((all, curve) => all + Math.min(most * 2, curve[i]!), 0))
    const of = (values: readonly number[]) => Math.round(values.reduce((all, value) => all + value, 0))
    const [offered, was, would] = [sum(Number.POSITIVE_INFINITY), sum(100), sum(perSecond)]
    const bounded = (curve: readonly number[], most: number) => of(curve.map(value => Math.min(most * 2, value)))
    const now = Date.now()
    return {
      from: new Date(now - 600_000).toISOString(),
      to: new Date(now).toISOString(),
      events: of(offered),
      exact: true,
      was: { passed: of(was), discarded: of(offered) - of(was) },
      would: { passed: of(would), discarded: of(offered) - of(would) },
      curve: { at: now - 600_000, step_ms, offered, was, would },
      keys: keys.slice(0, 10).map(({ key }, i) => ({
        key,
        offered: of(curves[i]!),
        was: bounded(curves[i]!, 100),
        would: bounded(curves[i]!, perSecond),
      })),
      keys_count: keys.length,
      yaml: `limit: ${limit}\nwindow: ${params.get('window')}\n`,
    }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url!, 'http://localhost')
    const path = pathname.slice(1)
    this.asked.push(request.url!)
    response.setHeader('content-security-policy', CSP)
    response.setHeader('x-content-type-options', 'nosniff')
    const [, extension = ''] = /^page\.(js|css)$/.exec(path) ?? []
    if (path === '') response.setHeader('content-type', 'text/html').end(HTML)
    else if (extension !== '')
      response.setHeader('content-type', TYPES[extension]!).end(readFileSync(join(built, 'src/page/web/bundle', path)))
    else this.#answerApi(path.replace(/^api\/v1\//, ''), searchParams, request, response)
  }

  #answerApi(path: string, params: URLSearchParams, request: IncomingMessage, response: ServerResponse): void {
    const isText = /^(find|evidence|tap|dead-letters)$/.test(path)
    const isAllowed = this.world.token === undefined || /sluice_page=one/.test(request.headers.cookie ?? '')
    const answer = this.world.answers?.[path]
    if (path === 'session') this.#login(request, response)
    else if (isText && !isAllowed) say(response, 401, NEEDS_TOKEN)
    else if (path === 'live') this.#listen(response)
    else if (answer !== undefined) say(response, 200, typeof answer === 'function' ? answer(params) : answer)
    else if (path === 'tap') this.#tap(response)
    else {
      const own = this.#own(path, params)
      say(response, own === undefined ? 404 : 200, own ?? { status: `there is nothing at ${path}` })
    }
  }

  #login(request: IncomingMessage, response: ServerResponse): void {
    request.setEncoding('utf8').on('data', text => this.posted.push(text))
    request.on('end', () => {
      if (JSON.parse(this.posted.at(-1)!).token !== this.world.token)
        say(response, 401, { status: 'this token is wrong' })
      else response.writeHead(204, { 'set-cookie': 'sluice_page=one; HttpOnly; SameSite=Strict' }).end()
    })
  }

  #listen(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    this.#listeners.add(response)
    response.on('close', () => this.#listeners.delete(response))
    const { series: _, ...status } = this.status()
    response.write(
      `event: status\ndata: ${JSON.stringify(status)}\n\nevent: second\ndata: ${JSON.stringify(this.second())}\n\n`,
    )
  }

  #tap(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    let n = 0
    const more = () => {
      for (let i = 0; i < 10; i++) response.write(`${JSON.stringify({ ...eventOf(this.world, n), n: n++ })}\n`)
      response.write('# skipped 120 events that could not be shown in time\n')
    }
    more()
    const timer = setInterval(more, 1000)
    response.on('close', () => clearInterval(timer))
  }
}

const NEEDS_TOKEN = { status: 'event texts need a token: set status_page.token_file, or use the socket of the daemon' }

function say(response: ServerResponse, code: number, body: unknown): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const LEVELS = ['info', 'info', 'warn', 'info', 'error']

function eventOf({ keys = ['search', 'checkout', 'cart', 'mail'] }: World, n: number) {
  const app = keys[n % keys.length] ?? 'web'
  return {
    time: new Date().toISOString(),
    app,
    level: LEVELS[n % LEVELS.length],
    message: `request ${app} took ${(n * 37) % 900} ms`,
    status: n % 7 === 0 ? 500 : 200,
  }
}

function found(q: string, world: World) {
  const from = new Date(Date.now() - 1_200_000).toISOString()
  const looked_at = [
    { kind: 'discarded', from, kept: 41_200, one_in: 1, bytes: 9_400_000 },
    { kind: 'rejected', from, kept: 120, one_in: 1, bytes: 30_000 },
    { kind: 'passed', from, kept: 20_000, one_in: 50, bytes: 8_000_000 },
  ]
  if (q === 'nothing') return { looked_at, found: [], more: false }
  const at = new Date(Date.now() - 42_000).toISOString()
  const one = { event: { ...eventOf(world, 3), id: q } }
  const steps = [
    { at, component: 'app_logs', what: 'read', words: '/var/log/app/cart.log' },
    { component: 'parse', what: 'passed' },
    {
      component: 'limit_app',
      what: 'discarded',
      reason: 'throttled',
      words: 'its bucket had no room',
      rule: 'default',
      bucket: world.keys?.[0] ?? 'cart',
    },
  ]
  const delivered = [
    ...steps.slice(0, 2),
    { component: 'limit_app', what: 'passed' },
    { component: 'loki', what: 'delivered' },
  ]
  return {
    looked_at,
    found: [
      { ...one, steps },
      { event: eventOf(world, 4), steps: delivered },
    ],
    more: true,
  }
}

function evidence(params: URLSearchParams, world: World) {
  const isRefusal = params.get('component') === 'upstream'
  const reason = isRefusal ? 'status_400' : (params.get('reason') ?? 'throttled')
  const words = isRefusal ? '400 Bad Request: {"error":"field level: unknown value fatal"}' : 'the bucket had no room'
  const events = Array.from({ length: 5 }, (_, n) => ({
    at: new Date(Date.now() - n * 1300).toISOString(),
    reason,
    words,
    bucket: world.keys?.[0] ?? 'search',
    event: eventOf(world, n),
  }))
  return { from: new Date(Date.now() - 900_000).toISOString(), events }
}

function deadLetters(id: string) {
  const newest_at = new Date(Date.now() - 65_000).toISOString()
  const sample = { app: 'cart', level: 'fatal', message: 'payment failed' }
  const reasons = [{ reason: 'status_400', words: 'field level: unknown value fatal', count: 12, newest_at, sample }]
  return {
    total: id === 'upstream' ? 12 : 0,
    looked_at: id === 'upstream' ? 12 : 0,
    all: true,
    reasons: id === 'upstream' ? reasons : [],
    command: `sluice resend --config /etc/sluice/sluice.yaml --destination ${id}`,
  }
}

/** What most pictures show: one throttle that works, and a receiver that does not. */
export const USUAL: readonly Invented[] = [
  { id: 'app_logs', kind: 'source', type: 'file', rate: 3400 },
  { id: 'journal', kind: 'source', type: 'journald', rate: 240 },
  { id: 'audit', kind: 'source', type: 'http', rate: 60 },
  { id: 'parse', kind: 'processor', type: 'grok', inputs: ['app_logs', 'journal'] },
  { id: 'limit_app', kind: 'processor', type: 'throttle', inputs: ['parse'], discards: { throttled: 0.18 } },
  { id: 'mask', kind: 'processor', type: 'redact', inputs: ['limit_app', 'audit'] },
  { id: 'loki', kind: 'destination', type: 'loki', inputs: ['mask'] },
  { id: 'archive', kind: 'destination', type: 's3', inputs: ['mask'] },
  { id: 'upstream', kind: 'destination', type: 'http', inputs: ['audit'], delivers: 0.01 },
  { id: 'overflow', kind: 'destination', type: 'file', inputs: ['limit_app.discarded'] },
]

/** A receiver that is away. */
export function failing() {
  const since = new Date(Date.now() - 125_000).toISOString()
  const reason = 'connect ECONNREFUSED 10.0.4.7:443'
  const clock = (ms: number) => new Date(Date.now() - ms).toTimeString().slice(0, 8)
  return {
    ready: false,
    problems: [
      {
        component: 'upstream',
        what: `upstream is retrying: ${reason}`,
        detail: `Since ${clock(125_000)}, 12 failed attempts, the last at ${clock(8000)}, the next at ${clock(-8000)}. The oldest waiting event is from ${clock(124_000)}.`,
        todo: 'No events are lost. Check what the error names: the receiver, the network or the disk.',
      },
      {
        component: 'upstream',
        what: 'upstream: 12 events in the dead-letter queue, the oldest for 4m 10s',
        todo: 'The destination rejected them. The first command lists the reasons. When the cause is corrected, the second command sends them again.',
        commands: [
          'sluice resend --config /etc/sluice/sluice.yaml --destination upstream --dry-run',
          'sluice resend --config /etc/sluice/sluice.yaml --destination upstream',
        ],
      },
    ],
    destinations: USUAL.filter(one => one.kind === 'destination').map(({ id }) =>
      id === 'upstream'
        ? {
            id,
            state: 'retrying',
            reason,
            since,
            failures: 12,
            next_attempt: new Date(Date.now() + 8000).toISOString(),
            oldest_event: since,
          }
        : { id, state: 'ready' },
    ),
    backlog: [
      {
        component: 'app_logs',
        name: '/var/log/app/search.log',
        bytes: 48_200_000 - ((Date.now() / 1000) % 1000) * 21_000,
      },
    ],
  }
}
