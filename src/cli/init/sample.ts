import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { AutoTime } from '../../components/throttle/event/auto-time.js'
import { createCodec } from '../../core/codecs/list.js'
import { Ack } from '../../core/event/ack.js'
import { EventBatch } from '../../core/event/batch.js'
import { FieldReader } from '../../core/event/field-reader.js'
import { DECODED } from '../../core/event/flags.js'
import { Splitting } from '../../core/options/multiline-options.js'
import { AS_OBJECTS } from '../../daemon/process/given-event.js'
import { WantedNames } from '../../lib/formats/json-scan.js'
import { textPrintedBy } from '../../lib/printed-by.js'

/** The newest lines of logs, and their format. */

const SAMPLED_LINES = 1000
const SAMPLED_BYTES = 256 * 1024
const JOURNALCTL = ['journalctl', '--no-pager', '-q', '-a', '-o', 'json', '-n', String(SAMPLED_LINES)]
const ENTRIES_BYTES = 64 * 1024 * 1024
/** Of the lines, this share must be decoded, or have the field or a time. */
const NEARLY_ALL = 0.9
const CODECS = ['json', 'nginx', 'syslog']
/** Usual fields with the name of the program that wrote the event. */
const APP_FIELDS = ['app', 'service', 'service_name', 'component', 'program', 'logger', 'name']

/** The last lines of a file that are not blank; empty if the file cannot be read. */
export function newestLines(path: string): string {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    const start = Math.max(0, fstatSync(fd).size - SAMPLED_BYTES)
    const bytes = Buffer.alloc(SAMPLED_BYTES)
    const lines = bytes.toString('utf8', 0, readSync(fd, bytes, 0, SAMPLED_BYTES, start)).split('\n')
    // The first line may be incomplete.
    const whole = lines.slice(start === 0 ? 0 : 1).filter(line => line.trim() !== '')
    return whole
      .slice(-SAMPLED_LINES)
      .map(line => `${line}\n`)
      .join('')
  } catch {
    return ''
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** The newest entries of the journal, as JSON lines; empty if this user can read none. `place`: where the journal is. */
export const newestEntries = (place: readonly string[]): Promise<string> =>
  textPrintedBy([...JOURNALCTL, ...place], { maxBytes: ENTRIES_BYTES })

/**
 * The codec of nearly all lines of a sample, the field with the name of their app, and whether they have times.
 * `expected`: the codec to try first, and that of an empty sample.
 */
export function logFormat(
  lines: string,
  expected = 'text',
): { decode: string; app?: string | undefined; isTimed: boolean } {
  if (lines === '') return { decode: expected, isTimed: expected !== 'text' }
  for (const decode of expected === 'text' ? CODECS : [expected, ...CODECS]) {
    const codec = createCodec(decode, {})
    const frame = new Splitting({ ...AS_OBJECTS, decode: codec }).lineSplitter().push(Buffer.from(lines))!
    const wanted = new WantedNames()
    const time = new AutoTime({ field: path => new FieldReader(path, wanted) })
    const batch = new EventBatch(frame, { source: decode, host: '', codec, wanted }, 0, new Ack(() => {}))
    const decoded = Array.from({ length: batch.length }, (_, i) => i).filter(i => (batch.look(i) & DECODED) !== 0)
    const areNearlyAll = (is: (i: number) => boolean) => decoded.filter(is).length >= batch.length * NEARLY_ALL
    if (!areNearlyAll(() => true)) continue
    const hasName = (name: string) => areNearlyAll(i => /./.test(String(batch.fields(i)[name] ?? '')))
    return { decode, app: APP_FIELDS.find(hasName), isTimed: areNearlyAll(i => !Number.isNaN(time.of(batch, i))) }
  }
  return { decode: 'text', isTimed: false }
}
