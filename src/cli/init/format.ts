import { createCodec } from '../../core/codecs/list.js'
import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { DECODED } from '../../core/event/flags.js'
import { Splitting } from '../../core/options/multiline-options.js'
import { WantedNames } from '../../lib/formats/json-scan.js'

const MAX_LINE_BYTES = 1024 * 1024
/** Of the lines, this share must be decoded, or have the field. */
const NEARLY_ALL = 0.9
const CODECS = ['json', 'nginx', 'syslog']
/** Usual fields with the name of the program that wrote the event. */
const APP_FIELDS = ['app', 'service', 'service_name', 'component', 'program', 'logger', 'name']

/**
 * The codec that decodes nearly all lines of a sample, and the field with the name of their app, if there is one.
 * `expected`: the codec to try first, and that of an empty sample.
 */
export function formatOf(lines: string, expected = 'text'): { readonly decode: string; readonly app?: string } {
  if (lines.trim() === '') return { decode: expected }
  for (const decode of expected === 'text' ? CODECS : [expected, ...CODECS]) {
    const codec = createCodec(decode, {})
    const options = { decode: codec, max_line_bytes: MAX_LINE_BYTES, partial_line_timeout: 0 }
    const frame = new Splitting(options).lineSplitter().push(Buffer.from(lines))!
    const origin = { source: decode, host: '', codec, wanted: new WantedNames() }
    const batch = new EventBatch(frame, origin, 0, new Ack(() => {}))
    const decoded = Array.from({ length: batch.length }, (_, i) => i).filter(i => (batch.look(i) & DECODED) !== 0)
    if (decoded.length < batch.length * NEARLY_ALL) continue
    const events = decoded.map(i => batch.fields(i))
    const isName = (value: unknown) => typeof value === 'string' && value !== ''
    const app = APP_FIELDS.find(name => events.filter(event => isName(event[name])).length >= batch.length * NEARLY_ALL)
    return app === undefined ? { decode } : { decode, app }
  }
  return { decode: 'text' }
}
