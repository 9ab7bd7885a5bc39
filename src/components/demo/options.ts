import { z } from 'zod'
import { reaches } from '../../core/options/reach.js'

const APPS = ['web', 'checkout', 'mail', 'batch']
const MOST_APPS = 10_000

export const demoSourceOptions = z.strictObject({
  rate: z.int().min(1).max(1_000_000).default(100).describe('Events per second, of all apps together.'),
  apps: z
    .union(
      [
        z.int().min(1).max(MOST_APPS),
        z
          .array(reaches('nothing', z.string().min(1)))
          .min(1)
          .max(MOST_APPS),
      ],
      {
        error: `must be the number of apps or a list of their names, as in [cart, search]`,
      },
    )
    .default(APPS.length)
    .transform(apps => (typeof apps === 'number' ? named(apps) : apps))
    .describe(`Number of apps, or a list of their names. The first ones are named ${APPS.join(', ')}.`),
  seed: z.int().min(0).default(1).describe('The same number gives the same sequence of events.'),
})
export type DemoOptions = z.output<typeof demoSourceOptions>

function named(count: number): string[] {
  return Array.from({ length: count }, (_, i) => APPS[i] ?? `app-${i + 1}`)
}
