/** The client of the service, for other programs: `import { Client } from '@sluice-logs/sluice/client'`. */
export { Client, everything, type ListPage, type PageOptions, type WithEtag } from './daemon/client/client.js'
export {
  type Answered,
  type ApiClientOptions as ClientOptions,
  type RequestOptions,
  ServiceError,
  UnreachableError,
} from './daemon/client/transport.js'
