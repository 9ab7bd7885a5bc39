import type { Logger } from 'pino'
import { type FromWorker, LOG_LEVELS, type LogLevel } from './messages.js'

/** A logger whose records the main thread writes into its log. `level` is the level of that log. */
export function remoteLog(level: string, post: (message: FromWorker) => void, bindings: object = {}): Logger {
  const from = level === 'silent' ? LOG_LEVELS.length : LOG_LEVELS.indexOf(level as LogLevel)
  const log: Record<string, unknown> = {
    level,
    child: (more: object) => remoteLog(level, post, { ...bindings, ...more }),
  }
  for (const [i, name] of LOG_LEVELS.entries()) {
    log[name] = (fields: object | string, text?: string) => {
      if (i < from) return
      const [own, message] = typeof fields === 'string' ? [{}, fields] : [fields, text]
      // As they would be written: what is not plain data cannot be sent.
      const plain = JSON.parse(JSON.stringify({ ...bindings, ...own }, numbered)) as object
      post({ type: 'log', level: name, fields: plain, text: message })
    }
  }
  return log as unknown as Logger
}

const numbered = (_: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)
