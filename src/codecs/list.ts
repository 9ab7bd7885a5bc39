import type { Codec, CodecDefinition } from '../core/codec.js'
import { apache } from './apache.js'
import { cri } from './cri.js'
import { csv } from './csv.js'
import { dockerJson } from './docker_json.js'
import { gelf } from './gelf.js'
import { grok } from './grok.js'
import { json } from './json.js'
import { keyValue } from './key_value.js'
import { klog } from './klog.js'
import { logfmt } from './logfmt.js'
import { msgpack } from './msgpack.js'
import { ndjson } from './ndjson.js'
import { nginx } from './nginx.js'
import { protobuf } from './protobuf.js'
import { raw } from './raw.js'
import { regex } from './regex.js'
import { syslog } from './syslog.js'
import { text } from './text.js'

/** All codecs that come with the program. A new one needs one file and one line here. */
export const codecs: readonly CodecDefinition[] = [
  json,
  text,
  syslog,
  logfmt,
  csv,
  nginx,
  apache,
  keyValue,
  klog,
  dockerJson,
  cri,
  gelf,
  msgpack,
  protobuf,
  ndjson,
  raw,
  regex,
  grok,
]

/** Those of plugins, by name. They stay, since records on the disk may name them. */
const added = new Map<string, CodecDefinition>()

/** Makes codecs of plugins known by their names, in place of earlier versions. */
export function addCodecs(definitions: readonly CodecDefinition[]): void {
  for (const definition of definitions) added.set(definition.name, definition)
}

/** The definition of a codec; undefined: there is none of this name. */
export function codecDefinition(name: unknown): CodecDefinition | undefined {
  return codecs.find(codec => codec.name === name) ?? added.get(name as string)
}

/** Creates the codec with this name. Throws if there is none, or if it cannot have these options. */
export function createCodec(name: string, options: unknown): Codec {
  const definition = codecDefinition(name)
  if (!definition) throw new Error(`there is no codec ${name}`)
  const parsed = definition.options.safeParse(options)
  const [issue] = parsed.error?.issues ?? []
  if (issue) {
    const option = issue.path.join('.')
    const isMissing = issue.path.length === 1 && !Object.hasOwn(Object(options), option)
    throw new Error(
      isMissing
        ? `${name} needs the option ${option}, as in {codec: ${name}, ${option}: …}`
        : `${name} needs other options: ${option}: ${issue.message}`,
    )
  }
  return definition.create(parsed.data as never)
}

/** Like `createCodec`; undefined where that throws. */
export function codecOf(name: string, options: unknown = {}): Codec | undefined {
  try {
    return createCodec(name, options)
  } catch {
    return undefined
  }
}
