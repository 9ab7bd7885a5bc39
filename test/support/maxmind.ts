/** Writes a MaxMind database of IPv4 addresses, as its format is specified: a tree of 32-bit records, and the data. */

/** A buffer is data that are encoded already. */
type Value = string | number | Buffer | { readonly [name: string]: Value }

export function maxmindDatabase(entries: Readonly<Record<string, Value>>): Buffer {
  const nodes: (number | Buffer | undefined)[][] = [[undefined, undefined]]
  for (const [range, value] of Object.entries(entries)) {
    const [address, bits] = range.split('/') as [string, string]
    const octets = address.split('.').map(Number)
    let node = 0
    for (let bit = 0; bit < Number(bits); bit++) {
      const side = (octets[bit >> 3]! >> (7 - (bit & 7))) & 1
      if (bit === Number(bits) - 1) nodes[node]![side] = encoded(value)
      else {
        nodes[node]![side] ??= nodes.push([undefined, undefined]) - 1
        node = nodes[node]![side] as number
      }
    }
  }
  const data: Buffer[] = []
  let size = 0
  const tree = Buffer.alloc(nodes.length * 8)
  nodes.flat().forEach((record, n) => {
    if (Buffer.isBuffer(record)) {
      data.push(record)
      size += record.length
    }
    const found = Buffer.isBuffer(record) ? nodes.length + 16 + size - record.length : (record ?? nodes.length)
    tree.writeUInt32BE(found, n * 4)
  })
  const metadata = encoded({
    node_count: nodes.length,
    record_size: 32,
    ip_version: 4,
    database_type: 'Test',
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1,
  })
  return Buffer.concat([tree, Buffer.alloc(16), ...data, Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'), metadata])
}

function encoded(value: Value): Buffer {
  if (Buffer.isBuffer(value)) return value
  if (typeof value === 'string') return Buffer.concat([Buffer.from([0x40 | value.length]), Buffer.from(value)])
  if (typeof value === 'number') return Buffer.from([0xc4, ...[24, 16, 8, 0].map(by => (value >> by) & 0xff)])
  const members: [string, Value][] = Object.entries(value)
  return Buffer.concat([Buffer.from([0xe0 | members.length]), ...members.flat().map(encoded)])
}
