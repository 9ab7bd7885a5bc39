import { z } from 'zod'
import { eventId } from '../../../core/event/event-id.js'
import { fieldPath } from '../../../core/options/options.js'
import { defineStep } from './step.js'

export const EVENT_ID = 'event_id'

export const addEventId = defineStep({
  name: EVENT_ID,
  schema: z
    .strictObject({ field: fieldPath().describe('Field for the id.') })
    .describe(
      'Sets a field to the unique id of the event: 24 characters, derived from its position in the source and its bytes at this step. The id stays the same when the event is read again.',
    ),
  operations: ({ field: path }) => [
    {
      // The id depends on all bytes of the event, so the changes of earlier steps must be written first.
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
