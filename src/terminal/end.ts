import { type FileSystems, fileSystems } from '../lib/files/remote/file-systems.js'

/**
 * Ends the process when all is done. Node.js waits at its exit for calls that other threads make, and one to a file server that is
 * away does not return: there is no other end then than being killed.
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
