import { readFile } from 'node:fs/promises'
import { Client } from '../client/client.js'
import { type Answered, ServiceError } from '../client/transport.js'
import { keyProblem, trimKey } from '../core/auth-options.js'
import { type Io, UsageError } from './command-line.js'
import { EXIT } from './dispatch.js'

/** Calls of the service from the command line. */

/** What every one of these commands may be given. */
export interface Connection {
  readonly url?: string | undefined
  readonly 'key-file'?: string | undefined
  readonly delegate?: string | undefined
}

/** Runs `call` with a client; prints what it gives as JSON. Exit code 1 when the service refuses. */
export async function withClient(
  connection: Connection,
  io: Io,
  call: (client: Client) => Promise<unknown>,
): Promise<number> {
  const client = await connect(connection, io)
  try {
    const result = await call(client)
    if (result !== undefined) io.stdout.write(`${jsonText(result, io)}\n`)
    return EXIT.done
  } catch (error) {
    if (error instanceof ServiceError) {
      io.stderr.write(refusalText(error))
      return EXIT.failed
    }
    throw error
  }
}

async function connect(connection: Connection, io: Io): Promise<Client> {
  const given = connection.url ?? io.env.SLUICE_URL
  if (!given)
    throw new UsageError('where is the service? Set SLUICE_URL, as in SLUICE_URL=http://127.0.0.1:8080', 'api')
  // The address of ingest, which the daemon has, will do as well.
  const url = given.replace(/\/v3(\/.*)?$/, '')
  if (!/^https?:\/\/[^/]/.test(url))
    throw new UsageError(`${given} is not an address such as http://127.0.0.1:8080`, 'api')
  const file = connection['key-file']
  const key = trimKey(file === undefined ? (io.env.SLUICE_ACCESS_KEY ?? '') : await readFile(file, 'latin1'))
  const problem = keyProblem(key)
  if (problem) {
    const what = file === undefined ? 'set SLUICE_ACCESS_KEY, or name a file with --key-file' : `look into ${file}`
    throw new UsageError(`${problem}: ${what}`, 'api')
  }
  const { delegate } = connection
  if (delegate !== undefined && !/^[\x21-\x7e]+$/.test(delegate))
    throw new UsageError('--delegate takes the identifier of an account: 24 hexadecimal digits', 'api')
  return new Client({ url, key, delegateAccountId: delegate })
}

function jsonText(value: unknown, { stdout }: Io): string {
  return JSON.stringify(value, null, stdout.isTTY ? 2 : undefined)
}

function refusalText(error: ServiceError): string {
  const places = error.errors.map(({ path, message }) => `  ${path ? `${path}: ` : ''}${message}\n`).join('')
  const id = error.requestId ? ` (request ${error.requestId})` : ''
  return `sluice: ${error.status} ${error.code}: ${error.message}${id}\n${places}`
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

export interface RawCall extends Connection {
  readonly data?: string | undefined
  readonly type?: string | undefined
  readonly include: boolean
}

/** `sluice api METHOD PATH`: the body of the answer on stdout, whatever it is. */
export async function api(options: RawCall, operands: readonly string[], io: Io): Promise<number> {
  const [method = '', path = ''] = operands
  if (!METHODS.includes(method.toUpperCase()))
    throw new UsageError(`${method} is no method and no command; the methods are ${METHODS.join(', ')}`, 'api')
  if (!path.startsWith('/')) throw new UsageError(`PATH begins with a slash, as in /v3/pipeline, not ${path}`, 'api')
  const client = await connect(options, io)
  const body = options.data === undefined ? undefined : await readInput(options.data, io)
  const type = options.type ?? 'application/json'
  const print = (answer: Pick<Answered, 'status' | 'headers' | 'body'>) => {
    if (options.include) io.stdout.write(headText(answer))
    if (answer.body !== undefined)
      io.stdout.write(`${typeof answer.body === 'string' ? answer.body : jsonText(answer.body, io)}\n`)
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

function headText({ status, headers }: Pick<Answered, 'status' | 'headers'>): string {
  return `${status}\n${[...headers].map(([name, value]) => `${name}: ${value}\n`).join('')}\n`
}

/** The text itself, the content of a file behind `@`, or standard input for `-`. */
export async function readInput(text: string, io: Io): Promise<Uint8Array | string> {
  if (text.startsWith('@')) return readFile(text.slice(1))
  if (text !== '-') return text
  const parts: Buffer[] = []
  for await (const part of io.stdin) parts.push(Buffer.from(part))
  return Buffer.concat(parts)
}
