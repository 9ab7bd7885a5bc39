import { effect } from '@preact/signals'
import { stored } from './stored.js'

const THEMES = ['as the system', 'light', 'dark'] as const

export const theme = stored<(typeof THEMES)[number]>('theme', 'as the system')

effect(() => {
  document.documentElement.dataset.theme = theme.value
})

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!
}
