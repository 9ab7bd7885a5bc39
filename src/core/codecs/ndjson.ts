import { defineCodec } from '../codec.js'
import { json } from './json.js'

export const ndjson = defineCodec({
  ...json,
  name: 'ndjson',
  summary: 'Another name of `json`.',
  notes: 'What is counted, and what disk buffers and dead letters name, is `json`.',
})
