import { z } from 'zod'
import { defineProcessor, type ProcessorContext } from '../../core/component.js'
import { condition, pathsOf } from '../../core/condition/condition.js'
import { refuse, refuseAt } from '../../core/options/options.js'
import { addEventId, EVENT_ID } from './edit/event-id.js'
import { convert, copy, move, remove, rename } from './edit/fields.js'
import { hash } from './edit/hash.js'
import { keep } from './edit/keep.js'
import { set, setDefault } from './edit/set.js'
import type { EditStep, StepKind, Tools } from './edit/step.js'
import { join, lower, replaceStep, split, trim, truncate, upper } from './edit/texts.js'

const MOST_STEPS = 200

/** All kinds of steps, in the order of the reference. */
export const STEP_KINDS: readonly StepKind[] = [
  set,
  setDefault,
  rename,
  move,
  copy,
  remove,
  keep,
  convert,
  lower,
  upper,
  trim,
  truncate,
  split,
  join,
  replaceStep,
  hash,
  addEventId,
]

const kinds = Object.fromEntries(STEP_KINDS.map(({ name, schema }) => [name, schema.optional()]))

const step = z
  .strictObject({
    when: condition()
      .optional()
      .describe(
        'Applies the step only to events that match this condition. The condition reads the results of earlier steps.',
      ),
    ...kinds,
  })
  .transform(({ when, ...rest }, context): EditStep => {
    const given: Readonly<Record<string, unknown>> = rest
    const [name, second] = STEP_KINDS.map(({ name }) => name).filter(name => given[name] !== undefined)
    const known = STEP_KINDS.map(({ name }) => name).join(', ')
    if (name === undefined && context.issues.length > 0) return z.NEVER
    if (name === undefined) return refuse(context, `does nothing; it must have one of ${known}`)
    if (second !== undefined) {
      refuseAt(context, [second], `a step does only one thing; write this as a step of its own after ${name}`)
      return z.NEVER
    }
    const kind = STEP_KINDS.find(kind => kind.name === name)!
    return { ...given, name, when, operations: kind.operations(given[name]) }
  })

const options = z.strictObject({
  steps: z
    .array(step)
    .min(1)
    .max(MOST_STEPS)
    .describe('Steps to apply, in this order. Each step does one thing, and works on the result of earlier steps.'),
})

export const edit = defineProcessor({
  type: 'edit',
  summary: 'Changes fields of events, in steps.',
  notes:
    'A step that sets, renames, copies, converts or hashes several fields changes them one after the other. ' +
    'Steps for texts leave a missing field and null as they are, and treat numbers and booleans as texts. They fail on an array or object. ' +
    'If a step fails, such as setting `.a.b` where `.a` is a text, the event is handled as set by `on_error`, without the changes of the other steps. ' +
    'An event may grow by 1 MiB or to twice its length, whichever is more; beyond that, it is handled in the same way. Of the events that a source reads at once, those that become more than 16 times as long may take 32 MiB together. ' +
    'Values that no step changes keep their bytes.',
  options,
  fields: ({ steps }) => ({ names: namesOf(steps) }),
  usesFields: ({ steps }) => {
    const made = new Set<string>()
    return steps.flatMap(({ when, operations }) => {
      const used = [
        ...pathsOf(when),
        ...operations.flatMap(({ reads, needs }) => needs ?? (reads === 'all' ? [] : reads)),
      ]
      const found = used.filter(({ segments }) => !made.has(segments[0]))
      for (const name of operations.flatMap(({ writes }) => writes)) made.add(name.segments[0])
      return found.map(path => ({ option: 'steps', path }))
    })
  },
  examples: [
    {
      title: 'Fields from a literal and a template; one renamed, one removed',
      yaml: "steps:\n  - set: { .env: prod, .id: '${.host}-${.app:-none}' }\n  - rename: { .msg: .message }\n  - remove: [.debug]\n",
      input: ['{"msg":"started","host":"web-1","app":"cart","debug":true}', '{"msg":"ready","host":"web-2"}'],
      output: [
        '{"message":"started","host":"web-1","app":"cart","env":"prod","id":"web-1-cart"}',
        '{"message":"ready","host":"web-2","env":"prod","id":"web-2-none"}',
      ],
    },
    {
      title: 'Types, and a level from the status of a request',
      yaml: 'steps:\n  - convert: { .status: int, .took: duration }\n  - set: { .level: error }\n    when: if (.status greater_or_equal 500)\n  - default: { .level: info }\n',
      input: ['{"status":"200","took":"1.5s"}', '{"status":"503","took":"90ms"}'],
      output: ['{"status":200,"took":1500,"level":"info"}', '{"status":503,"took":90,"level":"error"}'],
    },
    {
      title: 'Texts: without white space, without numbers, not too long; tags as a list',
      yaml: "steps:\n  - trim: [.message]\n  - replace: { field: .message, pattern: '\\d+', with: N }\n  - truncate: { .message: 20 }\n  - split: { .tags: ',' }\n  - keep: [.message, .tags]\n",
      input: ['{"message":" order 4711 of customer 23 failed ","tags":"shop,eu","trace":"x"}'],
      output: ['{"message":"order N of customer ","tags":["shop","eu"]}'],
    },
  ],
  usesIds: ({ steps }) => steps.some(({ name }) => name === EVENT_ID),
  create: async ({ steps }, context) => {
    const { compileSteps, Edit } = await import('./edit/edit-processor.js')
    const tools = toolsOf(context)
    return new Edit(tools.editor, await compileSteps(steps, tools))
  },
  explains: async () => {
    const { explainSteps } = await import('./edit/edit-processor.js')
    return { findings: ({ steps }, context) => explainSteps(steps, toolsOf(context)) }
  },
})

function namesOf(steps: readonly EditStep[]): string[] {
  const written = steps.flatMap(({ operations }) => operations.flatMap(({ writes }) => writes))
  return [...new Set(written.map(({ segments }) => segments[0]))]
}

function toolsOf(context: ProcessorContext): Tools {
  return { editor: context.editor(), field: path => context.field(path), reach: context.reach }
}
