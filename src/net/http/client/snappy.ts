interface Codecs {
  snappyCompress(body: Buffer): Buffer
}

/** Compresses to a Snappy block, without stream framing. */
export async function snappy(body: Buffer): Promise<Buffer> {
  return (await loadSnappy()).snappyCompress(body)
}

/** Loaded only for configurations with Snappy. */
export const loadSnappy = async () => (await import(new URL('../../bundle/codecs.js', import.meta.url).href)) as Codecs
