import { batch, computed, effect, signal, untracked } from '@preact/signals'
import { DaemonError, events, get } from '../kit/api.js'
import { isIdle } from '../kit/data.js'
import type { Histories, PageStatus, Second, Values } from './types.js'

export const status = signal<PageStatus | undefined>(undefined)
export const second = signal<Second | undefined>(undefined)
/** The last hour of each component. */
export const histories = signal<Histories | undefined>(undefined)
export const paused = signal(false)
/** Why the connection failed. `token` is true if the daemon asks for a token. */
export const failure = signal<{ readonly words: string; readonly token: boolean } | undefined>(undefined)
/** When the last message arrived, by the browser's clock. */
export const heardAt = signal(0)
/** When the connection was lost, and when it came back. */
export const away = signal<{ readonly since: number; readonly until?: number } | undefined>(undefined)
export const isAway = computed(() => away.value !== undefined && away.value.until === undefined)
/** Whether a message has arrived over the current connection. */
export const isConnected = signal(false)
/** When the daemon was restarted. Its counts begin at 0 again. */
export const restartedAt = signal<string | undefined>(undefined)
/** Changes once a second, because texts such as "for 12 s" depend on the time. */
export const now = signal(Date.now())
export const hidden = signal(document.hidden)

/** Rates are averages over this many seconds, because destinations send in batches. */
const RATE_SECONDS = 5
/** A message is overdue after this time, because one arrives per second. */
const SILENCE_MS = 5000
const LONGEST_BACKOFF_MS = 10_000

export interface ShownRates {
  readonly received: number
  readonly sent: number
  readonly discarded: number
}

let seconds: Second[] = []

const between = signal<readonly [Second, Second] | undefined>(undefined)

/** Events per second, by component. */
export const rates = computed(() => {
  const found = new Map<string, ShownRates>()
  if (!between.value) return found
  const [first, last] = between.value
  const perSecond = 1000 / (last.at - first.at)
  for (const [id, counts] of Object.entries(last.components)) {
    const before = first.components[id]
    if (!before) continue
    const [received, sent, discarded] = [0, 1, 2].map(i => Math.max(0, (counts[i]! - before[i]!) * perSecond))
    found.set(id, { received: received!, sent: sent!, discarded: discarded! })
  }
  return found
})

/** Events per second that the daemon reads (`received`), and that pass the whole pipeline (`passed`). */
export const flow = computed(() => {
  if (!between.value) return {}
  const [first, last] = between.value
  const of = (name: 'received' | 'passed') => {
    const [a, b] = [first.books?.[name], last.books?.[name]]
    return a === undefined || b === undefined ? undefined : ((b - a) * 1000) / (last.at - first.at)
  }
  return { received: of('received'), passed: of('passed') }
})

/** Returns the counts of a component from `second`, or from the last status if `second` does not have them. */
export function countsOf(id: string): { received: number; sent: number; discarded: number; in_flight: number } {
  const counts = second.value?.components[id]
  if (counts) return { received: counts[0], sent: counts[1], discarded: counts[2], in_flight: counts[3] }
  return status.value?.components.find(one => one.id === id) ?? { received: 0, sent: 0, discarded: 0, in_flight: 0 }
}

function takeSecond(next: Second): void {
  const last = seconds.at(-1)
  // After a restart, counts begin at 0.
  if ((next.books?.received ?? 0) < (last?.books?.received ?? 0)) seconds = []
  seconds = [...seconds, next].slice(-RATE_SECONDS - 1)
  second.value = next
  between.value = seconds.length > 1 ? [seconds[0]!, next] : undefined
}

function takeStatus(next: PageStatus): void {
  const before = status.value?.started_at
  if (before !== undefined && next.started_at !== before) restartedAt.value = next.started_at
  status.value = next
}

/** Returns averages over RATE_SECONDS. Without these, a destination that sends once a second would seem to pause. */
export function smoothed(values: Values, step_ms: number): Values {
  const width = Math.ceil((RATE_SECONDS * 1000) / step_ms)
  return values.map((value, i) => {
    const known = values.slice(Math.max(0, i - width + 1), i + 1).filter(one => one !== null)
    return value === null ? null : known.reduce((sum, one) => sum + one, 0) / known.length
  })
}

/** What the values of `smoothed` are. */
export const rateUnit = (step_ms: number): string =>
  `events per second${step_ms < RATE_SECONDS * 1000 ? `, averaged over ${RATE_SECONDS}s` : ''}`

async function listen(signal: AbortSignal): Promise<void> {
  for await (const { event, data } of events('live', signal)) {
    batch(() => {
      heardAt.value = Date.now()
      failure.value = undefined
      if (away.value && !away.value.until) away.value = { ...away.value, until: Date.now() }
      isConnected.value = true
      if (event === 'status') takeStatus(JSON.parse(data) as PageStatus)
      if (event === 'second') takeSecond(JSON.parse(data) as Second)
    })
  }
}

/** Listens until `stop` aborts, and reconnects when the connection is lost. */
async function stayConnected(stop: AbortSignal): Promise<void> {
  for (let backoff = 500; !stop.aborted; backoff = Math.min(backoff * 2, LONGEST_BACKOFF_MS)) {
    const attempt = new AbortController()
    const end = () => attempt.abort()
    stop.addEventListener('abort', end)
    const begin = Date.now()
    heardAt.value = begin
    isConnected.value = false
    const watch = setInterval(() => Date.now() - heardAt.value > 3 * SILENCE_MS && end(), 1000)
    try {
      await listen(attempt.signal)
    } catch (error) {
      if (error instanceof DaemonError) failure.value = { words: error.message, token: error.status === 401 }
    }
    clearInterval(watch)
    stop.removeEventListener('abort', end)
    if (stop.aborted) return
    if (heardAt.value > begin) backoff = 500
    away.value = { since: away.value && !away.value.until ? away.value.since : Date.now() }
    await new Promise(resolve => setTimeout(resolve, backoff))
  }
}

async function keepHistories(stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    try {
      histories.value = await get<Histories>('history', { points: 60 }, stop)
    } catch {}
    // At first, a point spans only a few seconds.
    const step = histories.value?.step_ms ?? 0
    await new Promise(resolve => setTimeout(resolve, Math.min(30_000, Math.max(3000, step))))
  }
}

/** Returns how many steps with these start times have ended. An unfinished step would look like a fall. */
export function endedOf(at: readonly number[], step_ms: number): number {
  const last = second.value?.at ?? Number.POSITIVE_INFINITY
  return at.findLastIndex(begin => begin + step_ms <= last) + 1
}

/** Connects to the daemon. A hidden or paused tab does not send requests. */
export function connectDaemon(): void {
  document.addEventListener('visibilitychange', () => (hidden.value = document.hidden))
  setInterval(() => (now.value = Date.now()), 1000)
  effect(() => {
    isIdle.value = paused.value || hidden.value
    if (isIdle.value) return
    const stop = new AbortController()
    seconds = []
    between.value = undefined
    untracked(() => {
      void stayConnected(stop.signal)
      void keepHistories(stop.signal)
    })
    return () => stop.abort()
  })
  effect(() => {
    // For 15 seconds, the page shows that the connection came back.
    if (away.value?.until && now.value - away.value.until > 15_000) away.value = undefined
  })
}

export const isSilent = computed(() => !paused.value && heardAt.value > 0 && now.value - heardAt.value > SILENCE_MS)

/** Whether the numbers on the page are current. */
export const isFresh = computed(
  () => second.value !== undefined && isConnected.value && !paused.value && !isSilent.value && !isAway.value,
)
