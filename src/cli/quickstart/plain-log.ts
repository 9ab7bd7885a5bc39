/** Takes the daemon's JSON log in place of stderr, and writes each line of at least `level` as a person reads it. */
export function plainLog(stderr: Pick<NodeJS.WritableStream, 'write'>, level: number): NodeJS.WriteStream {
  const write = (line: string) => {
    const text = plain(line, level)
    return text === undefined || stderr.write(`${text}\n`)
  }
  return { write } as NodeJS.WriteStream
}

function plain(line: string, least: number): string | undefined {
  try {
    const { level, time: _time, pid: _pid, msg, ...fields } = JSON.parse(line) as Record<string, unknown>
    if (Number(level) < least) return undefined
    const text = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
    return `sluice: ${[msg, ...Object.entries(fields).map(([name, value]) => `${name}=${text(value)}`)].join(' ')}`
  } catch {
    return line.trimEnd()
  }
}
