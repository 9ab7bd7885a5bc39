import type { Logger } from 'pino'

export interface Logged {
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'
  readonly fields: Readonly<Record<string, unknown>>
  readonly text: string | undefined
}

export function recordingLog(into: Logged[]): Logger {
  const at = (level: Logged['level']) => (fields: unknown, text?: string) => {
    const isText = typeof fields === 'string'
    into.push({ level, fields: isText ? {} : (fields as Logged['fields']), text: isText ? fields : text })
  }
  const log = { level: 'trace', child: () => log }
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const)
    Object.assign(log, { [level]: at(level) })
  return log as unknown as Logger
}
