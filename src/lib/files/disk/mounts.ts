import { readlinkSync } from 'node:fs'

/**
 * Types of file systems that another machine or a program serves. While the server does not respond, a call about a
 * file does not return, possibly for hours.
 */
const REMOTE =
  /^(nfs4?|cifs|smb3|smbfs|fuse(\..+)?|ceph|9p|afs|autofs|lustre|beegfs|gpfs|glusterfs|ocfs2|gfs2|orangefs|virtiofs|vboxsf)$/
/** Types of REMOTE that a local program serves, and that store nothing elsewhere. Parts of /proc have this type. */
const NOT_REMOTE = new Set(['fuse.lxcfs'])
/** Limit of symbolic links in a path, as in the kernel. */
const MOST_LINKS = 40
const MOST_PATHS = 20_000

/** The mounts of this machine, as in `/proc/self/mountinfo`. */
export class Mounts {
  readonly #remoteAt = new Map<string, boolean>()
  readonly #hasRemote: boolean
  readonly #found = new Map<string, string | undefined>()

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const [before = '', after = ''] = line.split(' - ')
      const point = before.split(' ')[4]
      const type = after.split(' ')[0]!
      // A later mount at a point hides earlier ones. `/` never counts as remote, since nothing works without it.
      if (point !== undefined) this.#remoteAt.set(unescaped(point), isRemote(type) && point !== '/')
    }
    this.#hasRemote = [...this.#remoteAt.values()].includes(true)
  }

  /** Returns the first remote mount on an absolute path. Accesses nothing on that mount. */
  remoteOn(path: string): string | undefined {
    if (!this.#hasRemote) return undefined
    if (this.#found.has(path)) return this.#found.get(path)
    const found = this.#follow(path)
    if (this.#found.size >= MOST_PATHS) this.#found.clear()
    this.#found.set(path, found)
    return found
  }

  /** Forgets cached paths, since symbolic links may have changed. */
  forgetPaths(): void {
    this.#found.clear()
  }

  #follow(path: string): string | undefined {
    let parts = namesOf(path)
    let at = ''
    for (let links = 0; links <= MOST_LINKS; ) {
      const name = parts.shift()
      if (name === undefined) return undefined
      if (name === '..') {
        at = at.slice(0, at.lastIndexOf('/'))
        continue
      }
      const next = `${at}/${name}`
      if (this.#remoteAt.get(next)) return next
      const target = linkAt(next)
      if (target === undefined) at = next
      else {
        links++
        if (target.startsWith('/')) at = ''
        parts = [...namesOf(target), ...parts]
      }
    }
    return undefined
  }
}

function isRemote(type: string): boolean {
  return REMOTE.test(type) && !NOT_REMOTE.has(type)
}

/** Decodes escapes such as `\040`, which stand for spaces and some other characters. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
}

function namesOf(path: string): string[] {
  return path.split('/').filter(name => name !== '' && name !== '.')
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
