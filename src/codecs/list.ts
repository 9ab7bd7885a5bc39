import type { Codec, CodecDefinition } from '../core/codec.js'
import { csv } from './csv.js'
import { json } from './json.js'
import { logfmt } from './logfmt.js'
import { syslog } from './syslog.js'
import { text } from './text.js'

/** All codecs. A new one needs one file and one line here. */
export const codecs: readonly CodecDefinition[] = [json, text, syslog, logfmt, csv]

/** Creates the codec with this name and these options; undefined if either is unknown. */
export function codecOf(name: string, options: unknown = {}): Codec | undefined {
  const definition = codecs.find(codec => codec.name === name)
  const parsed = definition?.options.safeParse(options)
  return parsed?.success ? definition!.create(parsed.data as never) : undefined
}
