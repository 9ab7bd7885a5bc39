import { type FileSystems, fileSystems } from '../../lib/files/remote/file-systems.js'

/**
 * Ends the process when all work is done. On exit Node.js waits for calls in other threads, and a call to an
 * unreachable file server never returns: only a signal ends the process then.
 */
export async function endProcess(
  exit: () => void,
  stderr: { write(text: string): unknown },
  systems: FileSystems = fileSystems,
): Promise<void> {
  const mount = await systems.stuck()
  if (mount === undefined) return exit()
  stderr.write(
    `sluice: a call to the file system at ${mount} does not return; all else is done, the process kills itself\n`,
  )
  process.kill(process.pid, 'SIGKILL')
}
