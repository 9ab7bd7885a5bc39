import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { readdirSync, readFileSync } from '../../lib/files/disk/disk.js'
import { takesGzip } from '../../net/http/server/bounded-server.js'

/** Serves the files that browsers load for the page. The files are read once. */

const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

interface StaticFile {
  readonly type: string
  readonly bytes: Buffer
  /** Set by the first request, because most daemons start without a reader of the page. */
  gzip?: Buffer
  readonly etag: string
}

const BUNDLE = fileURLToPath(new URL('../web/bundle/', import.meta.url))

export class StaticFiles {
  readonly #files = new Map<string, StaticFile>()

  constructor(folder = BUNDLE) {
    for (const name of readdirSync(folder)) {
      const type = TYPES[name.split('.').at(-1)!]
      if (type === undefined) continue
      const bytes = readFileSync(`${folder}/${name}`)
      const hash = createHash('sha256').update(bytes).digest('base64url').slice(0, 22)
      this.#files.set(name, { type, bytes, etag: `"${hash}"` })
    }
  }

  /** The link to a file, with a part that changes when the file changes; undefined if the file does not exist. */
  link(name: string): string | undefined {
    const file = this.#files.get(name)
    return file && `${name}?v=${file.etag.slice(1, 9)}`
  }

  answer(name: string, { method, headers }: IncomingMessage, response: ServerResponse): boolean {
    const file = this.#files.get(name)
    if (!file) return false
    const { type, etag } = file
    const about = { etag, 'cache-control': 'no-cache', vary: 'Accept-Encoding' }
    if (headers['if-none-match']?.includes(etag)) {
      response.writeHead(304, about).end()
      return true
    }
    const isGzip = takesGzip(headers)
    const body = isGzip ? (file.gzip ??= gzipSync(file.bytes, { level: 9 })) : file.bytes
    const encoding = isGzip ? { 'content-encoding': 'gzip' } : {}
    response.writeHead(200, { ...about, ...encoding, 'content-type': type, 'content-length': body.length })
    response.end(method === 'HEAD' ? undefined : body)
    return true
  }
}
