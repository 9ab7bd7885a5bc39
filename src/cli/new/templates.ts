import type { Kind } from '../../core/component.js'

/** The templates of `sluice new`. */
export const WHAT = ['processor', 'source', 'destination', 'codec'] as const satisfies readonly (Kind | 'codec')[]
export type What = (typeof WHAT)[number]

/** The module that generated code imports. */
const PLUGIN = `'@sluice-logs/sluice/plugin'`

interface Template {
  /** The code of the plugin; `typed` returns its argument for TypeScript, and '' for JavaScript. */
  code(name: string, typed: (text: string) => string): string
  /** The body of the plugin's test, after its imports. */
  test(file: string): string
  readonly testImports: string
  config(file: string, name: string): string
}

/** Metrics are off, because a daemon of this machine may serve its own metrics at the default address. */
const head = (file: string) => `plugins: [./${file}]
metrics: false
`

const processor: Template = {
  code: name => `import { defineProcessor, discard, fieldPath, parseFieldPath, STRING, z } from ${PLUGIN}

export default defineProcessor({
  contract: 1,
  type: '${name}',
  summary: 'Writes the length of a text into events, and discards events with long texts.',
  // Every option is described, because validate, the reference and editors show the description.
  options: z.strictObject({
    field: fieldPath().prefault('.message').describe('The field with the text.'),
    longest: z.int().min(1).default(100).describe('Characters of the longest text that passes.'),
  }),
  usesFields: ({ field }) => [{ option: 'field', path: field }],
  // The fields that this processor adds. validate warns of fields that no component adds.
  fields: () => ({ names: ['length'] }),
  reasons: { too_long: 'The text has more characters than \`longest\`.' },
  plan: () => ({ reasons: ['too_long'] }),
  // Examples are in the reference, and run as tests.
  examples: [
    {
      title: 'Short messages only',
      yaml: 'longest: 5\\n',
      input: ['{"message":"short"}', '{"message":"longer"}', '{"message":"naïve"}', '{"message":"🚀🚀🚀"}'],
      output: ['{"message":"short","length":5}', '{"message":"naïve","length":5}', '{"message":"🚀🚀🚀","length":3}'],
    },
  ],
  create({ field, longest }, context) {
    const text = context.field(field)
    const editor = context.editor()
    const length = editor.field(parseFieldPath('.length'))
    return {
      // Decides about a whole batch: \`to\` has an entry for each event. 0 means that the event passes.
      process(batch, to) {
        for (let i = 0; i < batch.length; i++) {
          if (text.load(batch, i) !== STRING) continue
          // \`length\` of a string counts some characters twice, such as emojis.
          const characters = [...text.text()].length
          if (characters > longest) {
            to[i] = discard(0)
            continue
          }
          editor.open(batch, i)
          editor.set(length, characters)
          editor.close()
        }
      },
    }
  },
})
`,
  testImports: 'checkProcessor, loadPlugin',
  test: () => `test('it keeps to the contract, and does what its examples say', async () => {
  assert.deepEqual(await checkProcessor(plugin), [])
})
`,
  config: (file, name) => `${head(file)}
sources:
  lines:
    type: stdin
    decode: json

processors:
  ${name}:
    type: ${name}
    inputs: [lines]
    longest: 20

destinations:
  out:
    type: stdout
    inputs: [${name}]

tests:
  - name: long messages are discarded
    steps:
      - into: lines
        events:
          - message: short
          - message: far too long for this option
    expect:
      ${name}:
        - message: short
          length: 5
`,
}

const source: Template = {
  code: (name, typed) => `import { spawn } from 'node:child_process'
import { decodeOption, defineSource, EventBatch, fieldsOfLines, LineSplitter, maxLineBytesOption, z } from ${PLUGIN}
${typed(`import type { Frame, Output } from ${PLUGIN}\n`)}
export default defineSource({
  contract: 1,
  type: '${name}',
  summary: 'Reads the lines that a program writes to its standard output.',
  options: z.strictObject({
    command: z.array(z.string()).min(1).describe('The program and its arguments.'),
    decode: decodeOption(),
    max_line_bytes: maxLineBytesOption(),
  }),
  examples: [{ title: 'Messages of the kernel', yaml: 'command: [dmesg, --follow]\\n' }],
  fields: ({ decode }) => fieldsOfLines(decode),
  create({ command, decode, max_line_bytes }, context) {
    const origin = context.origin(decode)
    return {
      // Lines that were read cannot be read again.
      once: true,
      async run(out${typed(': Output')}, signal${typed(': AbortSignal')}) {
        const splitter = new LineSplitter(max_line_bytes)
        const send = async (frame${typed('?: Frame')}) => {
          if (!frame) return
          // The ack is settled when the events are delivered or permanently rejected.
          const ack = out.ack(status => {
            if (status === 'errored') context.metrics.failed('undelivered')
          })
          // Waits while there is no room.
          await out.send(new EventBatch(frame, origin, context.clock.wall(), ack))
        }
        const [program, ...args] = command
        const child = spawn(program${typed('!')}, args, { stdio: ['ignore', 'pipe', 'inherit'] })
        const ended = new Promise${typed('<void>')}((resolve, reject) => child.once('close', () => resolve()).once('error', reject))
        const end = () => void child.kill()
        signal.addEventListener('abort', end, { once: true })
        if (signal.aborted) end()
        for await (const chunk of child.stdout) await send(splitter.push(chunk))
        // If the program was killed, the remaining bytes are not a complete line.
        if (!signal.aborted) await send(splitter.flush())
        signal.removeEventListener('abort', end)
        await ended
      },
    }
  },
})
`,
  testImports: 'checkSource, loadPlugin',
  test: () => `test('it keeps to the contract', async () => {
  const open = () => {
    const folder = mkdtempSync(join(tmpdir(), 'source-'))
    const file = join(folder, 'lines')
    writeFileSync(file, '')
    return {
      options: { command: ['tail', '-n', '+1', '-f', file] },
      write: lines => appendFileSync(file, lines.map(line => \`\${line}\\n\`).join('')),
      close: () => rmSync(folder, { recursive: true }),
    }
  }
  assert.deepEqual(await checkSource(plugin, open), [])
})
`,
  config: (file, name) => `${head(file)}
sources:
  ${name}:
    type: ${name}
    command: [echo, an event]

destinations:
  out:
    type: stdout
    inputs: [${name}]
    encoding: json
`,
}

const destination: Template = {
  code: (name, typed) => `import { appendFile } from 'node:fs/promises'
import { DeliveryError, defineDestination, encodeAlone, encodingOption, filePath, written, z } from ${PLUGIN}
${typed(`import type { EventBatch } from ${PLUGIN}\n`)}
export default defineDestination({
  contract: 1,
  type: '${name}',
  summary: 'Appends events to a file.',
  options: z.strictObject({
    path: filePath().describe('The file.'),
    encoding: encodingOption('json'),
  }),
  writes: 'path',
  examples: [{ title: 'JSON lines', yaml: 'path: /var/log/events.ndjson\\n' }],
  create({ path, encoding }) {
    return {
      // Makes one attempt. If it throws an error, the error decides whether there is another attempt.
      async write(request${typed(': readonly EventBatch[]')}) {
        // Copies the bytes before the first await, because the bytes of a batch do not stay valid.
        const bytes = Buffer.from(written(encodeAlone(encoding, request)))
        try {
          await appendFile(path, bytes)
        } catch (error) {
          throw new DeliveryError(\`cannot write \${path}: \${error}\`, { failure: 'retry', reason: 'write' })
        }
      },
    }
  },
})
`,
  testImports: 'checkDestination, loadPlugin',
  test: () => `test('it keeps to the contract', async () => {
  const open = () => {
    const folder = mkdtempSync(join(tmpdir(), 'destination-'))
    const path = join(folder, 'events')
    return {
      options: { path },
      arrived: () => (existsSync(path) ? readFileSync(path, 'utf8') : ''),
      close: () => rmSync(folder, { recursive: true }),
    }
  }
  assert.deepEqual(await checkDestination(plugin, open), [])
})
`,
  config: (file, name) => `${head(file)}
sources:
  lines:
    type: stdin

destinations:
  ${name}:
    type: ${name}
    inputs: [lines]
    path: ./events.ndjson
`,
}

const codec: Template = {
  code: (name, typed) => `import { behindMark, Codec, defineCodec, NO_OPTIONS, putSlot } from ${PLUGIN}
${typed(`import type { Fields, WantedNames } from ${PLUGIN}\n`)}
const SPACE = 0x20

/** Where the first word of a line ends. -1 if the line has no word, or if nothing follows the word. */
function endOfWord(b${typed(': Buffer')}, start${typed(': number')}, end${typed(': number')}) {
  let at = start
  while (at < end && b[at] !== SPACE) at++
  return at > start && at < end ? at : -1
}

class FirstWord extends Codec {
  constructor() {
    super(definition)
  }

  ${typed('override ')}get eventFields() {
    return { names: ['level', 'message'] }
  }

  // Runs for every line. Finds the requested fields without allocating memory.
  scan(b${typed(': Buffer')}, start${typed(': number')}, end${typed(': number')}, { names }${typed(': WantedNames')}, out${typed(': Int32Array')}, at${typed(': number')}) {
    const from = behindMark(b, start, end)
    const space = endOfWord(b, from, end)
    if (space < 0) return false
    for (let slot = 0; slot < names.length; slot++) {
      if (names[slot] === 'level') putSlot(out, at, slot, from, space, false)
      if (names[slot] === 'message') putSlot(out, at, slot, space + 1, end, false)
    }
    return true
  }

  // Returns all fields of a line that scan has accepted. Called when a whole event is needed.
  fields(b${typed(': Buffer')}, start${typed(': number')}, end${typed(': number')}) {
    const from = behindMark(b, start, end)
    const space = endOfWord(b, from, end)
    return { level: b.toString('utf8', from, space), message: b.toString('utf8', space + 1, end) }
  }

  ${typed('override ')}encode({ level, message }${typed(': Fields')}) {
    const word = String(level ?? '').replace(/\\s+/g, '_')
    return \`\${word || '-'} \${String(message ?? '').replace(/[\\r\\n]+/g, ' ')}\`
  }
}

const definition = defineCodec({
  contract: 1,
  name: '${name}',
  summary: 'Lines that begin with their level.',
  options: NO_OPTIONS,
  form: 'fields',
  expects: 'a level and a text',
  undecodedHelp: 'Lines without a level, which were kept as text.',
  joinsLines: false,
  contentType: 'text/plain',
  examples: [
    { title: 'A warning', yaml: '', line: 'WARN disk full', event: { level: 'WARN', message: 'disk full' } },
  ],
  create: () => new FirstWord(),
})

export default definition
`,
  testImports: 'checkCodec, loadPlugin',
  test: () => `test('it keeps to the contract, and reads its examples', async () => {
  assert.deepEqual(await checkCodec(plugin), [])
})
`,
  config: (file, name) => `${head(file)}
sources:
  lines:
    type: stdin
    decode: ${name}

destinations:
  out:
    type: stdout
    inputs: [lines]
    encoding: json
`,
}

export const TEMPLATES: Readonly<Record<What, Template>> = { processor, source, destination, codec }
