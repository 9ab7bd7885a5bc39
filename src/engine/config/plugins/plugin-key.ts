import { dirname, resolve } from 'node:path'

/** The key of a loaded plugin; `name` as it is written in the configuration at `file`. */
export const pluginKey = (file: string, name: string): string => JSON.stringify([dirname(resolve(file)), name])
