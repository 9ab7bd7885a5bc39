/** Resolves when there is room for more. */
export async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  if (!stream.write(text)) await new Promise(resolve => stream.once('drain', resolve))
}
