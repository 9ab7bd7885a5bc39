import { z } from 'zod'

/** What the definition of a component needs besides, when only a test uses it. */
export const madeUp = (summary = '') =>
  ({ summary, options: z.strictObject({}), examples: [{ title: 'As it is', yaml: '' }] }) as const
