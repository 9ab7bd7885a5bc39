import { printable } from '../../lib/printable.js'
import { type DaemonView, short, table } from './daemon-view.js'

/** The files that are furthest behind, and how full the buffers are; at most `most` of each. */
export function backlogLines({ scrape }: Pick<DaemonView, 'scrape'>, width: number, most: number): string[] {
  const files = scrape
    .all('sluice_file_unread_bytes')
    .filter(({ labels, value }) => value > 0 && labels.file !== undefined)
    .sort((a, b) => b.value - a.value)
    .slice(0, most)
    .map(({ labels, value }) => [`${printable(labels.file!)} (${labels.component_id})`, `${short(value)}B`])
  const buffers = scrape
    .all('sluice_buffer_bytes')
    .map(({ labels, value }) => {
      const max = scrape.sum('sluice_buffer_max_bytes', labels)
      const events = scrape.sum('sluice_buffer_events', labels)
      return { id: labels.component_id!, events, value, max }
    })
    .filter(({ events }) => events > 0)
    .sort((a, b) => b.value / b.max - a.value / a.max)
    .slice(0, most)
    .map(({ id, events, value, max }) => [id, short(events), `${short(value)}B`, `${short(Math.max(0, max - value))}B`])
  return [
    ...(files.length > 0 ? ['', ...table([['files furthest behind', 'unread'], ...files], width)] : []),
    ...(buffers.length > 0 ? ['', ...table([['disk buffers', 'events', 'used', 'room left'], ...buffers], width)] : []),
  ]
}
