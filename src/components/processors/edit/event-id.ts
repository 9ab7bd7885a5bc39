import { z } from 'zod'
import { eventId } from '../../../core/event/event-id.js'
import { fieldPath } from '../../../core/options/options.js'
import { defineStep } from './step.js'

export const EVENT_ID = 'event_id'

export const addEventId = defineStep({
  name: EVENT_ID,
  schema: z
    .strictObject({ field: fieldPath().describe('The field for it.') })
    .describe(
      'Sets a field to the id of the event: 24 characters of where it was read and of its bytes at this step. It is the same when the event is read again, as after a kill, and no other event has it.',
    ),
  operations: ({ field: path }) => [
    {
      // The bytes include the changes of earlier steps.
      reads: 'all',
      needs: [],
      writes: [path],
      compile({ editor }) {
        const field = editor.field(path)
        return (batch, i) => {
          editor.set(field, eventId(batch, i))
          return undefined
        }
      },
    },
  ],
})
