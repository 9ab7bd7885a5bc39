import { signal } from '@preact/signals'

/** Width of the page in pixels. On a phone, wide content may increase it. */
export const screenWidth = signal(innerWidth)
addEventListener('resize', () => (screenWidth.value = innerWidth))

const narrow = matchMedia('(max-width: 900px)')
/** Whether the screen is too narrow for drawings and long lines. */
export const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', () => (isNarrow.value = narrow.matches))
