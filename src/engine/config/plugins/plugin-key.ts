import { dirname, resolve } from 'node:path'

/** The key of a loaded plugin. `name`: as written in the configuration `file`. */
export const pluginKey = (file: string, name: string): string => JSON.stringify([dirname(resolve(file)), name])
