import { z } from 'zod'

export const persistOptions = {
  persist: z
    .boolean()
    .default(false)
    .describe(
      'Whether buckets are saved in data_dir, about once a second and at the end, so that a restart or a kill does not give every bucket a new window. Not with `scope: cluster`.',
    ),
}
