import { defineCodec } from '../codec.js'
import { json } from './json.js'

export const ndjson = defineCodec({
  ...json,
  name: 'ndjson',
  summary: 'Another name of `json`.',
  notes: 'Counters, disk buffers and the dead-letter queue name it `json`.',
})
