import { theKernel } from '../../../lib/kernel/kernel.js'
import { Snappy } from '../../../lib/kernel/snappy.js'

interface Codecs {
  snappyCompress(body: Buffer): Buffer
}

/** Compresses the parts of a body to a Snappy block, without stream framing. */
export async function snappy(parts: readonly Buffer[], bytes: number): Promise<Buffer> {
  const kernel = theKernel()
  if (kernel) return kernel.part(Snappy).compress(parts, bytes)
  return (await loadSnappy()).snappyCompress(Buffer.concat(parts, bytes))
}

/** What the kernel needs beyond WebAssembly is missing on old machines. */
const loadSnappy = async () => (await import(new URL('../../bundle/codecs.js', import.meta.url).href)) as Codecs
