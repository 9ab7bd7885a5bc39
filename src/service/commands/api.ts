import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { errorText } from '../../core/errors.js'
import { terminalOf } from '../../daemon/admin/daemon-view.js'
import { Client, everything, type ListPage, type PageOptions } from '../../daemon/client/client.js'
import type { PublishedPipelineDocument } from '../../daemon/client/documents.js'
import { fetchTrusting } from '../../daemon/client/fetch-trusting.js'
import { type Answered, ServiceError } from '../../daemon/client/transport.js'
import { type Io, UsageError } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { NearestName } from '../../lib/nearest.js'
import { printable, printableJson, printableText } from '../../lib/printable.js'
import { systemClock } from '../../lib/time.js'
import { keyProblem, trimKey } from '../../net/key.js'
import { inspectTls } from '../../net/tls-check.js'
import { peopleText } from './api-text.js'

/** Options that all of these commands share. */
export interface ApiConnection {
  readonly url?: string | undefined
  readonly 'key-file'?: string | undefined
  readonly delegate?: string | undefined
  readonly 'ca-file'?: string | undefined
  readonly json?: boolean
}

/**
 * Runs `call` with a client and prints its result as text or JSON. Resolves with exit code 1 if the service refuses.
 */
export async function withClient(
  connection: ApiConnection,
  io: Io,
  call: (client: Client) => Promise<unknown>,
): Promise<number> {
  const client = await connect(connection, io)
  try {
    const result = await call(client)
    if (result !== undefined) io.stdout.write(resultText(result, connection, io))
    return EXIT.done
  } catch (error) {
    if (error instanceof ServiceError) {
      io.stderr.write(refusalText(error))
      return EXIT.failed
    }
    throw error
  }
}

/** The warning if a revision does not run: the service cannot run it, and no daemon of the pipeline has reported. */
export async function noteOnRun(
  client: Client,
  { id, service_bounds }: PublishedPipelineDocument,
): Promise<string | undefined> {
  const why = service_bounds.find(({ obstacle }) => obstacle)?.message
  if (why === undefined) return undefined
  try {
    for await (const { pipeline_id } of everything(page => client.fleet(page))) if (pipeline_id === id) return undefined
  } catch (error) {
    // If the key lacks the right to read, it is unknown whether daemons run the pipeline.
    if (error instanceof ServiceError) return undefined
    throw error
  }
  return printable(
    `published; no daemon has reported yet, and ${why}. Start a daemon with this pipeline, or correct the pipeline and publish it again`,
  )
}

export async function connect(connection: ApiConnection, io: Io): Promise<Client> {
  const given = connection.url ?? io.env.SLUICE_URL
  if (!given)
    throw new UsageError('where is the service? Set SLUICE_URL, as in SLUICE_URL=http://127.0.0.1:8080', 'api')
  const url = baseAddress(given, connection.url === undefined ? 'SLUICE_URL=' : '--url ')
  const file = connection['key-file']
  const key = trimKey(file === undefined ? (io.env.SLUICE_ACCESS_KEY ?? '') : await readKey(file))
  const problem = keyProblem(key)
  if (problem) {
    const what = file === undefined ? 'set SLUICE_ACCESS_KEY, or name a file with --key-file' : `look into ${file}`
    throw new UsageError(`${problem}: ${what}`, 'api')
  }
  const { delegate } = connection
  if (delegate !== undefined && !/^[\x21-\x7e]+$/.test(delegate))
    throw new UsageError('--delegate takes the identifier of an account: 24 hexadecimal digits', 'api')
  if (connection['ca-file'] !== undefined && url.startsWith('http:'))
    throw new UsageError('--ca-file has no use with an http:// address', 'api')
  const trust = trustedBy(connection['ca-file'] ?? io.env.SLUICE_CA_FILE, url)
  return new Client({ url, key, delegateAccountId: delegate, ...(trust && { fetch: trust }) })
}

/**
 * The base address of the service. If the address has a path before /v3, this path is part of the base address. Errors
 * do not show credentials and queries. `name`: the name of the setting, with the `=` or space that precedes the address. Throws UsageError.
 */
export function baseAddress(given: string, name: string, advice = '', command = 'api'): string {
  const setting = name.replace(/[= ]$/, '')
  if (!/^https?:\/\/[^/]/.test(given) || !URL.canParse(given))
    throw new UsageError(`${setting} must be the address of a service, as in ${name}http://127.0.0.1:8080`, command)
  const { origin, pathname, username, password, search, hash } = new URL(given)
  const base = origin + pathname.replace(/(\/v3(\/.*)?)?\/*$/, '')
  if (username || password || search || hash || /\/v3(\/|$)/.test(pathname))
    throw new UsageError(`${setting} must be only the address of the service: ${name}${base}${advice}`, command)
  return base
}

async function readKey(file: string): Promise<string> {
  try {
    return await readFile(file, 'latin1')
  } catch (error) {
    throw new Error(`--key-file: ${file} cannot be read: ${errorText(error)}`, { cause: error })
  }
}

/** A fetch that trusts the authorities in `file` (default: those of Node.js). Undefined if `url` does not use TLS. */
function trustedBy(file: string | undefined, url: string): typeof globalThis.fetch | undefined {
  if (url.startsWith('http:')) return undefined
  if (!file) return fetchTrusting()
  const { content, problems } = inspectTls({ ca_file: file }, systemClock.wall())
  const ca = content?.ca
  if (!ca) throw new Error(`--ca-file: ${problems.map(({ file, message }) => `${file} ${message}`).join('; ')}`)
  return fetchTrusting(() => ca)
}

/** On a terminal, text for people, unless the user wants JSON. */
function resultText(value: unknown, { json }: ApiConnection, io: Io): string {
  return io.stdout.isTTY && !json ? peopleText(value, terminalOf(io).width) : `${jsonText(value, io)}\n`
}

export async function allOf(list: (page: PageOptions) => Promise<ListPage<unknown>>): Promise<unknown[]> {
  const items: unknown[] = []
  for await (const item of everything(list)) items.push(item)
  return items
}

const NO_PIPELINE = `this account has no pipeline; create one first, as in: sluice api POST /v3/pipeline --data '{"title":"web","config":{"destinations":{"out":{"type":"blackhole","inputs":["ingest"]}}}}'`

/** The id of the pipeline whose id or title is `name`. */
export async function pipelineId(client: Client, name: string | undefined): Promise<string> {
  if (name !== undefined && /^[0-9a-f]{24}$/.test(name)) return name
  const found: string[] = []
  const titles: string[] = []
  for await (const { id, title } of everything(page => client.pipelines.all(page))) {
    titles.push(title)
    if (title === name) found.push(id)
  }
  if (titles.length === 0) throw new Error(NO_PIPELINE)
  if (name === undefined)
    throw new UsageError(
      `ID is missing. The pipelines are: ${titles.map(title => JSON.stringify(title)).join(', ')}`,
      'api publish',
    )
  const [id, ...more] = found
  if (id === undefined) {
    const near = new NearestName().find(name, titles)
    const hint = near === undefined ? 'list them with: sluice api pipelines' : `did you mean ${JSON.stringify(near)}?`
    throw new Error(`no pipeline has the id or the title ${JSON.stringify(name)}; ${hint}`)
  }
  if (more.length === 0) return id
  throw new Error(
    `${found.length} pipelines have the title ${JSON.stringify(name)}; name one by its id: ${found.join(', ')}`,
  )
}

function jsonText(value: unknown, { stdout }: Io): string {
  return printableJson(JSON.stringify(value, null, stdout.isTTY ? 2 : undefined))
}

function refusalText(error: ServiceError): string {
  const places = error.errors.map(({ path, message }) => `  ${path ? `${path}: ` : ''}${message}\n`).join('')
  const id = error.requestId ? ` (request ${error.requestId})` : ''
  return printableText(`sluice: ${error.status} ${error.code}: ${error.message}${id}\n${places}`)
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

export interface RawCall extends ApiConnection {
  readonly data?: string | undefined
  readonly type?: string | undefined
  readonly include: boolean
}

/** `sluice api METHOD PATH`: writes the body of the response to stdout. */
export async function api(options: RawCall, operands: readonly string[], io: Io): Promise<number> {
  const [method = '', path = ''] = operands
  if (!METHODS.includes(method.toUpperCase()))
    throw new UsageError(`${method} is not a method or a command; the methods are ${METHODS.join(', ')}`, 'api')
  if (!path.startsWith('/')) throw new UsageError(`PATH begins with a slash, as in /v3/pipeline, not ${path}`, 'api')
  const client = await connect(options, io)
  const body = options.data === undefined ? undefined : await readInput(options.data, io)
  const type = options.type ?? 'application/json'
  const print = (answer: Pick<Answered, 'status' | 'headers' | 'body'>) => {
    if (options.include) io.stdout.write(headText(answer))
    const { body } = answer
    if (typeof body === 'string') io.stdout.write(`${io.stdout.isTTY ? printableText(body) : body}\n`)
    else if (body !== undefined)
      io.stdout.write(answer.status < 400 ? bodyText(body, options, io) : `${jsonText(body, io)}\n`)
  }
  try {
    const sent = body === undefined ? {} : { body, headers: { 'content-type': type } }
    print(await client.request(method.toUpperCase(), path, sent))
    return EXIT.done
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    print(error.answer)
    io.stderr.write(refusalText(error))
    return EXIT.failed
  }
}

/** On a terminal, omits the envelope, and states how to get the next page of a list. */
function bodyText(body: unknown, options: RawCall, io: Io): string {
  const { data, meta } = body as { data?: unknown; meta?: { page?: { next?: string | null } } }
  if (!io.stdout.isTTY || options.json || options.include || data === undefined) return `${jsonText(body, io)}\n`
  const next = meta?.page?.next
  return resultText(data, options, io) + (next ? `There are more: add ?after=${encodeURIComponent(next)}\n` : '')
}

function headText({ status, headers }: Pick<Answered, 'status' | 'headers'>): string {
  return `${status}\n${[...headers].map(([name, value]) => `${name}: ${printable(value)}\n`).join('')}\n`
}

/** The text itself, the content of a file for `@FILE`, or standard input for `-`. */
export async function readInput(text: string, io: Io): Promise<Uint8Array | string> {
  if (text.startsWith('@')) return readFile(text.slice(1))
  return text === '-' ? buffer(io.stdin) : text
}
