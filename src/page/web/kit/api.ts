/** An error response of the daemon. The message says what is wrong and what to do. */
export class DaemonError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type Params = Readonly<Record<string, string | number | undefined>>

/** With these names, an empty value means the default bucket. */
const MAY_BE_EMPTY = ['bucket', 'key']

/** Returns a query with its `?`, without empty parameters. */
export function queryOf(params: Params): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(params))
    if (value !== undefined && (value !== '' || MAY_BE_EMPTY.includes(name))) query.set(name, `${value}`)
  return query.size > 0 ? `?${query}` : ''
}

/** Returns a URL relative to the page, because a proxy may serve the page below another path. */
const address = (path: string, params: Params = {}) => `api/v1/${path}${queryOf(params)}`

async function request(path: string, params?: Params, options: RequestInit = {}): Promise<Response> {
  const response = await fetch(address(path, params), { cache: 'no-store', ...options })
  if (response.ok) return response
  const text = await response.text()
  let message = text
  try {
    message = String(JSON.parse(text).status ?? text)
  } catch {}
  throw new DaemonError(response.status, message || `the daemon answered ${response.status}`)
}

export async function get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
  return (await request(path, params, signal ? { signal } : {})).json() as Promise<T>
}

export async function post(path: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  await request(path, {}, { method: 'POST', body: JSON.stringify(body), headers })
}

/** Maximum length of a line. A longer line ends the stream with an error. The daemon does not send such lines. */
const LONGEST = 16 * 1024 * 1024

/** Yields the lines of a response as they arrive. */
export async function* lines(path: string, params: Params, signal: AbortSignal): AsyncGenerator<string> {
  const { body } = await request(path, params, { signal })
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const parts = (rest + value).split('\n')
    rest = parts.pop()!
    if (rest.length > LONGEST) throw new DaemonError(0, 'the daemon sent a line that is too long')
    yield* parts
  }
}

/** Reads server-sent events with fetch, because EventSource neither reports errors nor stops when it should. */
export async function* events(path: string, signal: AbortSignal): AsyncGenerator<{ event: string; data: string }> {
  let event = 'message'
  let data: string[] = []
  for await (const line of lines(path, {}, signal)) {
    const [, name, value = ''] = /^(\w+): ?(.*?)\r?$/.exec(line) ?? []
    if (name === 'event') event = value
    if (name === 'data') data.push(value)
    if (line.trim() !== '' || data.length === 0) continue
    yield { event, data: data.join('\n') }
    event = 'message'
    data = []
  }
}
