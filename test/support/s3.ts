import type { Answer, Received } from './receiver.js'

const SSE = 'x-amz-server-side-encryption'

/** Answers as S3 does, and keeps the objects. */
export class S3 {
  /** By their names, each time that they were stored. */
  readonly objects = new Map<string, string[]>()
  /** Unfinished uploads of several parts, by their ids. */
  readonly uploads = new Map<string, Map<number, string>>()
  /** The beginning of the path before the names. */
  readonly prefix: string
  /** The KMS keys that exist; undefined: nothing is checked. */
  kmsKeys: ReadonlySet<string> | undefined
  /** Whether it requires a checksum of each object, as in a bucket with Object Lock. */
  isLocked = false
  #count = 0

  constructor(bucket = 'logs') {
    this.prefix = `/${bucket}/`
  }

  readonly answer = ({ method, path, body, headers }: Received): Answer => {
    if (this.isLocked && method === 'PUT' && !headers['content-md5'])
      return refusal(400, 'InvalidRequest', 'Content-MD5 OR x-amz-checksum- HTTP header is required')
    const signed = /SignedHeaders=([^,]*)/.exec(headers.authorization ?? '')?.[1]?.split(';') ?? []
    const unsigned = Object.keys(headers).find(name => name.startsWith('x-amz-') && !signed.includes(name))
    if (unsigned) {
      const message = 'There were headers present in the request which were not signed'
      return refusal(403, 'AccessDenied', message, `<HeadersNotSigned>${unsigned}</HeadersNotSigned>`)
    }
    const url = new URL(path, 'http://s3')
    const encryption = Object.keys(headers).find(name => name.startsWith(SSE))
    // Requests that do not begin an object must not have them.
    if (encryption && (url.searchParams.has('uploadId') || method === 'GET'))
      return refusal(400, 'InvalidArgument', `${encryption} header is not supported for this operation.`)
    const kmsKey = headers[`${SSE}-aws-kms-key-id`]
    if (this.kmsKeys && typeof kmsKey === 'string' && !this.kmsKeys.has(kmsKey))
      return refusal(400, 'KMS.NotFoundException', `Key '${kmsKey}' does not exist`)
    const key = decodeURIComponent(url.pathname.slice(this.prefix.length))
    if (method === 'HEAD') {
      const content = this.objects.get(key)?.at(-1)
      return content === undefined
        ? { status: 404 }
        : { headers: { 'content-length': String(Buffer.byteLength(content)) } }
    }
    const [id = '', part] = [url.searchParams.get('uploadId') ?? undefined, url.searchParams.get('partNumber')]
    const upload = this.uploads.get(id)
    if (id && !upload) return refusal(404, 'NoSuchUpload', 'The upload ID may be invalid')
    if (method === 'DELETE') this.uploads.delete(id)
    if (method === 'DELETE') return { status: 204 }
    if (url.searchParams.has('uploads')) {
      this.uploads.set(`upload-${++this.#count}`, new Map())
      return {
        body: `<InitiateMultipartUploadResult><UploadId>upload-${this.#count}</UploadId></InitiateMultipartUploadResult>`,
      }
    }
    if (upload && part) upload.set(Number(part), body)
    if (upload && part) return { headers: { etag: `"etag-${part}"` } }
    if (upload) {
      const listed = [...body.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"etag-\1"<\/ETag>/g)].map(([, n]) =>
        Number(n),
      )
      this.#store(key, listed.map(n => upload.get(n)!).join(''))
      this.uploads.delete(id)
      return { body: '<CompleteMultipartUploadResult xmlns="x"></CompleteMultipartUploadResult>' }
    }
    this.#store(key, body)
    return { headers: { etag: '"etag"' } }
  }

  #store(key: string, content: string): void {
    this.objects.set(key, [...(this.objects.get(key) ?? []), content])
  }
}

export const refusal = (status: number, code: string, message = code, more = ''): Answer => ({
  status,
  headers: { 'content-type': 'application/xml', 'x-amz-request-id': 'request' },
  body: `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>${more}</Error>`,
})
