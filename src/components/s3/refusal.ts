import { DeliveryError, type Failure } from '../../core/errors.js'
import { causeOf, failureOf } from '../../net/http/client/answers/statuses.js'

/** What an S3 error code means, and advice. If `failure` is undefined, the HTTP status determines it. */
interface Known {
  readonly failure?: Failure
  readonly advice: string
}

/** The error code if the receiver no longer knows the multipart upload. */
export const NO_UPLOAD = 'NoSuchUpload'
const RIGHT = 'the key needs s3:PutObject for the objects, and s3:AbortMultipartUpload'
const NO_SUCH_KEY: Known = { failure: 'hold', advice: 'the receiver does not know the access key ID' }
/** For all codes that begin with `KMS.`. */
const KMS: Known = {
  failure: 'hold',
  advice:
    'the key needs kms:GenerateDataKey and kms:Decrypt for sse.kms_key_id, which must be enabled and in the region of the bucket',
}
const KNOWN: Readonly<Record<string, Known>> = {
  NoSuchBucket: { failure: 'hold', advice: 'create the bucket, or correct "bucket"' },
  AccessDenied: { failure: 'hold', advice: RIGHT },
  AllAccessDisabled: { failure: 'hold', advice: 'the bucket or its account is disabled' },
  SignatureDoesNotMatch: { failure: 'hold', advice: 'the secret access key does not belong to the access key ID' },
  InvalidAccessKeyId: NO_SUCH_KEY,
  /** A code of versitygw. */
  XAdminUserNotFound: NO_SUCH_KEY,
  ExpiredToken: { failure: 'hold', advice: 'the credentials have expired' },
  InvalidToken: { failure: 'hold', advice: 'the session token is wrong or has expired' },
  RequestTimeTooSkewed: {
    failure: 'retry',
    advice: 'the clock of this machine or of the receiver is wrong by more than 15 minutes: synchronize it',
  },
  PermanentRedirect: { failure: 'hold', advice: 'the bucket is elsewhere: correct "region" and "endpoint"' },
  TemporaryRedirect: { failure: 'retry', advice: 'the bucket is new, and its name is not known everywhere yet' },
  AuthorizationHeaderMalformed: { failure: 'hold', advice: 'the bucket is in another region: correct "region"' },
  IllegalLocationConstraintException: { failure: 'hold', advice: 'the bucket is in another region: correct "region"' },
  [NO_UPLOAD]: { failure: 'retry', advice: 'the upload was aborted; the object is sent from its beginning' },
  InvalidPart: { failure: 'retry', advice: 'the object is sent from its beginning' },
  InvalidPartOrder: { failure: 'retry', advice: 'the object is sent from its beginning' },
  InternalError: { failure: 'retry', advice: 'the receiver has a problem of its own' },
  ServiceUnavailable: { failure: 'retry', advice: 'the receiver is overloaded' },
  OperationAborted: { failure: 'retry', advice: 'another request is changing the bucket' },
  BadDigest: { failure: 'retry', advice: 'a part of the request was changed on its way' },
  IncompleteBody: { failure: 'retry', advice: 'a part of the request was lost on its way' },
  SlowDown: { failure: 'retry', advice: 'the receiver limits the request rate: use fewer or larger objects' },
  RequestTimeout: { failure: 'retry', advice: 'the request took too long: raise "timeout", or check the network' },
  EntityTooLarge: { failure: 'hold', advice: 'lower object.max_bytes' },
  EntityTooSmall: { failure: 'hold', advice: 'the receiver requires parts larger than 8 MiB' },
  InvalidStorageClass: { failure: 'hold', advice: 'correct "storage_class"' },
  KeyTooLongError: { failure: 'hold', advice: 'shorten "key"' },
  InvalidBucketName: { failure: 'hold', advice: 'correct "bucket"' },
  XMinioStorageFull: { failure: 'retry', advice: 'the disks of the receiver are full' },
  QuotaExceeded: { failure: 'hold', advice: 'the bucket is full' },
  InvalidObjectState: { failure: 'hold', advice: 'an object of this name is archived' },
  ObjectLockConfigurationNotFoundError: { failure: 'hold', advice: 'check the object lock of the bucket' },
  NotImplemented: { failure: 'hold', advice: 'the receiver does not know an option: remove "sse" or "storage_class"' },
}

export class S3Refusal extends DeliveryError {
  readonly awsCode: string | undefined

  constructor(message: string, awsCode: string | undefined, options: ConstructorParameters<typeof DeliveryError>[1]) {
    super(message, options)
    this.awsCode = awsCode
  }
}

/** `text`: the body of the response, as one line. */
export function objectRefusal(
  status: number,
  text: string,
  place: string,
  more: { readonly requestId?: string | undefined; readonly retryAfterMs?: number | undefined },
): S3Refusal {
  const of = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
  const code = of('Code')
  const isKnown = code !== undefined && Object.hasOwn(KNOWN, code)
  const isOfKms = code?.startsWith('KMS.') ?? false
  const { failure = failureOf(status), advice }: Partial<Known> = isKnown
    ? KNOWN[code]!
    : isOfKms
      ? KMS
      : code
        ? {}
        : byStatus(status)
  const region = of('Region')?.slice(0, 40)
  const said = code ? `${code}: ${unescaped(of('Message') ?? '')}` : text
  const where = region && failure === 'hold' ? ` (the receiver names the region ${region})` : ''
  const message = [`${status} from ${place}`, said && `: ${said.slice(0, 300)}`, advice && `; ${advice}`, where].join(
    '',
  )
  // A code that the receiver invents must not become the value of a metric label.
  const reason = isKnown ? code.replace(/[a-z](?=[A-Z])/g, '$&_').toLowerCase() : isOfKms ? 'kms' : `status_${status}`
  return new S3Refusal(message, code, { failure, reason, status, causedBy: causeOf(status), ...more })
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  '#34': '"',
  '#39': "'",
}
export const unescaped = (xml: string): string =>
  xml.replace(/&(#?\w+);/g, (all, name: string) => ENTITIES[name] ?? all)

/** For a response without an error code. Such a response may come from another server, such as a proxy. */
function byStatus(status: number): Partial<Known> {
  if (status === 301) return KNOWN.PermanentRedirect!
  if (status === 403) return KNOWN.AccessDenied!
  return status === 404 ? { failure: 'hold', advice: 'correct "bucket" and "endpoint"' } : {}
}
