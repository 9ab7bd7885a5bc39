import { OptionalPackage } from '../../../core/optional-package.js'

export const snappyPackage = new OptionalPackage<{ snappyCompress(body: Buffer): Buffer }>(
  '@platformatic/wasm-utils',
  '0.2',
  () => import('@platformatic/wasm-utils'),
)

/** Compresses to a Snappy block, without stream framing. */
export async function snappy(body: Buffer): Promise<Buffer> {
  return (await snappyPackage.load('compression')).snappyCompress(body)
}
